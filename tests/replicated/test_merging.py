"""What one store acknowledged alone reaches the other: nothing lost, nothing doubled, the right heads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from clew.errors import ConflictError, ThreadDeletedError, TransientStorageError
from clew.model.commit import Removal
from clew.storage.protocol import StaleBasisError
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, later, message, row
from clew.testing.contract.base import chain, full_commit
from tests.replicated.support import Pair, assert_same


@pytest.fixture
def pair():
    with Pair(mode="async") as made:
        yield made


def diverge(pair, primary_only, secondary_only, first=()):
    """Both stores get `first`, the primary alone `primary_only`, and after a failover the secondary `secondary_only`."""
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


def test_what_was_acknowledged_is_in_the_head_though_the_primary_has_an_older_try_of_it(pair):
    """Found by the drill: only the primary had it, not acknowledged, and it was made anew from the secondary's head."""
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


def test_messages_attachments_and_fields_are_taken_over(pair):
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


def said(name):
    return commit(commit_id=name, messages=[message(name)])


def test_messages_stand_in_the_order_in_which_they_were_acknowledged(pair):
    """Found by the drill: a try that was never acknowledged had reached the primary before what came before it."""
    process = diverge(pair, [said("b"), said("p")], [said("a"), said("b"), said("c")], [full_commit()])
    assert process.message_ids() == ["m1", "p", "a", "b", "c"]


def test_a_removed_message_does_not_come_back_though_the_primary_has_an_older_try_of_it(pair):
    gone = commit(commit_id="gone", remove=Removal(messages=("b",)))
    process = diverge(pair, [said("b"), gone], [said("a"), said("b"), gone, said("c")], [full_commit()])
    assert process.message_ids() == ["m1", "a", "c"]


def removal(name, **what):
    return commit(commit_id=name, remove=Removal(**what))


def test_what_the_primary_removed_alone_is_not_brought_back_by_the_secondary(pair):
    """Found by the simulator: a process that reached only the primary removed what only the secondary had yet."""
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


def test_a_thread_that_was_deleted_where_it_was_not_yet_stays_deleted(pair):
    process = diverge(pair, [replace(deletion(), at=later(9))], [full_commit(), said("a")])
    assert process.threads() == []


def test_a_thread_that_began_after_a_deletion_of_its_name_stays(pair):
    process = diverge(pair, [deletion()], [full_commit(at=later(9))])
    assert process.message_ids() == ["m1"]


def test_a_retry_of_a_removal_that_reached_both_stores_removes_in_both(pair):
    """The primary had the removal before the secondary's addition came: it is not applied again, but it counts."""
    gone = removal("gone", messages=("a",))
    process = diverge(pair, [gone], [said("a"), gone, said("b")], [full_commit()])
    assert process.message_ids() == ["m1", "b"]


def test_of_two_descriptions_that_of_the_secondary_stays_whatever_the_clocks_say(pair):
    process = diverge(
        pair,
        [commit(thread=fields("primary"), at=later(5))],
        [commit(thread=fields("secondary"), at=later(3))],
        [full_commit()],
    )
    assert process.known().text == "secondary"


def test_what_came_to_the_secondary_late_moves_nothing_in_the_primary(pair):
    """Found by the drill: a writer that lost its turn in the secondary had its message acknowledged by the primary."""
    late = said("late")
    process = diverge(pair, [late, said("p")], [late, said("s")], [full_commit()])
    assert process.message_ids() == ["m1", "late", "p", "s"]


def test_a_retry_that_reached_both_stores_is_there_once_and_is_the_head(pair):
    again = made("x")
    process = diverge(pair, [again], [made("s1"), again], chain(1))
    assert process.checkpoint_ids() == ["x", "s1", "c1"]


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


def test_a_writer_from_before_a_deletion_in_the_secondary_is_told(pair):
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
    # An index of values that the other store has not got, or has under other numbers, would make states that can't be read.
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


def test_a_copy_recognises_what_its_source_had_applied(pair):
    """Found by the drill: a retry on a copy was applied again, and brought back what had been removed since."""
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


def test_tidying_in_the_secondary_means_nothing_to_the_primary(pair):
    process = diverge(
        pair,
        [made("p")],
        [commit(merge=[row(0, 4)]), commit(remove=Removal(values=((0, 4),)))],
        [full_commit(), commit(values=row(3))],
    )
    assert process.checkpoint_ids() == ["p", "c1"]
    assert [(found.first, found.end) for found in process.values().rows] == [(0, 3), (3, 4)]


def test_what_a_fenced_writer_left_in_the_secondary_is_taken_over(pair):
    process = pair.process()
    process.apply_all(*chain(1))
    pair.settle(process)
    late = pair.process()
    # As a process does that was stopped just before it wrote, and goes on after the primary serves again.
    made_late = late.run(
        late.replicated._prepared(pair.secondary.storage, late.run(late.replicated._steering.active()), made("late"))
    )
    pair.secondary.apply(made_late)
    process.apply(made("c2"))
    pair.settle(process)
    assert_same(pair.primary, pair.secondary)
    assert sorted(process.checkpoint_ids()) == ["c1", "c2", "late"]


def test_in_sync_mode_a_commit_that_was_not_acknowledged_gives_way_to_the_store_that_served():
    """Found by the simulator: the retry found its first try beside the head, and was acknowledged without being in it."""
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
