"""Durability: a reopened storage has everything that was acknowledged."""

from __future__ import annotations

import pytest

from clew.errors import ConflictError, LeaseError, ThreadDeletedError
from clew.model.commit import After, Removal
from clew.storage.protocol import RECEIPTS_KEPT, Own, StaleBasisError
from clew.testing.build import attachment, checkpoint, commit, deletion, fork_of, later, message, messages, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage


class DurabilityContract(ContractPart):
    @pytest.fixture
    def durable(self, store: DrivenStorage) -> DrivenStorage:
        """Return the storage, which must be durable."""
        assert store.capabilities.durable
        return store

    def test_everything_is_there_after_opening_again(self, durable: DrivenStorage) -> None:
        durable.apply_all(full_commit(user="ann"), full_commit("u", at=later(5)))
        durable.apply(commit("u", values=row(3), checkpoint=checkpoint("s", namespace="sub", covers=[(1, 4)])))
        durable.apply(commit("u", attachments=[attachment("s", "k", namespace="sub")], messages=messages("a\0b", "Çç")))
        durable.apply_all(commit("f", fork=fork_of("u")), commit("g", fork=fork_of("f")), deletion("f"))
        durable.apply(commit("u", remove=Removal(messages=("m0",))))
        before = durable.everything()
        for _ in range(2):
            durable.reopen()
            assert durable.everything() == before
            assert durable.message_ids("u", search="ç") == ["m1"]

    def test_own_records_are_there_after_opening_again(self, durable: DrivenStorage) -> None:
        durable.put_own(Own.CLEANUP, b"one")
        durable.put_own(Own.CLEANUP, b"two", instead_of=b"one")
        durable.reopen()
        assert durable.own(Own.CLEANUP) == b"two"

    def test_writing_goes_on_after_opening_again(self, durable: DrivenStorage) -> None:
        basis = durable.apply(full_commit()).basis
        durable.apply(commit("f", fork=fork_of("t")))
        durable.reopen()
        outcome = durable.apply(commit(basis=basis, values=row(3), checkpoint=checkpoint("c2", covers=[(0, 4)])))
        assert (outcome.parent_id, outcome.sequence) == ("c1", 2)
        assert durable.page(limit=1, detail="state").rows == (row(0, 3), row(3))
        durable.apply(commit("f", values=row(3, data=b"f"), checkpoint=checkpoint("c2", covers=[(0, 4)])))
        assert durable.page("f", limit=1, detail="state").rows == (row(0, 3), row(3, data=b"f"))

    def test_receipts_are_there_after_opening_again(self, durable: DrivenStorage) -> None:
        others = (commit(messages=[message("m1", str(number))]) for number in range(RECEIPTS_KEPT - 3))
        commits = [*chain(2), *others]
        durable.outcomes(*commits)
        durable.apply(commit(remove=Removal(checkpoints=(("", "c1"),)), checkpoint=checkpoint("c3")))
        durable.reopen()
        assert [outcome.repeated for outcome in durable.apply_all(*commits)] == [True] * len(commits)

    def test_a_deleted_thread_stays_deleted_after_opening_again(self, durable: DrivenStorage) -> None:
        basis = durable.apply(full_commit()).basis
        durable.apply(deletion())
        durable.reopen()
        assert durable.threads() == []
        durable.refused(commit(basis=basis, messages=[message("m2")]), ThreadDeletedError)
        durable.apply(full_commit())
        durable.reopen()
        durable.refused(commit(basis=basis, messages=[message("m2")]), ThreadDeletedError)

    def test_leases_and_tokens_are_there_after_opening_again(self, durable: DrivenStorage) -> None:
        old = durable.lease("me", "gone").token
        durable.apply_all(full_commit("gone"), deletion("gone"))
        lease = durable.lease("me", ttl=30)
        durable.reopen()
        assert durable.lease("you", now=later(1)) == lease
        durable.apply(commit(fence=lease.token, messages=[message("m1")]))
        assert durable.lease("you", now=later(31)).token > lease.token > old
        durable.refused(commit(fence=lease.token, messages=[message("m2")]), LeaseError)

    def test_what_failed_is_not_there_after_opening_again(self, durable: DrivenStorage) -> None:
        durable.apply(full_commit())
        before = durable.everything()
        rejected = checkpoint("c2", parent="elsewhere", on_conflict="reject")
        durable.refused(commit(checkpoint=rejected, messages=[message("m2")], values=row(3)), ConflictError)
        durable.reopen()
        assert durable.everything() == before

    def test_the_journal_and_the_chains_are_there_after_opening_again(self, durable: DrivenStorage) -> None:
        if not durable.capabilities.journals:
            pytest.skip(f"{durable.capabilities.name} keeps no journal")
        durable.apply_all(
            full_commit(commit_id="a", journal=b"1"), commit(commit_id="b", remove=Removal(), journal=b"2")
        )
        entries = durable.journal()
        durable.reopen()
        assert durable.journal() == entries
        durable.apply(commit(commit_id="c", messages=[message("m2")], after=After("b"), journal=b"3"))
        durable.run(durable.storage.trim(entries))
        durable.reopen()
        assert [(each.commit_id, each.after) for each in durable.journal()] == [("c", "b")]
        durable.apply(commit(commit_id="gone", remove=Removal(thread=True), after=After("c")))
        durable.run(durable.storage.trim(durable.journal()))
        durable.reopen()
        durable.refused(commit(messages=[message("m")], after=After(None)), StaleBasisError)
        durable.apply(commit(messages=[message("m")], after=After("gone")))
