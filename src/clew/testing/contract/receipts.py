"""Receipts: a repeated commit is recognised."""

from __future__ import annotations

from itertools import cycle, islice

import pytest
from msgspec.structs import replace

from clew.errors import ConflictError, PermissionDeniedError
from clew.model.commit import Applied, Commit, Removal
from clew.model.queries import JournalQuery
from clew.model.records import Basis
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED, StaleBasisError
from clew.testing.build import checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage


class ReceiptContract(ContractPart):
    def test_a_repeated_commit_changes_nothing_and_says_so(self, store: DrivenStorage) -> None:
        made = full_commit()
        first = store.apply(made)
        before = store.everything()
        assert self.answers_get_lost or not first.repeated
        assert store.apply(made) == replace(first, repeated=True)
        assert store.everything() == before

    def test_a_repeated_commit_tells_what_the_first_one_did(self, store: DrivenStorage) -> None:
        made = commit(checkpoint=checkpoint("c2"), at=later(1))
        store.apply_all(*chain(1), made, commit(checkpoint=checkpoint("c3"), values=row(0, 2)))
        again = store.apply(made)
        assert (again.parent_id, again.sequence, again.created_at) == ("c1", 2, later(1))
        assert again.basis == store.page().basis

    def test_a_commit_twice_in_one_batch_is_applied_once(self, store: DrivenStorage) -> None:
        made = full_commit()
        first, second = store.outcomes(made, made)
        assert isinstance(first, Applied)
        assert self.answers_get_lost or not first.repeated
        assert second == replace(first, repeated=True)
        assert store.checkpoint_ids() == ["c1"]

    def test_a_repeated_commit_does_not_undo_what_came_after_it(self, store: DrivenStorage) -> None:
        old = commit(messages=[message("m1", "old")], thread=fields("old"))
        removal = commit(remove=Removal(messages=("m2",)))
        store.apply_all(old, removal)
        store.apply(commit(messages=[message("m1", "new"), message("m2")], thread=fields("new")))
        assert [outcome.repeated for outcome in store.apply_all(old, removal)] == [True, True]
        assert [message.text for message in store.messages()] == ["new", "hello"]
        assert store.known().text == "new"

    def test_a_commit_is_recognised_as_long_as_its_own_checkpoint_is_there(self, store: DrivenStorage) -> None:
        made = full_commit(commit_id="c1")
        store.apply(made)
        store.outcomes(*(commit(messages=[message("m1", str(number))]) for number in range(2 * RECEIPTS_KEPT)))
        store.outcomes(*(commit(checkpoint=checkpoint(f"d{number}")) for number in range(RECEIPTS_KEPT)))
        assert store.apply(made).repeated

    def test_the_last_commits_without_a_checkpoint_are_recognised(self, store: DrivenStorage) -> None:
        made = [commit(messages=[message("m1", str(number))]) for number in range(RECEIPTS_KEPT)]
        store.outcomes(*made)
        outcomes = store.outcomes(*made)
        assert all(isinstance(outcome, Applied) and outcome.repeated for outcome in outcomes)
        assert store.messages()[0].text == str(RECEIPTS_KEPT - 1)

    @pytest.mark.parametrize(("kinds", "together"), [("ms", 1), ("ms", 100), ("mms", 100), ("msr", 100)])
    def test_the_receipts_of_a_thread_are_bounded_whatever_is_written(
        self, journaling: DrivenStorage, kinds: str, together: int
    ) -> None:
        basis = journaling.apply(commit(values=row(0), checkpoint=checkpoint("first"))).basis
        assert basis is not None
        count = 2 * (RECEIPTS_KEPT + RECEIPTS_PRUNED)
        made = [self._of_kind(kind, number, basis) for number, kind in enumerate(islice(cycle(kinds), count))]
        for first in range(0, len(made), together):
            outcomes = journaling.outcomes(*made[first : first + together])
            assert all(isinstance(outcome, Applied) for outcome in outcomes)
        kept = journaling.receipts()
        assert len(kept) <= RECEIPTS_KEPT + RECEIPTS_PRUNED
        order = {each.commit_id: number for number, each in enumerate(made)}
        assert kept == sorted(kept, key=order.__getitem__)
        last = made[-RECEIPTS_KEPT:]
        without_own = [each.commit_id for each in last if each.checkpoint is None]
        assert [each for each in kept if each in without_own] == without_own
        outcomes = journaling.outcomes(*last)
        assert all(isinstance(outcome, Applied) and outcome.repeated for outcome in outcomes)
        assert journaling.receipts() == kept

    def _of_kind(self, kind: str, number: int, basis: Basis) -> Commit:
        if kind == "m":
            return commit(messages=[message("m", str(number))])
        if kind == "r":
            return commit(remove=Removal(messages=("m",)))
        return commit(commit_id=f"s{number}", basis=basis, checkpoint=checkpoint(f"s{number}"))

    def test_a_commit_brings_receipts_from_elsewhere(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="a", messages=[message("m1")]))
        brought = [f"from elsewhere {number}" for number in range(RECEIPTS_KEPT)]
        bringing = commit(commit_id="b", thread=fields("a copy"), receipts=brought)
        journaling.apply(bringing)
        known = journaling.receipts()
        assert set(known[-1 - len(brought) :]) == {*brought, "b"}
        before = journaling.everything()
        for commit_id in (*brought[:3], brought[-1], "b"):
            assert journaling.apply(commit(commit_id=commit_id, messages=[message("m1", "again")])).repeated
            own = commit(commit_id=commit_id, values=row(0), checkpoint=checkpoint(commit_id))
            assert journaling.apply(own).repeated
        assert journaling.apply(bringing).repeated
        assert (journaling.everything(), journaling.receipts()) == (before, known)
        journaling.apply(deletion())
        assert journaling.receipts() == []
        assert self.answers_get_lost or not journaling.apply(commit(commit_id=brought[0], thread=fields())).repeated

    def test_receipts_from_elsewhere_are_bounded_too(self, journaling: DrivenStorage) -> None:
        for number in range(5):
            brought = [f"{number}/{place}" for place in range(RECEIPTS_KEPT)]
            journaling.apply(commit(messages=[message("m1", str(number))], receipts=brought))
        known = journaling.receipts()
        assert RECEIPTS_KEPT <= len(known) <= RECEIPTS_KEPT + RECEIPTS_PRUNED + 1
        assert len(set(brought) & set(known)) >= RECEIPTS_KEPT - 1, "the last receipts are kept"

    def test_receipts_alone_make_no_thread(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(receipts=["elsewhere"]))
        assert (journaling.threads(), journaling.receipts()) == ([], [])

    def test_receipts_are_only_told_if_asked_for(self, journaling: DrivenStorage) -> None:
        journaling.apply(commit(commit_id="a", messages=[message("m1")], journal=b"j"))
        asked = JournalQuery(thread_id="t")
        assert journaling.run(journaling.storage.journal(asked)).receipts == ()
        asked = JournalQuery(thread_id="t", receipts=True)
        page = journaling.run(journaling.storage.journal(asked))
        assert ([each.commit_id for each in page.entries], page.receipts, page.count) == (["a"], ("a",), 1)
        assert journaling.receipts("nowhere") == []

    def test_the_receipt_of_a_commit_outlives_its_checkpoint(self, journaling: DrivenStorage) -> None:
        journaling.apply_all(full_commit(commit_id="c1"), commit(commit_id="x", checkpoint=checkpoint("c2")))
        journaling.apply(commit(commit_id="y", checkpoint=checkpoint("c1")))
        assert set(journaling.receipts()) >= {"c1", "x", "y"}
        journaling.apply(commit(commit_id="z", remove=Removal(state=True)))
        assert set(journaling.receipts()) >= {"c1", "x", "y", "z"}

    def test_a_fork_that_comes_again_is_recognised(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        fork = commit("fork", fork=fork_of("t"))
        first = store.apply(fork)
        store.apply(commit("fork", checkpoint=checkpoint("c2")))
        again = store.apply(fork)
        assert again.repeated and (again.parent_id, again.sequence) == (None, first.sequence)
        assert store.checkpoint_ids("fork") == ["c2", "copy"]

    def test_the_same_commit_id_in_another_thread_is_another_commit(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit("t", commit_id="one"), full_commit("u", commit_id="one"))
        assert store.checkpoint_ids("u") == ["c1"]

    def test_a_commit_is_recognised_when_its_checkpoint_is_gone(self, store: DrivenStorage) -> None:
        first = full_commit()
        second = commit(checkpoint=checkpoint("c2"))
        store.apply_all(first, second)
        store.apply(commit(remove=Removal(checkpoints=(("", "c2"),))))
        assert store.apply(second).repeated
        store.apply(commit(remove=Removal(state=True)))
        assert store.apply(first).repeated
        assert store.checkpoint_ids() == []

    def test_the_receipts_of_a_thread_go_with_it(self, store: DrivenStorage) -> None:
        made = full_commit()
        store.apply_all(made, deletion())
        again = store.apply(made)
        assert self.answers_get_lost or not again.repeated
        assert store.checkpoint_ids() == ["c1"]

    def test_a_commit_is_recognised_before_its_basis_is_looked_at(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit()).basis
        made = commit(
            basis=basis, fence=None, values=row(3), checkpoint=checkpoint("c2", parent="c1", on_conflict="reject")
        )
        store.apply(made)
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"),))))
        assert store.apply(made).repeated

    def test_another_user_learns_nothing_from_repeating_a_commit(self, store: DrivenStorage) -> None:
        made = full_commit(user="ann")
        store.apply(made)
        store.refused(replace(made, user="bob"), PermissionDeniedError)

    def test_a_failed_commit_leaves_no_receipt(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        made = commit(values=row(4), messages=[message("m2")])
        store.refused(made, StaleBasisError)
        store.apply(commit(values=row(3)))
        assert store.apply(made).basis is not None
        assert store.message_ids() == ["m1", "m2"]

    def test_a_rejected_checkpoint_may_be_tried_again_under_its_commit_id(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(2))
        made = commit(checkpoint=checkpoint("c3", parent="c1", on_conflict="reject"))
        store.refused(made, ConflictError)
        store.apply(commit(remove=Removal(checkpoints=(("", "c2"),))))
        assert store.apply(made).parent_id == "c1"
