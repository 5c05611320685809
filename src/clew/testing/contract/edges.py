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
        store.apply_all(*_messages(RECEIPTS_KEPT - 2))
        store.apply(ENDS[end])
        before = store.everything()
        assert store.apply(made).repeated
        assert store.everything() == before

    @pytest.mark.parametrize("namespace", ["", "sub"])
    def test_an_old_commit_is_recognised_by_its_own_checkpoint_in_any_namespace(
        self, store: DrivenStorage, namespace: str
    ) -> None:
        made = commit(commit_id="x", checkpoint=checkpoint("x", namespace=namespace))
        store.apply(made)
        store.apply_all(*_messages(RECEIPTS_KEPT + RECEIPTS_PRUNED))
        store.apply_all(*_messages(RECEIPTS_PRUNED))
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


def _messages(count: int) -> list[Commit]:
    return [commit(messages=[message("m", str(number))]) for number in range(count)]


def _of_kind(kind: str, number: int, basis: Basis) -> Commit:
    if kind == "m":
        return commit(messages=[message("m", str(number))])
    if kind == "r":
        return commit(remove=Removal(messages=("m",)))
    return commit(commit_id=f"s{number}", basis=basis, checkpoint=checkpoint(f"s{number}"))
