"""Merges: what one store acknowledged alone reaches the other, once, and the heads are right."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.errors import ConflictError, ThreadDeletedError, TransientStorageError
from clew.model.commit import Applied, Removal
from clew.storage.protocol import StaleBasisError
from clew.storage.replicated import merger
from clew.storage.replicated.copies import write_all
from clew.storage.replicated.merger import Merger
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.base import chain, full_commit
from tests.replicated.support import Pair, assert_same


@pytest.fixture
def pair():
    with Pair(mode="async") as made:
        yield made


def diverge(pair, primary_only, secondary_only, first=()):
    """Apply `first` to both stores, `primary_only` to the primary, and `secondary_only` to the
    secondary after a failover."""
    process = pair.process()
    process.apply_all(*first)
    pair.settle(process)
    pair.down.add("secondary")
    process.until(lambda: not process.status().secondary_healthy)
    process.apply_all(*primary_only)
    pair.down.clear()
    pair.down.add("primary")
    process.until(lambda: process.state.roles.active == "secondary")
    for each in secondary_only:
        process.retry(each)
    pair.down.clear()
    process.until(lambda: process.state.roles.active == "primary" and not process.state.roles.closing)
    pair.settle(process)
    assert_same(pair.primary, pair.secondary)
    return process


def made(name, **parts):
    return commit(commit_id=name, checkpoint=checkpoint(name, **parts))


def test_both_histories_stay_and_the_newest_of_the_secondary_is_the_head(pair):
    process = diverge(pair, [made("p1"), made("p2")], [made("s1"), made("s2")], chain(1))
    assert process.checkpoint_ids() == ["s2", "s1", "p2", "p1", "c1"]
    parents = {found.checkpoint_id: found.parent_id for found in process.checkpoints()}
    assert parents == {"c1": None, "p1": "c1", "p2": "p1", "s1": "c1", "s2": "s1"}


def test_an_acknowledged_commit_is_in_the_head_although_the_primary_has_an_older_attempt(pair):
    """Found by the drill: the primary had an unacknowledged attempt, and the secondary a newer
    one."""
    older = commit(commit_id="b", checkpoint=checkpoint("b", body=b"without a"), attachments=[attachment("b", "k")])
    newer = commit(commit_id="b", checkpoint=checkpoint("b", body=b"with a"))
    process = diverge(pair, [older], [made("a"), newer], chain(1))
    found = process.page(detail="body").checkpoints
    assert [(each.checkpoint_id, each.parent_id) for each in found] == [("b", "a"), ("a", "c1"), ("c1", None)]
    assert found[0].body == b"with a"
    assert [each.key for each in process.attachments("b")] == ["k"]


def test_values_of_both_are_kept_under_numbers_of_their_own(pair):
    first = full_commit()
    ours = commit(values=row(3, 2), checkpoint=checkpoint("p", covers=[(0, 5)]))
    theirs = commit(values=row(3, data=b"theirs"), checkpoint=checkpoint("s", covers=[(0, 4)]))
    process = diverge(pair, [ours], [theirs], [first])
    page = process.page(detail="state", limit=1)
    assert page.checkpoints[0].checkpoint_id == "s"
    digests = b"".join(found.digests for found in process.values().rows)
    assert len({digests[at : at + 16] for at in range(0, len(digests), 16)}) == 5


def test_messages_attachments_and_fields_are_merged(pair):
    process = diverge(
        pair,
        [commit(messages=[message("p")])],
        [
            commit(messages=[message("s")], attachments=[attachment("c1", "late")]),
            commit(thread=fields("renamed"), at=later(9)),
        ],
        [full_commit()],
    )
    assert process.message_ids() == ["m1", "p", "s"]
    assert [found.key for found in process.attachments("c1")] == ["k", "late"]
    assert process.known().text == "renamed"
    assert process.known().updated_at == later(9)


def test_merged_checkpoints_keep_the_times_of_their_first_and_last_save(pair):
    process = diverge(
        pair,
        [commit(checkpoint=checkpoint("p"), at=later(2))],
        [commit(checkpoint=checkpoint(name), at=later(at)) for name, at in (("c1", 5), ("s", 6), ("s", 8), ("c1", 9))],
        [commit(checkpoint=checkpoint("c1"), at=later(1))],
    )
    found = {each.checkpoint_id: (each.created_at, each.saved_at) for each in process.checkpoints()}
    assert found == {"c1": (later(1), later(9)), "p": (later(2), later(2)), "s": (later(6), later(8))}


def said(name):
    return commit(commit_id=name, messages=[message(name)])


def test_messages_are_in_the_order_of_their_acknowledgement(pair):
    """Found by the drill: an unacknowledged attempt reached the primary before earlier messages
    did."""
    process = diverge(pair, [said("b"), said("p")], [said("a"), said("b"), said("c")], [full_commit()])
    assert process.message_ids() == ["m1", "p", "a", "b", "c"]


def test_a_removed_message_does_not_come_back_although_the_primary_has_an_older_attempt(pair):
    gone = commit(commit_id="gone", remove=Removal(messages=("b",)))
    process = diverge(pair, [said("b"), gone], [said("a"), said("b"), gone, said("c")], [full_commit()])
    assert process.message_ids() == ["m1", "a", "c"]


def removal(name, **what):
    return commit(commit_id=name, remove=Removal(**what))


def test_what_the_primary_removed_alone_is_not_brought_back_by_the_secondary(pair):
    """Found by the simulator: a process that reached only the primary removed what only the
    secondary had."""
    late = [attachment("s", "k"), attachment("c1", "k2")]
    process = diverge(
        pair,
        [removal("gone", messages=("a",), checkpoints=(("", "s"),))],
        [said("a"), said("b"), made("s"), commit(attachments=late)],
        [full_commit()],
    )
    assert process.message_ids() == ["m1", "b"]
    assert process.checkpoint_ids() == ["c1"]
    assert [found.key for found in process.attachments("c1")] == ["k", "k2"]
    assert process.attachments("s") == []


def test_what_was_removed_from_a_thread_that_only_the_secondary_has_stays_removed(pair):
    process = diverge(
        pair,
        [removal("gone", messages=("a",), checkpoints=(("", "s"),))],
        [full_commit(), said("a"), said("b"), made("s")],
    )
    assert process.message_ids() == ["m1", "b"]
    assert process.checkpoint_ids() == ["c1"]


def test_a_thread_deleted_in_a_store_that_did_not_have_it_yet_stays_deleted(pair):
    process = diverge(pair, [replace(deletion(), at=later(9))], [full_commit(), said("a")])
    assert process.threads() == []


def test_a_thread_created_after_a_deletion_of_its_id_stays(pair):
    process = diverge(pair, [deletion()], [full_commit(at=later(9))])
    assert process.message_ids() == ["m1"]


def test_a_retry_of_a_removal_that_reached_both_stores_removes_in_both(pair):
    """The primary had the removal before the secondary's addition arrived. It is repeated, but
    takes effect."""
    gone = removal("gone", messages=("a",))
    process = diverge(pair, [gone], [said("a"), gone, said("b")], [full_commit()])
    assert process.message_ids() == ["m1", "b"]


def test_the_description_in_the_secondary_wins_whatever_the_clocks_say(pair):
    process = diverge(
        pair,
        [commit(thread=fields("primary"), at=later(5))],
        [commit(thread=fields("secondary"), at=later(3))],
        [full_commit()],
    )
    assert process.known().text == "secondary"


def test_a_late_commit_in_the_secondary_moves_nothing_in_the_primary(pair):
    """Found by the drill: a message of a late writer in the secondary had been acknowledged by the
    primary."""
    late = said("late")
    process = diverge(pair, [late, said("p")], [late, said("s")], [full_commit()])
    assert process.message_ids() == ["m1", "late", "p", "s"]


def test_a_retry_that_reached_both_stores_is_there_once_and_is_the_head(pair):
    again = made("x")
    process = diverge(pair, [again], [made("s1"), again], chain(1))
    assert process.checkpoint_ids() == ["x", "s1", "c1"]


def test_a_retry_that_reached_both_stores_is_the_head_although_many_messages_follow(pair):
    """Entries are merged a hundred at a time, and the later ones have no checkpoint."""
    again = made("x", parent="c1")
    process = diverge(pair, [again], [made("s1"), again, *(said(f"m{number}") for number in range(150))], chain(1))
    assert process.checkpoint_ids() == ["x", "s1", "c1"]


def test_a_retry_that_reached_both_stores_is_the_head_although_its_merge_was_interrupted(pair, monkeypatch):
    move, failures = Merger._move_head, [TransientStorageError("lost on purpose")]

    async def fail_once(self, *args):
        if failures:
            raise failures.pop()
        await move(self, *args)

    monkeypatch.setattr(Merger, "_move_head", fail_once)
    again = made("x", parent="c1")
    process = diverge(pair, [again], [made("s1"), again], chain(1))
    assert not failures
    assert process.checkpoint_ids() == ["x", "s1", "c1"]


def test_a_merge_that_another_process_has_finished_moves_no_head(pair, monkeypatch):
    """Found by the simulator (async, seed 1700900): the primary had served a save on top of the merged head."""
    move = Merger._move_head
    served: list[object] = []

    async def twice(self, namespace, entries):
        await move(self, namespace, entries)
        if not served:
            await self._from.trim(entries)
            served.extend(await self._into.apply((made("after"),)))
            await move(self, namespace, entries)

    monkeypatch.setattr(Merger, "_move_head", twice)
    again = made("x", parent="c1")
    process = diverge(pair, [again], [made("s1"), again], chain(1))
    assert isinstance(served[0], Applied)
    assert process.checkpoint_ids() == ["after", "x", "s1", "c1"]


def test_a_retry_of_a_new_thread_reaches_both_stores_once(pair):
    process = diverge(pair, [again := full_commit()], [again, commit(messages=[message("m2")])])
    assert process.message_ids() == ["m1", "m2"]
    assert process.checkpoint_ids() == ["c1"]


def test_threads_of_the_same_name_that_began_in_each_store_become_one(pair):
    process = diverge(pair, [full_commit()], [commit(values=row(0), checkpoint=checkpoint("s", covers=[(0, 1)]))])
    assert process.checkpoint_ids() == ["s", "c1"]


def test_two_users_who_began_threads_of_the_same_name_do_not_see_each_others(pair):
    process = diverge(pair, [full_commit(user="ann")], [full_commit(user="bob", messages=[message("of bob")])])
    assert process.message_ids(user="ann") == ["m1"]
    (other,) = process.threads(user="bob")
    assert other.thread_id.startswith("t (")
    assert process.message_ids(other.thread_id, user="bob") == ["of bob"]
    assert process.checkpoint_ids(other.thread_id, user="ann") == []


def test_a_thread_that_was_put_aside_is_complete_although_its_first_copy_failed(pair, monkeypatch):
    failures = [TransientStorageError("lost on purpose")]

    async def fail_once(store, commits):
        if failures:
            await write_all(store, commits[:1])
            raise failures.pop()
        await write_all(store, commits)

    monkeypatch.setattr(merger, "write_all", fail_once)
    process = diverge(pair, [full_commit(user="ann")], [full_commit(user="bob", messages=[message("of bob")])])
    assert not failures
    (other,) = process.threads(user="bob")
    assert process.message_ids(other.thread_id, user="bob") == ["of bob"]
    assert process.checkpoint_ids(other.thread_id, user="bob") == ["c1"]


def test_a_thread_that_was_put_aside_gets_what_the_secondary_writes_to_it_later(pair):
    process = pair.process(failback_delay=3600)
    pair.down.add("secondary")
    process.until(lambda: not process.status().secondary_healthy)
    process.apply(full_commit(user="ann"))
    pair.down.clear()
    pair.down.add("primary")
    process.until(lambda: process.state.roles.active == "secondary")
    process.retry(full_commit(user="bob", messages=[message("one")]))
    pair.down.clear()
    process.until(lambda: not pair.secondary.journal_count())
    process.retry(commit(user="bob", commit_id="c2", checkpoint=checkpoint("c2"), messages=[message("two")]))
    process.retry(commit(user="bob", remove=Removal(messages=("one",))))
    process.until(lambda: not pair.secondary.journal_count())
    again = pair.process()
    again.until(again.has_its_primary_back)
    pair.settle(again)
    assert_same(pair.primary, pair.secondary)
    (other,) = again.threads(user="bob")
    assert again.message_ids(other.thread_id, user="bob") == ["two"]
    assert again.checkpoint_ids(other.thread_id, user="bob") == ["c2", "c1"]
    assert again.message_ids(user="ann") == ["m1"]


def test_a_deletion_in_the_secondary_wins(pair):
    process = diverge(pair, [made("p")], [deletion()], chain(1))
    assert process.threads() == []
    process = pair.process()
    process.apply(full_commit())
    assert process.message_ids() == ["m1"]


def test_a_deletion_in_the_primary_wins(pair):
    process = diverge(pair, [deletion()], [made("s")], chain(1))
    assert process.threads() == []


def test_a_thread_that_was_begun_anew_in_the_primary_survives_a_deletion_of_the_old_one(pair):
    process = diverge(pair, [deletion(), full_commit()], [made("s"), deletion()], chain(1))
    assert process.checkpoint_ids() == ["c1"]
    assert process.message_ids() == ["m1"]


def test_a_thread_that_was_begun_anew_in_the_secondary_is_there(pair):
    process = diverge(pair, [made("p")], [deletion(), full_commit()], chain(1))
    assert process.checkpoint_ids() == ["c1"]
    assert process.message_ids() == ["m1"]


def test_a_writer_from_before_a_deletion_in_the_secondary_is_refused(pair):
    process = pair.process()
    basis = process.apply(full_commit()).basis
    pair.settle(process)
    pair.down.add("primary")
    process.retry(deletion())
    process.refused(commit(basis=basis, messages=[message("m2")]), ThreadDeletedError)
    pair.down.clear()
    process.until(lambda: process.state.roles.active == "primary" and not process.state.roles.closing)
    process.refused(commit(basis=basis, messages=[message("m2")]), ThreadDeletedError)


def test_what_a_writer_knew_before_the_roles_changed_is_outdated(pair):
    # Outdated value numbers would make states that can't be read.
    process = pair.process()
    basis = process.apply(full_commit()).basis
    pair.settle(process)
    pair.down.add("primary")
    second = commit(basis=basis, values=row(3), checkpoint=checkpoint("c2", covers=[(0, 4)]))
    process.until(lambda: process.state.roles.active == "secondary")
    process.refused(second, StaleBasisError)
    basis = process.apply(replace(second, basis=process.page().basis)).basis
    pair.down.clear()
    process.until(lambda: process.state.roles.active == "primary" and not process.state.roles.closing)
    third = commit(basis=basis, values=row(4), checkpoint=checkpoint("c3", covers=[(0, 5)]))
    process.refused(third, StaleBasisError)
    process.apply(replace(third, basis=process.page().basis))
    pair.settle(process)
    assert_same(pair.primary, pair.secondary)
    assert process.checkpoint_ids() == ["c3", "c2", "c1"]


def test_forks_made_in_either_store_are_in_both(pair):
    process = diverge(
        pair,
        [commit("fp", fork=fork_of("t")), made("p"), commit("fp2", fork=fork_of("t", "p"))],
        [made("s"), commit("fs", fork=fork_of("t", "s")), commit("fs2", fork=fork_of("t", "c1"))],
        [full_commit()],
    )
    assert sorted(process.thread_ids()) == ["fp", "fp2", "fs", "fs2", "t"]
    assert process.checkpoint_ids("fs") == ["copy"]


def test_forks_of_the_same_name_become_one_thread(pair):
    process = diverge(
        pair,
        [commit("f", fork=fork_of("t", as_checkpoint_id="p"))],
        [commit("f", fork=fork_of("t", as_checkpoint_id="s")), commit("f", messages=[message("new")])],
        [full_commit()],
    )
    assert process.checkpoint_ids("f") == ["s", "p"]
    assert process.message_ids("f") == ["m1", "new"]


def test_what_the_primary_removed_alone_is_not_brought_back_by_a_fork_in_the_secondary(pair):
    """The primary has a thread of the same id, into which the content of the fork is merged."""
    source = commit(commit_id="s1", checkpoint=checkpoint("s1"), messages=[message("late")])
    process = diverge(
        pair,
        [
            commit("f", fork=fork_of("t", as_checkpoint_id="p")),
            commit("f", remove=Removal(messages=("late",), checkpoints=(("", "s"),))),
        ],
        [source, commit("f", fork=fork_of("t", "s1", as_checkpoint_id="s"))],
        [full_commit()],
    )
    assert process.message_ids("f") == ["m1"]
    assert process.checkpoint_ids("f") == ["p"]


def test_a_retried_fork_that_reached_both_stores_is_the_head(pair):
    again = commit("f", commit_id="fork", fork=fork_of("t", as_checkpoint_id="s"))
    later_in_primary = commit("f", commit_id="p", checkpoint=checkpoint("p"))
    process = diverge(pair, [again, later_in_primary], [again], [full_commit()])
    assert process.checkpoint_ids("f") == ["s", "p"]


def test_a_copy_recognises_what_its_source_had_applied(pair):
    """Found by the drill: a retry was applied again on a copy, and brought back what had been
    removed."""
    again, removed = said("a"), removal("gone", messages=("a",))
    process = diverge(pair, [said("p")], [again, removed], [full_commit()])
    for store in (pair.primary, pair.secondary):
        assert store.outcomes(again, removed)[0].repeated, "the copy forgot a commit"
        assert store.message_ids() == ["m1", "p"]
    assert process.message_ids() == ["m1", "p"]


def test_removals_in_the_secondary_are_done_in_the_primary(pair):
    process = diverge(
        pair,
        [commit(messages=[message("p")])],
        [commit(remove=Removal(messages=("m1",), checkpoints=(("", "c1"),)))],
        [full_commit(), made("c2")],
    )
    assert process.message_ids() == ["p"]
    assert process.checkpoint_ids() == ["c2"]


def test_clearing_the_state_in_the_secondary_clears_it_in_the_primary(pair):
    process = diverge(pair, [made("p")], [commit(remove=Removal(state=True)), made("s")], [full_commit()])
    assert process.checkpoint_ids() == ["s"]


def test_compaction_in_the_secondary_does_not_affect_the_primary(pair):
    process = diverge(
        pair,
        [made("p")],
        [commit(merge=[row(0, 4)]), commit(remove=Removal(values=((0, 4),)))],
        [full_commit(), commit(values=row(3))],
    )
    assert process.checkpoint_ids() == ["p", "c1"]
    assert [(found.first, found.end) for found in process.values().rows] == [(0, 3), (3, 4)]


def test_what_a_late_writer_left_in_the_secondary_is_merged(pair):
    process = pair.process()
    process.apply_all(*chain(1))
    pair.settle(process)
    late = pair.process()
    # Like a process that was stopped just before its write, and continues after the failback.
    made_late = late.run(
        late.replicated._prepared(pair.secondary.storage, late.run(late.replicated._coordinator.active()), made("late"))
    )
    pair.secondary.apply(made_late)
    process.apply(made("c2"))
    pair.settle(process)
    assert_same(pair.primary, pair.secondary)
    assert sorted(process.checkpoint_ids()) == ["c1", "c2", "late"]


def test_in_sync_mode_an_unacknowledged_commit_yields_to_the_serving_store():
    """Found by the simulator: a retry found its first attempt as a sibling of the head, and was
    acknowledged."""
    with Pair(mode="sync") as pair:
        process = pair.process()
        process.apply_all(*chain(1))
        pair.down.add("secondary")
        late = made("late", parent="c1", on_conflict="reject")
        with pytest.raises(TransientStorageError):
            process.apply(late)
        assert pair.primary.checkpoint_ids() == ["late", "c1"]
        pair.down.clear()
        pair.down.add("primary")
        process.until(lambda: process.status().failed_over)
        process.retry(made("s"))
        pair.down.clear()
        process.until(process.has_its_primary_back)
        pair.settle(process)
        assert_same(pair.primary, pair.secondary)
        assert process.checkpoint_ids() == ["s", "c1"]
        with pytest.raises(ConflictError):
            process.retry(late)
