"""The rules of a commit, each on every path: cold, warm, batched with others, and as a retry."""

from __future__ import annotations

import pytest

from clew.errors import ClewError
from clew.model.commit import Applied, Commit
from clew.storage.rules import RULES, Rule
from clew.testing.build import checkpoint, commit, message
from clew.testing.contract.base import ContractPart
from clew.testing.contract.cases import ANN, CASES, Case, Scene, new_scene
from clew.testing.driver import DrivenStorage

PATHS = ("cold", "warm", "batched", "retried")
EACH = [
    pytest.param(rule, case, path, id=f"{rule.name}-{name.replace(' ', '_')}-{path}")
    for rule in RULES
    for name, case in CASES.get(rule.name, {}).items()
    for path in PATHS
]


class RuleContract(ContractPart):
    @pytest.mark.parametrize(("rule", "case", "path"), EACH)
    def test_a_rule_refuses_what_breaks_it_and_lets_its_neighbour_through(
        self, store: DrivenStorage, rule: Rule, case: Case, path: str
    ) -> None:
        for capability in case.needs:
            if not getattr(store.capabilities, capability):
                pytest.skip(f"{store.capabilities.name} has not: {capability}")
        scene = new_scene(store)
        case.prepare(scene)
        getattr(self, f"_{path}")(scene, rule, case)

    def _cold(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Each by a storage that has just been opened, if what is stored outlives it."""
        reopen(scene.store)
        self._refuses(scene, rule, case.refused(scene))
        reopen(scene.store)
        self._applies(scene, case.allowed(scene))

    def _warm(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Each right after a usual commit to the thread, by the same storage."""
        scene.apply(case.before(scene))
        self._refuses(scene, rule, case.refused(scene))
        scene.apply(case.before(scene))
        self._applies(scene, case.allowed(scene))

    def _batched(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Each in one call, among commits of other threads and between two of its own."""
        store = scene.store
        for made, refused in ((case.refused, True), (case.allowed, False)):
            before = case.before(scene)
            scene.saw(before)
            asked = made(scene)
            tail = commit("t", user=ANN, messages=[message(asked.commit_id)])
            others = [commit(name, user=ANN, checkpoint=checkpoint(asked.commit_id)) for name in ("o", "p")]
            known = store.checkpoint_ids(asked.thread_id, namespace=None)
            outcomes = store.outcomes(others[0], before, asked, tail, others[1])
            for each in (*outcomes[:2], *outcomes[3:]):
                assert isinstance(each, Applied), f"{each!r} came of a commit beside {asked}"
            if refused:
                self._is_refusal(rule, asked, outcomes[2])
                # Only the two around it came in.
                assert store.values("t").sequence == scene.sequence + 1
                assert store.values("t").basis == scene.basis
                found = store.checkpoint_ids(asked.thread_id, namespace=None)
                ours = [before.checkpoint.checkpoint_id] if before.checkpoint and asked.thread_id == "t" else []
                assert found == [*ours, *known]
            else:
                self._is_applied(asked, outcomes[2])
            page = store.values("t")
            assert page.basis is not None
            scene.basis, scene.sequence, scene.last = page.basis, page.sequence, None

    def _retried(self, scene: Scene, rule: Rule, case: Case) -> None:
        """The refused one again and again; then once more under its id, when it may be applied."""
        refused = case.refused(scene)
        for _ in range(2):
            self._refuses(scene, rule, refused)
        self._applies(scene, case.clear(scene, refused))

    def _refuses(self, scene: Scene, rule: Rule, asked: Commit) -> None:
        store = scene.store
        before = store.everything()
        (outcome,) = store.outcomes(asked)
        self._is_refusal(rule, asked, outcome)
        assert store.everything() == before

    def _applies(self, scene: Scene, asked: Commit) -> None:
        """It is applied, once, however often it comes."""
        store = scene.store
        before = store.everything()
        (outcome,) = store.outcomes(asked)
        self._is_applied(asked, outcome)
        after = store.everything()
        assert after != before
        for again in (store.outcomes(asked), store.outcomes(asked, asked)):
            for each in again:
                assert isinstance(each, Applied) and each.repeated, f"{each!r} came of {asked} again"
        reopen(store)
        (again_cold,) = store.outcomes(asked)
        assert isinstance(again_cold, Applied) and again_cold.repeated
        assert store.everything() == after

    def _is_refusal(self, rule: Rule, asked: Commit, outcome: Applied | ClewError) -> None:
        what = f"{outcome!r} came of {asked}, which the rule {rule.name!r} forbids"
        if rule.error is None:
            assert isinstance(outcome, Applied) and outcome.repeated, what
        else:
            assert type(outcome) is rule.error, what

    def _is_applied(self, asked: Commit, outcome: Applied | ClewError) -> None:
        assert isinstance(outcome, Applied), f"{outcome!r} came of {asked}"
        assert self.answers_get_lost or not outcome.repeated, f"{asked} was taken for one that came before"


def reopen(store: DrivenStorage) -> None:
    """Open the storage anew, so that it knows nothing, if what is stored outlives it."""
    if store.capabilities.durable:
        store.reopen()
