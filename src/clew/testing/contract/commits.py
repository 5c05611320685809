"""Commits: atomic, with one outcome each, and checked against the writer's basis."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.errors import ClewError, ConflictError, LeaseError, PermissionDeniedError, ThreadDeletedError
from clew.model.commit import Applied, Commit, Removal
from clew.model.queries import CheckpointQuery
from clew.model.records import Basis
from clew.storage.protocol import StaleBasisError, Storage
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.base import ContractPart, chain, full_commit
from clew.testing.driver import DrivenStorage, run_inline

STRANGE = [
    "a:b",
    "{t}",
    "{}",
    "100%",
    "under_score",
    'it\'s "quoted" `so`',
    "back\\slash/and/slash",
    "line\nbreak\ttab",
    "nul\0inside",
    "émile",
    "e\u0301mile",
    "🧵🧶",
    "\u202eright to left",
    " spaces ",
    "*?[a-z]",
    "; DROP TABLE threads; --",
    "A",
    "x" * 400,
]


def bad_commits(known: Basis) -> dict[str, tuple[Commit, type[ClewError]]]:
    """Commits to the thread of `full_commit(user="ann")`, each of which fails at another step."""
    good = commit(
        user="ann",
        at=later(60),
        values=row(3),
        checkpoint=checkpoint("c2", covers=[(0, 4)]),
        attachments=[attachment("c1", "k", b"changed"), attachment("c2", "k")],
        messages=[message("m1", "changed"), message("m2")],
        thread=fields("changed", user_id="ann"),
        remove=Removal(checkpoints=(("", "c1"),), messages=("m1",)),
    )
    stale = replace(known, epoch=known.epoch + 1)
    rejected = checkpoint("c2", parent="elsewhere", on_conflict="reject")
    return {
        "owner": (replace(good, user="bob"), PermissionDeniedError),
        "deleted": (replace(good, basis=replace(known, incarnation="another")), ThreadDeletedError),
        "epoch": (replace(good, basis=stale), StaleBasisError),
        "number": (replace(good, values=row(2)), StaleBasisError),
        "fence": (replace(good, fence=12345), LeaseError),
        "fork": (commit(user="ann", fork=fork_of("t")), ConflictError),
        "merge": (commit(user="ann", remove=good.remove, merge=[row(0, 2)]), ConflictError),
        "head": (replace(good, checkpoint=rejected), ConflictError),
        "new owner": (replace(good, thread=fields(user_id="bob")), PermissionDeniedError),
    }


STEPS = ["owner", "deleted", "epoch", "number", "fence", "fork", "merge", "head", "new owner"]


class CommitContract(ContractPart):
    def test_everything_in_a_commit_can_be_read_after_it(self, store: DrivenStorage) -> None:
        made = full_commit(user="ann")
        store.apply(made)
        page = store.page(detail="state", user="ann")
        assert [found.body for found in page.checkpoints] == [b"body of c1"]
        assert page.rows == (made.values,)
        assert store.attachments("c1", user="ann") == list(made.attachments)
        assert store.messages(user="ann") == list(made.messages)
        assert store.known().text == "name"

    def test_an_outcome_tells_of_the_new_checkpoint_and_of_the_thread(self, store: DrivenStorage) -> None:
        first, second = store.apply_all(full_commit(), commit(checkpoint=checkpoint("c2"), at=later(1)))
        assert (first.parent_id, first.sequence, first.removed) == (None, 1, 0)
        assert (second.parent_id, second.sequence, second.created_at) == ("c1", 2, later(1))
        assert second.basis == store.page().basis == store.values().basis
        assert second.basis is not None and (second.basis.epoch, second.basis.next_value) == (0, 3)

    def test_an_empty_batch_has_no_outcomes(self, store: DrivenStorage) -> None:
        assert store.outcomes() == []

    def test_a_batch_has_one_outcome_for_each_commit_in_order(self, store: DrivenStorage) -> None:
        batch = [commit(f"t{number % 3}", checkpoint=checkpoint(f"c{number}")) for number in range(9)]
        outcomes = store.outcomes(*batch)
        assert [outcome.sequence for outcome in outcomes if isinstance(outcome, Applied)] == [1, 1, 1, 2, 2, 2, 3, 3, 3]

    def test_a_commit_sees_the_earlier_ones_of_its_batch(self, store: DrivenStorage) -> None:
        store.outcomes(*chain(3))
        assert [found.parent_id for found in store.checkpoints()] == ["c2", "c1", None]

    def test_a_bad_commit_in_a_batch_does_not_touch_the_others(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ann"))
        bad = commit(user="bob", messages=[message("m9")])
        late = commit("new", basis=Basis(incarnation="gone", epoch=0, next_value=0), messages=[message("m9")])
        before = [commit(user="ann", messages=[message("m2")]), commit("u", messages=[message("m1")])]
        after = [commit(user="ann", messages=[message("m3")]), commit("u", messages=[message("m2")])]
        outcomes = store.outcomes(*before, bad, late, *after)
        assert [type(outcome) for outcome in outcomes] == [
            Applied, Applied, PermissionDeniedError, ThreadDeletedError, Applied, Applied,
        ]  # fmt: skip
        assert store.message_ids() == ["m1", "m2", "m3"]
        assert store.message_ids("u") == ["m1", "m2"]
        assert store.thread("new") is None

    @pytest.mark.parametrize("step", STEPS)
    def test_a_commit_that_fails_at_any_step_leaves_no_trace(self, store: DrivenStorage, step: str) -> None:
        basis = store.apply(full_commit(user="ann")).basis
        assert basis is not None
        before = store.everything()
        bad, error = bad_commits(basis)[step]
        store.refused(bad, error)
        assert store.everything() == before

    @pytest.mark.parametrize("step", STEPS)
    def test_a_bad_commit_leaves_no_trace_between_good_ones_of_its_thread(
        self, store: DrivenStorage, step: str
    ) -> None:
        basis = store.apply(full_commit(user="ann")).basis
        assert basis is not None
        bad, error = bad_commits(basis)[step]
        good = [commit(user="ann", messages=[message(name, name)]) for name in ("before", "after")]
        outcomes = store.outcomes(good[0], bad, good[1])
        assert isinstance(outcomes[1], error)
        assert [message.text for message in store.messages()] == ["hello", "before", "after"]
        assert store.checkpoint_ids() == ["c1"]
        assert len(store.attachments()) == 1

    def test_the_checks_come_in_their_order(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit(user="ann")).basis
        assert basis is not None
        gone = replace(basis, incarnation="another", epoch=9)
        rejected = checkpoint("c2", parent="elsewhere", on_conflict="reject")
        stolen = fields(user_id="bob")
        worst = commit(user="bob", basis=gone, values=row(9), fence=99, checkpoint=rejected, thread=stolen)
        store.refused(worst, PermissionDeniedError)
        store.refused(replace(worst, user="ann"), ThreadDeletedError)
        store.refused(replace(worst, user="ann", basis=replace(basis, epoch=9)), StaleBasisError)
        store.refused(replace(worst, user="ann", basis=basis), StaleBasisError)
        store.refused(replace(worst, user="ann", basis=basis, values=None), LeaseError)
        store.refused(replace(worst, user="ann", basis=basis, values=None, fence=None), ConflictError)
        known = checkpoint("c2", parent="c1", on_conflict="reject")
        last = replace(worst, user="ann", basis=basis, values=None, fence=None, checkpoint=known)
        store.refused(last, PermissionDeniedError)

    def test_a_failed_commit_creates_no_thread(self, store: DrivenStorage) -> None:
        store.refused(commit(values=row(5), messages=[message("m1")]), StaleBasisError)
        store.refused(commit(fence=1, messages=[message("m1")]), LeaseError)
        store.refused(commit(fork=fork_of("nowhere")), ConflictError)
        rejected = checkpoint("c1", parent="elsewhere", on_conflict="reject")
        store.refused(commit(checkpoint=rejected, messages=[message("m1")]), ConflictError)
        assert store.threads() == []

    def test_an_error_carries_the_thread_it_is_about(self, store: DrivenStorage) -> None:
        store.apply(full_commit(user="ann"))
        assert "'t'" in str(store.refused(commit(user="bob", messages=[message("m2")]), PermissionDeniedError))

    def test_every_commit_counts_the_sequence_up_by_one(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=[message("m1"), message("m2")]))
        second = store.apply(commit(checkpoint=checkpoint("c1")))
        store.apply(commit(remove=Removal(messages=("m1",))))
        store.apply(commit(thread=fields("name")))
        store.apply(commit(attachments=[attachment("c1", "k")]))
        sixth = store.apply(commit(checkpoint=checkpoint("c2", namespace="sub")))
        assert (second.sequence, sixth.sequence) == (2, 6)

    def test_failed_and_repeated_commits_do_not_count(self, store: DrivenStorage) -> None:
        first = full_commit()
        store.apply_all(first, first)
        store.refused(commit(values=row(9)), StaleBasisError)
        assert store.apply(commit(checkpoint=checkpoint("c2"))).sequence == 2

    def test_a_late_writer_cannot_revive_a_deleted_thread(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit()).basis
        store.apply(deletion())
        store.refused(commit(basis=basis, messages=[message("m2")]), ThreadDeletedError)
        assert store.thread() is None

    def test_a_late_writer_cannot_write_into_the_thread_that_came_after(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit()).basis
        store.apply_all(deletion(), full_commit())
        store.refused(commit(basis=basis, messages=[message("m2")]), ThreadDeletedError)
        store.refused(deletion(basis=basis), ThreadDeletedError)
        assert store.message_ids() == ["m1"]

    def test_a_basis_of_a_thread_that_never_was_is_refused(self, store: DrivenStorage) -> None:
        basis = Basis(incarnation="never", epoch=0, next_value=0)
        store.refused(commit(basis=basis, messages=[message("m1")]), ThreadDeletedError)

    def test_a_basis_of_another_epoch_is_refused(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit()).basis
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"),))))
        store.refused(commit(basis=basis, messages=[message("m2")]), StaleBasisError)
        store.apply(commit(basis=store.page().basis, messages=[message("m2")]))

    def test_a_basis_with_an_older_value_number_is_good_while_nothing_was_taken_out(self, store: DrivenStorage) -> None:
        basis = store.apply(full_commit()).basis
        store.apply(commit(values=row(3)))
        store.apply(commit(basis=basis, messages=[message("m2")]))
        store.refused(commit(basis=basis, values=row(3)), StaleBasisError)
        store.apply(commit(basis=basis, values=row(4)))

    def test_what_is_removed_goes_before_what_is_added_comes(self, store: DrivenStorage) -> None:
        store.apply(commit(messages=[message("m1", "old"), message("m2")], checkpoint=checkpoint("c1")))
        fresh = checkpoint("c2", parent=None, on_conflict="reject")
        swap = commit(remove=Removal(state=True, messages=("m1",)), messages=[message("m1", "new")], checkpoint=fresh)
        store.apply(swap)
        assert store.checkpoint_ids() == ["c2"]
        assert [message.text for message in store.messages()] == ["hello", "new"]

    def test_ids_may_hold_any_characters(self, store: DrivenStorage) -> None:
        store.apply(full_commit("plain"))
        for strange in STRANGE:
            self._take_any_id(store, strange)

    def _take_any_id(self, store: DrivenStorage, strange: str) -> None:
        made = full_commit(
            strange,
            commit_id=strange,
            user=strange,
            checkpoint=checkpoint(strange, namespace=strange, node_name=strange, run_id=strange),
            attachments=[attachment(strange, strange, namespace=strange)],
            messages=[message(strange, run_id=strange)],
            thread=fields(strange, run_id=strange, user_id=strange),
        )
        first = store.apply(made)
        assert store.apply(made) == replace(first, repeated=True)
        (found,) = store.checkpoints(strange, user=strange, namespace=strange, checkpoint_id=strange, run_id=strange)
        assert (found.checkpoint_id, found.namespace, found.node_name, found.run_id) == (strange,) * 4
        assert store.attachments(strange, strange, user=strange, namespace=strange) == list(made.attachments)
        assert store.messages(strange, user=strange, message_id=strange) == list(made.messages)
        assert store.thread_ids(user=strange) == [strange]
        assert (store.known(strange).user_id, store.known(strange).run_id) == (strange, strange)
        assert store.lease(strange, strange, user=strange).holder == strange
        copy = commit("fork of " + strange, user=strange, fork=fork_of(strange, strange, namespace=strange))
        store.apply(copy)
        assert store.known(copy.thread_id).forked_from == (strange, strange)
        store.apply(deletion(strange, user=strange))
        assert sorted(store.thread_ids()) == sorted([copy.thread_id, "plain"])
        store.apply(deletion(copy.thread_id, user=strange))

    def test_ids_that_look_alike_are_different(self, store: DrivenStorage) -> None:
        alike = ["a", "A", "a ", " a", "á", "a\u0301", "a\0", "a\0b", "\uff41", "1", "01"]
        for name in alike:
            store.apply(commit(name, commit_id="the same", messages=[message(other) for other in alike]))
            store.apply(commit(name, checkpoint=checkpoint("c", namespace=name)))
        assert sorted(store.thread_ids()) == sorted(alike)
        for name in alike:
            assert store.message_ids(name) == alike
            assert len(store.checkpoints(name, namespace=None)) == len(store.checkpoints(name, namespace=name)) == 1

    def test_threads_and_users_whose_names_run_together_are_kept_apart(self, store: DrivenStorage) -> None:
        store.apply(commit("a", user="b:c", messages=[message("m1")]))
        store.apply(commit("a:b", user="c", messages=[message("m2")]))
        assert store.message_ids("a", user="b:c") == ["m1"]
        assert store.message_ids("a:b", user="c") == ["m2"]
        assert store.messages("a", user="c") == store.messages("a:b", user="b:c") == []

    def test_setting_up_twice_and_closing_twice_is_fine(self, store: DrivenStorage) -> None:
        store.apply(full_commit())
        store.run(store.storage.setup())
        assert store.checkpoint_ids() == ["c1"]
        store.run(store.storage.close())

    def test_a_ping_is_answered(self, store: DrivenStorage) -> None:
        store.run(store.storage.ping())

    def test_a_storage_that_says_so_never_suspends(self, inline: DrivenStorage) -> None:
        storage: Storage = inline.storage
        run_inline(storage.setup())
        run_inline(storage.ping())
        (outcome,) = run_inline(storage.apply([full_commit()]))
        assert isinstance(outcome, Applied)
        query = CheckpointQuery(thread_id="t", user=None)
        assert run_inline(storage.checkpoints(query)).basis == outcome.basis
        run_inline(storage.reclaim())
