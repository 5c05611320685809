"""The rules of a commit on every path: cold, warm, batched with other threads, batched
with the same thread, retried."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER
from clew.storage.rules import RULES, Rule
from clew.testing.build import checkpoint, commit, message, row
from clew.testing.contract.base import ContractPart
from clew.testing.contract.cases import CASES
from clew.testing.contract.scene import ANN, Case, Scene, new_scene
from clew.testing.driver import DrivenStorage

PATHS: Final = ("cold", "warm", "batched", "between", "retried")


class RuleContract(ContractPart):
    paths: tuple[str, ...] = PATHS
    """The paths on which each rule runs. A storage may leave out those that another test class runs
    on the same code. With `CLEW_FRESH=1`, all paths run."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "path" in metafunc.fixturenames:
            paths = PATHS if os.environ.get("CLEW_FRESH") else self.paths
            each = [
                pytest.param(rule, case, path, id=f"{rule.name}-{name.replace(' ', '_')}-{path}")
                for rule in RULES
                for name, case in CASES.get(rule.name, {}).items()
                for path in paths
            ]
            metafunc.parametrize(("rule", "case", "path"), each)

    def test_a_rule_refuses_what_breaks_it_and_lets_its_neighbour_through(
        self, store: DrivenStorage, rule: Rule, case: Case, path: str
    ) -> None:
        for capability in case.needs:
            if not getattr(store.capabilities, capability):
                pytest.skip(f"{store.capabilities.name} lacks the capability {capability}")
        scene = new_scene(store)
        case.prepare(scene)
        getattr(self, f"_{path}")(scene, rule, case)

    def _cold(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Apply each commit with a freshly opened storage, if it is durable."""
        reopen(scene.store)
        self._refuses(scene, rule, case.refused(scene))
        reopen(scene.store)
        self._applies(scene, case.allowed(scene))

    def _warm(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Apply each commit right after a typical commit to the same thread and storage."""
        scene.apply(case.before(scene))
        self._refuses(scene, rule, case.refused(scene))
        scene.apply(case.before(scene))
        self._applies(scene, case.allowed(scene))

    def _batched(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Apply each commit in one call with commits of other threads."""
        store = scene.store
        for made, refused in ((case.refused, True), (case.allowed, False)):
            scene.apply(case.before(scene))
            asked = made(scene)
            before = {name: store.page(name, namespace=None, detail="state") for name in ("t", asked.thread_id)}
            first, second = ([usual_of(f"o{number}"), usual_of(f"p{number}")] for number in range(2))
            outcomes = store.outcomes(*first, asked, *second)
            for each in (*outcomes[:2], *outcomes[3:]):
                assert isinstance(each, Applied), f"the outcome of a commit next to {asked} was {each!r}"
            if refused:
                self._is_refusal(rule, asked, outcomes[2])
                for name, page in before.items():
                    assert store.page(name, namespace=None, detail="state") == page
            else:
                self._is_applied(asked, outcomes[2])

    def _between(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Apply each commit in one call, between two commits of its own thread and those of others."""
        store = scene.store
        for made, refused in ((case.refused, True), (case.allowed, False)):
            before = case.before(scene)
            scene.saw(before)
            asked = made(scene)
            # It does not make the refused commit valid, even if the whole call is repeated.
            tail = commit("t", user=ANN, messages=[message(asked.commit_id)], journal=before.journal)
            others = [usual_of(name) for name in ("o", "p")]
            known = store.checkpoint_ids(asked.thread_id, namespace=None)
            outcomes = store.outcomes(others[0], before, asked, tail, others[1])
            for each in (*outcomes[:2], *outcomes[3:]):
                assert isinstance(each, Applied), f"the outcome of a commit next to {asked} was {each!r}"
            if refused:
                self._is_refusal(rule, asked, outcomes[2])
                # Only the two commits around it were applied.
                assert store.values("t").sequence == scene.sequence + 1
                assert store.values("t").basis == scene.basis
                found = store.checkpoint_ids(asked.thread_id, namespace=None)
                ours = [before.checkpoint.checkpoint_id] if before.checkpoint and asked.thread_id == "t" else []
                assert found == [*ours, *known]
            else:
                self._is_applied(asked, outcomes[2])
            page = store.values("t")
            assert page.basis is not None
            scene.basis, scene.sequence = page.basis, page.sequence
            scene.last = None if tail.journal is None else tail.commit_id

    def _retried(self, scene: Scene, rule: Rule, case: Case) -> None:
        """Retry the refused commit; then, with the obstacle removed, apply it under the same id."""
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
        """Check that the commit is applied once, however often it is repeated."""
        store = scene.store
        before = store.everything()
        (outcome,) = store.outcomes(asked)
        self._is_applied(asked, outcome)
        after = store.everything()
        assert after != before
        for again in (store.outcomes(asked), store.outcomes(asked, asked)):
            for each in again:
                assert isinstance(each, Applied) and each.repeated, f"the outcome of {asked}, repeated, was {each!r}"
        assert store.everything() == after
        # The thread continues, and the storage knows its new state.
        page = store.page(asked.thread_id, limit=1)
        commit_id, next_value = new_id(), page.basis.next_value if page.basis else 0
        parts: dict[str, Any] = {"basis": page.basis, "values": row(next_value), "checkpoint": checkpoint(commit_id)}
        store.apply(commit(asked.thread_id, commit_id=commit_id, user=ANY_USER, **parts))
        after = store.everything()
        for _ in range(2):
            (outcome,) = store.outcomes(asked)
            assert isinstance(outcome, Applied) and outcome.repeated, (
                f"the outcome of {asked}, repeated later, was {outcome!r}"
            )
            reopen(store)
        assert store.everything() == after

    def _is_refusal(self, rule: Rule, asked: Commit, outcome: Applied | ClewError) -> None:
        what = f"the outcome of {asked}, which the rule {rule.name!r} forbids, was {outcome!r}"
        if rule.error is None:
            assert isinstance(outcome, Applied) and outcome.repeated, what
        else:
            assert type(outcome) is rule.error, what

    def _is_applied(self, asked: Commit, outcome: Applied | ClewError) -> None:
        assert isinstance(outcome, Applied), f"the outcome of {asked} was {outcome!r}"
        assert self.answers_get_lost or not outcome.repeated, f"{asked} was taken for a repeated commit"


def usual_of(thread_id: str) -> Commit:
    """Return a typical commit of another thread, which takes the same path."""
    commit_id = new_id()
    return commit(thread_id, commit_id=commit_id, user=ANN, checkpoint=checkpoint(commit_id))


def reopen(store: DrivenStorage) -> None:
    """Reopen the storage if it is durable, so that it has nothing cached."""
    if store.capabilities.durable:
        store.reopen()
