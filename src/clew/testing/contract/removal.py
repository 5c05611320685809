"""Removal of checkpoints, of all state and of threads."""

from __future__ import annotations

from msgspec.structs import replace

from clew.model.commit import Applied, Removal
from clew.storage.protocol import StaleBasisError
from clew.testing.build import attachment, checkpoint, commit, deletion, later, message, messages, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage

CLEARING = Removal(state=True)


class RemovalContract(ContractPart):
    def removed(self, outcome: Applied, count: int) -> bool:
        """Return whether `outcome` reports `count` removed records, if it can tell."""
        return outcome.removed == count or self.answers_get_lost

    def test_removing_checkpoints_takes_the_named_ones_and_their_attachments(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        store.apply(commit(attachments=[attachment(f"c{number}", "k") for number in (1, 2, 3)]))
        outcome = store.apply(commit(remove=Removal(checkpoints=(("", "c1"), ("", "c2"), ("", "c9"), ("x", "c3")))))
        assert self.removed(outcome, 2)
        assert store.checkpoint_ids() == ["c3"]
        assert [found.checkpoint_id for found in store.attachments()] == ["c3"]
        assert store.checkpoint("c3").parent_id == "c2"

    def test_a_thread_is_deleted_as_of_a_moment_unless_it_was_written_since(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        seen = store.values().sequence
        store.apply(commit(messages=[message("late")]))
        before = store.everything()
        store.refused(commit(remove=Removal(thread=True, as_of=seen)), StaleBasisError)
        assert store.everything() == before
        made = commit(remove=Removal(thread=True, as_of=store.values().sequence))
        assert self.removed(store.apply(made), 3)
        assert store.threads() == []
        # Its answer may have been lost: it is repeated, and there is nothing to do.
        store.apply(made)
        store.apply(full_commit())
        store.refused(replace(made, remove=Removal(thread=True, as_of=99)), StaleBasisError)
        assert store.thread_ids() == ["t"]

    def test_removing_checkpoints_leaves_values_messages_and_fields(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"),))))
        assert store.values().rows == (row(0, 3),)
        assert store.message_ids() == ["m1"]
        assert store.known().text == "name" and store.known().head is None

    def test_removing_the_head_makes_the_one_before_it_the_head(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        store.apply(commit(remove=Removal(checkpoints=(("", "c3"),))))
        assert store.checkpoint_ids(limit=1) == ["c2"]
        outcome = store.apply(commit(checkpoint=checkpoint("d")))
        assert (outcome.parent_id, outcome.sequence) == ("c2", 5)

    def test_a_checkpoint_may_come_again_after_its_removal(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(2))
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"),))))
        outcome = store.apply(commit(checkpoint=checkpoint("c1")))
        assert (outcome.parent_id, outcome.sequence) == ("c2", 4)
        assert store.checkpoint_ids() == ["c1", "c2"]

    def test_the_head_that_a_commit_removes_is_not_the_parent_of_what_it_adds(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(3))
        gone = Removal(checkpoints=(("", "c3"), ("", "c1")))
        new = checkpoint("d", parent="c2", on_conflict="reject")
        assert store.apply(commit(remove=gone, checkpoint=new)).parent_id == "c2"
        gone = Removal(checkpoints=(("", "d"),))
        assert store.apply(commit(remove=gone, checkpoint=checkpoint("e"))).parent_id == "c2"

    def test_a_checkpoint_can_be_removed_and_put_anew_in_one_commit(self, store: DrivenStorage) -> None:
        store.apply_all(*chain(2), commit(attachments=[attachment("c1", "k")]))
        outcome = store.apply(commit(remove=Removal(checkpoints=(("", "c1"),)), checkpoint=checkpoint("c1")))
        assert (outcome.parent_id, outcome.sequence) == ("c2", 4)
        assert store.checkpoint_ids() == ["c1", "c2"]
        assert store.attachments() == []

    def test_taking_out_checkpoints_counts_the_epoch_up(self, store: DrivenStorage) -> None:
        before = store.apply_all(*chain(2))[1].basis
        after = store.apply(commit(remove=Removal(checkpoints=(("", "c1"),)))).basis
        assert before is not None and after is not None
        assert after.epoch == before.epoch + 1
        assert after.incarnation == before.incarnation

    def test_taking_out_nothing_or_messages_leaves_the_epoch(self, store: DrivenStorage) -> None:
        before = store.apply(full_commit()).basis
        nothing = Removal(checkpoints=(("", "c9"), ("x", "c1")), messages=("m1", "m9"))
        outcome = store.apply(commit(remove=nothing))
        assert self.removed(outcome, 1)
        assert outcome.basis == before

    def test_clearing_takes_all_checkpoints_attachments_and_values(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(), commit(checkpoint=checkpoint("c2", namespace="sub"), values=row(3)))
        store.apply(commit(attachments=[attachment("later", "k", namespace="other")]))
        assert self.removed(store.apply(commit(remove=CLEARING)), 2)
        assert store.checkpoints(namespace=None) == () and store.attachments() == []
        assert store.values().rows == ()

    def test_clearing_leaves_messages_and_fields(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(), commit(remove=CLEARING))
        assert store.message_ids() == ["m1"]
        found = store.known()
        assert (found.text, found.data, found.head, found.checkpoint_count) == ("name", b"fields", None, 0)
        assert found.size == self.stored("t", message("m1"))

    def test_clearing_counts_the_epoch_up_even_if_there_is_nothing(self, store: DrivenStorage) -> None:
        before = store.apply(commit(messages=[message("m1")])).basis
        after = store.apply(commit(remove=CLEARING)).basis
        assert before is not None
        assert after is not None
        assert after.epoch == before.epoch + 1

    def test_after_clearing_values_are_numbered_on(self, store: DrivenStorage) -> None:
        before = store.apply(full_commit()).basis
        after = store.apply(commit(remove=CLEARING)).basis
        assert before is not None and after is not None
        assert (after.incarnation, after.epoch, after.next_value) == (before.incarnation, before.epoch + 1, 3)
        store.apply(commit(values=row(3, 2), checkpoint=checkpoint("c2", covers=[(3, 5)])))
        assert store.page(detail="state").rows == (row(3, 2),)
        assert store.checkpoint("c2").parent_id is None

    def test_deleting_a_thread_takes_everything(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(user="ann"), full_commit("u"))
        outcome = store.apply(deletion(user="ann"))
        assert outcome.basis is None and self.removed(outcome, 2)
        assert store.thread() is None and store.thread_ids() == ["u"]
        assert store.page(namespace=None).basis is None and store.values().basis is None
        assert store.attachments() == [] and store.messages() == []
        assert store.messages(search="hello") == []
        assert list(store.stats().by_thread) == ["u"]

    def test_a_thread_made_after_a_deletion_has_nothing_of_the_old_one(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(user="ann", at=later(5)), commit(remove=CLEARING, user="ann", at=later(6)))
        old = store.page().basis
        store.apply(deletion(user="ann"))
        new = store.apply(commit(user="bob", at=later(1), messages=[message("m2")], values=row(0))).basis
        assert old is not None and new is not None
        assert new.incarnation != old.incarnation and (new.epoch, new.next_value) == (0, 1)
        found = store.known()
        assert (found.user_id, found.created_at, found.updated_at) == ("bob", later(1), later(1))
        assert (found.text, found.data, found.checkpoint_count, found.head) == ("", b"", 0, None)
        assert store.message_ids() == ["m2"]
        assert store.apply(commit(checkpoint=checkpoint("c1"), user="bob")).sequence == 2

    def test_a_deletion_may_say_what_it_is_about(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit()).basis
        assert store.apply(deletion(basis=basis)).basis is None
        assert store.threads() == []

    def test_deleting_what_is_not_there_is_not_an_error(self, store: DrivenStorage) -> None:
        outcome = store.apply(deletion())
        assert (outcome.basis, outcome.removed, store.threads()) == (None, 0, [])

    def test_a_commit_that_only_removes_creates_no_thread(self, store: DrivenStorage) -> None:
        for removal in (
            CLEARING,
            Removal(messages=("m1",)),
            Removal(checkpoints=(("", "c1"),)),
            Removal(values=((0, 9),)),
        ):
            outcome = store.apply(commit(remove=removal))
            assert (outcome.basis, outcome.removed) == (None, 0)
        assert store.threads() == []

    def test_a_commit_that_removes_and_adds_creates_the_thread(self, store: DrivenStorage) -> None:
        store.apply(commit(remove=Removal(state=True, messages=("m1",)), messages=[message("m1")]))
        assert store.message_ids() == ["m1"]

    def test_removing_messages_takes_the_named_ones(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("a", "b", "c", "d")))
        assert self.removed(store.apply(commit(remove=Removal(messages=("m1", "m3", "m9")))), 2)
        assert store.message_ids() == ["m0", "m2"]
        assert store.known().message_count == 2

    def test_a_removed_message_that_comes_again_goes_to_the_end(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=messages("a", "b")))
        store.apply(commit(remove=Removal(messages=("m0",))))
        store.apply(commit(messages=[message("m0")]))
        assert store.message_ids() == ["m1", "m0"]

    def test_everything_removed_counts_in_one_outcome(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(), commit(checkpoint=checkpoint("c2"), messages=[message("m2")]))
        both = Removal(checkpoints=(("", "c1"),), messages=("m1", "m2"))
        assert self.removed(store.apply(commit(remove=both)), 3)

    def test_one_commit_can_replace_a_whole_thread(self, store: DrivenStorage) -> None:
        old = store.apply(full_commit()).basis
        outcome = store.apply(full_commit(remove=Removal(thread=True), messages=[message("m9")]))
        new = outcome.basis
        assert self.removed(outcome, 2)
        assert old is not None and new is not None and new.incarnation != old.incarnation
        assert store.message_ids() == ["m9"]
        assert store.checkpoint_ids() == ["c1"]
        assert new.next_value == 3

    def test_giving_space_back_takes_nothing_that_is_needed(self, store: DrivenStorage) -> None:
        store.apply_all(full_commit(), full_commit("u"), deletion("u"))
        before = store.everything()
        store.run(store.storage.reclaim())
        assert store.everything() == before
