"""Outages: the secondary serves while the primary is lost, and the primary again when it has caught
up."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from clew.errors import ConflictError, LeaseError, PermissionDeniedError, TransientStorageError
from clew.model.commit import After
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import UNFINISHED
from clew.testing.build import checkpoint, commit, deletion, fork_of, message, row
from clew.testing.contract.base import chain, full_commit
from tests.replicated.support import Pair, assert_same


@pytest.fixture(params=["sync", "async"])
def pair(request):
    with Pair(mode=request.param) as made:
        yield made


def back(pair, process):
    """Wait until the primary serves and both journals are empty."""
    process.until(lambda: process.state.roles.active == "primary" and not process.state.roles.closing)
    pair.settle(process)


def test_what_is_written_is_in_both_stores(pair):
    process = pair.process()
    process.apply_all(full_commit(), *chain(3, "u"), commit(messages=[message("m2")]))
    process.apply(commit("f", fork=fork_of("t")))
    process.apply_all(commit("f", values=row(3), checkpoint=checkpoint("c9")), deletion("u"))
    pair.settle(process)
    assert_same(pair.primary, pair.secondary)
    assert pair.secondary.message_ids() == ["m1", "m2"]


def test_the_secondary_serves_when_the_primary_is_lost_and_the_primary_when_it_is_back(pair):
    process = pair.process()
    process.apply(full_commit())
    pair.settle(process)
    pair.down.add("primary")
    assert process.message_ids() == ["m1"]
    process.retry(commit(messages=[message("m2")]))
    assert process.message_ids() == pair.secondary.message_ids() == ["m1", "m2"]
    assert process.thread_ids() == ["t"]
    status = process.status()
    assert (status.failed_over, status.active_backend, status.primary_healthy) == (True, "secondary", False)
    assert status.failover_count == 1
    assert status.replication_queue_size == 1
    pair.down.clear()
    back(pair, process)
    assert process.message_ids() == pair.primary.message_ids() == ["m1", "m2"]
    assert not process.status().failed_over
    assert_same(pair.primary, pair.secondary)


@pytest.mark.parametrize("what", ["read", "write", "list", "delete", "lease"])
def test_every_kind_of_operation_continues_on_the_secondary(pair, what):
    process = pair.process()
    process.apply(full_commit())
    pair.settle(process)
    pair.down.add("primary")
    match what:
        case "read":
            assert process.checkpoint_ids() == ["c1"]
        case "write":
            assert process.retry(chain(1, "new")[0]).sequence == 1
        case "list":
            assert process.thread_ids() == ["t"]
        case "delete":
            process.retry(deletion())
            assert process.threads() == []
        case "lease":
            assert process.lease("me").holder == "me"
    assert process.state.roles.active == "secondary"


def test_refused_commits_and_unknown_threads_cause_no_failover(pair):
    process = pair.process()
    process.apply(full_commit(user="ann"))
    assert process.thread("nowhere") is None
    assert process.messages("nowhere") == []
    process.refused(commit(user="bob", messages=[message("m2")]), PermissionDeniedError)
    process.refused(commit("f", fork=fork_of("nowhere")), ConflictError)
    assert process.status().failover_count == 0


def test_one_lost_answer_causes_no_failover(pair):
    process = pair.process()
    process.apply(full_commit())
    process.replicated._primary.inner._plan = partial(_once, ["before read"])
    with pytest.raises(TransientStorageError):
        process.messages()
    assert process.message_ids() == ["m1"]
    assert process.status().failover_count == 0


def _once(steps, kind):
    return steps.pop() if kind == "read" and steps else None


def test_without_auto_failover_the_caller_gets_the_error():
    with Pair(auto_failover=False) as pair:
        process = pair.process()
        process.apply(full_commit())
        pair.down.add("primary")
        for _ in range(3):
            with pytest.raises(TransientStorageError, match="auto_failover is off"):
                process.messages()
        pair.down.clear()
        process.until(lambda: process.status().primary_healthy)
        assert process.message_ids() == ["m1"]


def test_when_neither_store_answers_the_error_says_so(pair):
    process = pair.process()
    process.apply(full_commit())
    pair.down.update(("primary", "secondary"))
    with pytest.raises(TransientStorageError, match="neither"):
        process.messages()
    pair.down.clear()
    process.until(lambda: process.status().primary_healthy)
    assert process.message_ids() == ["m1"]


def test_new_stores_need_the_primary_first(pair):
    pair.down.add("primary")
    with pytest.raises(TransientStorageError, match="never been used together"):
        pair.process()
    pair.down.clear()
    assert pair.process().threads() == []


def test_a_primary_that_has_not_caught_up_does_not_serve(pair):
    process = pair.process(failback_delay=3600)
    process.apply(full_commit())
    pair.settle(process)
    pair.down.add("primary")
    process.retry(commit(messages=[message("m2")]))
    pair.down.clear()
    process.until(lambda: process.state.primary == process.state.roles)
    pair.down.add("secondary")
    for other in (process, None):
        with pytest.raises(TransientStorageError, match="has not caught up"):
            (other or pair.process()).messages()
    pair.down.clear()
    process.until(lambda: process.status().secondary_healthy)
    assert process.message_ids() == ["m1", "m2"]


def test_several_processes_agree_who_serves(pair):
    processes = [pair.process() for _ in range(3)]
    processes[0].apply(full_commit())
    pair.settle(processes[0])
    pair.down.add("primary")
    for number, process in enumerate(processes):
        process.retry(commit(messages=[message(f"n{number}")]))
    assert len({process.state.roles.term for process in processes}) == 1
    for process in processes:
        assert process.message_ids() == ["m1", "n0", "n1", "n2"]
    pair.down.clear()
    back(pair, processes[1])
    for process in processes:
        assert process.message_ids() == ["m1", "n0", "n1", "n2"]
    assert_same(pair.primary, pair.secondary)


def test_a_lease_does_not_outlive_a_failover(pair):
    process = pair.process()
    process.apply(full_commit())
    pair.settle(process)
    token = process.lease("me").token
    process.apply(commit(fence=token, messages=[message("m2")]))
    pair.settle(process)
    pair.down.add("primary")
    assert process.message_ids() == ["m1", "m2"]
    process.refused(commit(fence=token, messages=[message("m3")]), LeaseError)
    new = process.lease("you").token
    assert new > token
    process.apply(commit(fence=new, messages=[message("m3")]))


def test_close_is_idempotent_and_works_while_failed_over(pair):
    process = pair.process()
    process.apply(full_commit())
    pair.settle(process)
    pair.down.add("primary")
    process.retry(commit(messages=[message("m2")]))
    process.run(process.storage.close())
    process.run(process.storage.close())
    pair.down.clear()
    again = pair.process()
    assert again.message_ids() == ["m1", "m2"]
    back(pair, again)
    assert_same(pair.primary, pair.secondary)


class Lagging:
    """A sync pair whose secondary misses commits of the primary, which is then lost."""

    def __init__(self, pair):
        self.pair = pair
        self.process = pair.process()
        self.process.apply_all(full_commit())
        pair.settle(self.process)
        self._misses = True
        self.process.replicated._secondary.inner._plan = self._plan

    def _plan(self, kind):
        return "before apply" if self._misses and kind == "apply" else None

    def tries(self, *commits):
        """Try commits that only reach the primary."""
        for made in commits:
            with pytest.raises(TransientStorageError):
                self.process.apply(made)

    def lose_primary(self):
        self.pair.down.add("primary")
        self._misses = False

    def end(self):
        self.pair.down.clear()
        back(self.pair, self.process)
        assert_same(self.pair.primary, self.pair.secondary)


@pytest.fixture
def lagging():
    with Pair(mode="sync") as pair:
        yield Lagging(pair)


AHEAD = commit(checkpoint=checkpoint("c2", parent="c1"))


def test_a_save_that_a_conflict_refused_after_a_failover_does_not_come_back(lagging):
    follows = commit(checkpoint=checkpoint("c3", parent="c2", on_conflict="reject"))
    lagging.tries(AHEAD, follows)
    lagging.lose_primary()
    with pytest.raises(ConflictError, match="head"):
        lagging.process.retry(follows)
    lagging.end()
    assert lagging.process.checkpoint_ids() == ["c1"]


def test_a_save_that_a_lost_lease_refused_after_a_failover_does_not_come_back(lagging):
    fenced = commit(fence=lagging.process.lease("me").token, checkpoint=checkpoint("c2", parent="c1"))
    lagging.tries(fenced)
    lagging.lose_primary()
    with pytest.raises(LeaseError):
        lagging.process.retry(fenced)
    lagging.end()
    assert lagging.process.checkpoint_ids() == ["c1"]


def test_a_fork_that_only_the_primary_can_make_is_not_refused_for_good(lagging):
    """The secondary has no thread whose chain could end, so only the primary knows the result."""
    forked = commit("f", fork=fork_of("t", checkpoint_id="c2"))
    lagging.tries(AHEAD, forked)
    lagging.lose_primary()
    with pytest.raises(TransientStorageError, match="the primary may have it"):
        lagging.process.retry(forked)
    lagging.end()
    assert lagging.process.apply(forked).repeated
    assert lagging.process.thread_ids() == ["f", "t"]


def test_a_conflict_of_a_commit_that_the_primary_can_not_have_changes_nothing(lagging):
    lagging.lose_primary()
    lagging.process.retry(commit(checkpoint=checkpoint("c2", parent="c1")))
    entries = lagging.pair.secondary.journal_count()
    late = commit(checkpoint=checkpoint("c3", parent="c1", on_conflict="reject"))
    with pytest.raises(ConflictError, match="head"):
        lagging.process.apply(late)
    assert lagging.pair.secondary.journal_count() == entries
    lagging.end()


class Contended(MemoryStorage):
    """Refuses the next copies, as if somebody else wrote to the thread at that moment."""

    left = 0

    def _apply(self, commit):
        if self.left and commit.thread is not None and commit.thread.user_id == UNFINISHED:
            self.left -= 1
            commit = replace(commit, after=After("somebody else's"))
        return super()._apply(commit)


@pytest.mark.parametrize(("times", "warnings"), [(3, 0), (25, 1)])
def test_a_copy_that_meets_writers_is_tried_again_and_only_warns_if_that_does_not_end(times, warnings, caplog):
    contended = Contended()
    with Pair(make_secondary=lambda: contended, mode="async") as pair:
        pair.primary.apply(full_commit())
        contended.left = times
        process = pair.process()
        # The thread is older than its replication, so it is copied.
        process.apply(commit(messages=[message("m2")]))
        pair.settle(process)
        assert contended.left == 0
        assert_same(pair.primary, pair.secondary)
    said = [each.getMessage() for each in caplog.records if "t" in each.getMessage() and "ship" in each.getMessage()]
    assert said == ["shipping postponed: thread 't' was written to while it was copied"] * warnings
