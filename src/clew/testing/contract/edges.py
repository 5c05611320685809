"""Edges of the rules for receipts: the oldest commit that must be recognised, and pruning that falls on one kind of commit."""

from __future__ import annotations

from itertools import cycle, islice

import pytest

from clew.model.commit import Applied, Commit, Removal
from clew.model.records import Basis
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED
from clew.testing.build import checkpoint, commit, message, row
from clew.testing.contract.base import ContractPart
from clew.testing.driver import DrivenStorage

ENDS = {
    "removed": commit(remove=Removal(checkpoints=(("", "x"),))),
    "cleared": commit(remove=Removal(state=True)),
    "replaced": commit(checkpoint=checkpoint("x", body=b"another")),
}
"""Commits that take the checkpoint `x` away, by which commit `x` is recognised."""


class EdgeContract(ContractPart):
    @pytest.mark.parametrize("end", ENDS)
    def test_the_oldest_of_the_last_commits_is_recognised_when_its_checkpoint_goes(
        self, store: DrivenStorage, end: str
    ) -> None:
        made = commit(commit_id="x", checkpoint=checkpoint("x"))
        store.apply(made)
        store.outcomes(*_messages(RECEIPTS_KEPT - 2))
        store.apply(ENDS[end])
        before = store.everything()
        assert store.apply(made).repeated
        assert store.everything() == before

    def test_the_last_commits_are_recognised_at_any_time(self, store: DrivenStorage) -> None:
        """Also right after older receipts were pruned."""
        made = _messages(RECEIPTS_KEPT + 3 * RECEIPTS_PRUNED)
        store.outcomes(*made[: RECEIPTS_KEPT - 1])
        for new, oldest in zip(made[RECEIPTS_KEPT - 1 :], made, strict=False):
            _, again = store.apply_all(new, oldest)
            assert again.repeated
        assert [each.text for each in store.messages()] == [str(len(made) - 1)]

    def test_a_commit_is_recognised_by_the_checkpoint_that_it_made_a_moment_before(self, store: DrivenStorage) -> None:
        basis = store.apply_all(*(commit(commit_id=name, checkpoint=checkpoint(name)) for name in ("a", "b")))[-1].basis
        first = commit(commit_id="x", basis=basis, checkpoint=checkpoint("x"))
        again = commit(commit_id="x", basis=basis, checkpoint=checkpoint("y"))
        outcomes = store.outcomes(first, again)
        assert [isinstance(each, Applied) and each.repeated for each in outcomes][1:] == [True]
        assert store.checkpoint_ids() == ["x", "b", "a"]

    @pytest.mark.parametrize("namespace", ["", "sub"])
    def test_an_old_commit_is_recognised_by_its_own_checkpoint_in_any_namespace(
        self, store: DrivenStorage, namespace: str
    ) -> None:
        made = commit(commit_id="x", checkpoint=checkpoint("x", namespace=namespace))
        store.apply(made)
        store.outcomes(*_messages(RECEIPTS_KEPT + RECEIPTS_PRUNED))
        store.outcomes(*_messages(RECEIPTS_PRUNED))
        before = store.everything()
        assert store.apply(made).repeated
        assert store.everything() == before

    @pytest.mark.parametrize("kinds", ["sm", "rm"])
    def test_receipts_are_bounded_whatever_kind_of_commit_has_the_even_numbers(
        self, journaling: DrivenStorage, kinds: str
    ) -> None:
        basis = journaling.apply(commit(values=row(0), checkpoint=checkpoint("first"))).basis
        assert basis is not None
        made = [_of_kind(kind, number, basis) for number, kind in enumerate(islice(cycle(kinds), 8 * 128))]
        for first in range(0, len(made), 128):
            outcomes = journaling.outcomes(*made[first : first + 128])
            assert all(isinstance(outcome, Applied) for outcome in outcomes)
            assert len(journaling.receipts()) <= RECEIPTS_KEPT + RECEIPTS_PRUNED
        # That may be because no more are told of: so the first must be forgotten, too.
        journaling.apply(made[1])
        assert [each.text for each in journaling.messages()] == ["1"]

    def test_a_commit_without_a_checkpoint_is_forgotten_in_the_end(self, store: DrivenStorage) -> None:
        first, *others = _messages(RECEIPTS_KEPT + 2 * RECEIPTS_PRUNED + 2)
        store.apply(first)
        store.outcomes(*others)
        store.apply(first)
        assert [each.text for each in store.messages()] == ["0"]

    def test_a_usual_commit_brings_receipts_too(self, journaling: DrivenStorage) -> None:
        basis = journaling.apply(commit(commit_id="a", values=row(0), checkpoint=checkpoint("a"))).basis
        basis = journaling.apply(commit(commit_id="b", basis=basis, values=row(1), checkpoint=checkpoint("b"))).basis
        usual = commit(commit_id="c", basis=basis, values=row(2), checkpoint=checkpoint("c"), receipts=["elsewhere"])
        journaling.apply(usual)
        assert journaling.apply(commit(commit_id="elsewhere", messages=[message("m")])).repeated
        assert journaling.messages() == []


def _messages(count: int) -> list[Commit]:
    return [commit(messages=[message("m", str(number))]) for number in range(count)]


def _of_kind(kind: str, number: int, basis: Basis) -> Commit:
    if kind == "m":
        return commit(messages=[message("m", str(number))])
    if kind == "r":
        return commit(remove=Removal(messages=("m",)))
    return commit(commit_id=f"s{number}", basis=basis, checkpoint=checkpoint(f"s{number}"))
