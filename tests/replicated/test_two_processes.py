"""Two processes during role changes: neither reads stale data, whatever it was doing at that
moment."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from clew.errors import ThreadDeletedError, TransientStorageError
from clew.model.commit import After, Removal
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import StaleBasisError
from clew.storage.replicated.fence import Incarnations
from clew.testing import FaultyStorage
from clew.testing.build import commit, deletion, message
from clew.testing.contract.base import chain, full_commit
from clew.testing.driver import run_inline
from tests.replicated.support import Pair, assert_same, replicated


class Stopped(FaultyStorage):
    """A connection on which every write waits, as in a stopped process."""

    def __init__(self, inner):
        super().__init__(inner, lambda _: None)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.waits = threading.Event()

    async def _around(self, kind, operation):
        if not self.goes_on.is_set() and kind == "apply":
            self.waits.set()
            assert self.goes_on.wait(120)
        return await operation()


class Full(MemoryStorage):
    """A store that answers reads, and commits only while it is not full."""

    full = False

    async def apply(self, commits):
        if self.full:
            raise TransientStorageError("full")
        return await super().apply(commits)


def in_thread(work):
    """Run `work` in an OS thread. Returns a function that waits for its result."""
    found = []

    def run():
        try:
            found.append(work())
        except TransientStorageError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(120)
        return found[0]

    return result


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_stopped_writer_that_continues_after_a_failover_writes_to_the_secondary(mode):
    with Pair(mode=mode) as pair:
        other = pair.process(failback_delay=3600)
        other.apply_all(*chain(1))
        pair.settle(other)
        way = Stopped(pair.primary.storage)
        sleeper = replicated(way, pair.secondary.storage, mode=mode, health_check_interval=0.05, failback_delay=3600)
        run_inline(sleeper.setup())
        way.goes_on.clear()
        late = commit(commit_id="late", messages=[message("late")])
        result = in_thread(lambda: run_inline(sleeper.apply([late])))
        assert way.waits.wait(120)
        # In the meantime, the other process loses the primary, and the secondary serves.
        pair.down.add("primary")
        other.retry(commit(messages=[message("m1")]))
        pair.down.clear()
        way.goes_on.set()
        # The sleeper's write to the primary is not acknowledged: it has to write to the secondary
        # too.
        (outcome,) = result()
        assert outcome.basis is not None
        assert sorted(other.message_ids()) == ["late", "m1"]
        assert sorted(pair.secondary.message_ids()) == ["late", "m1"]
        run_inline(sleeper.close())
        again = pair.process(failback_delay=0.0)
        again.until(again.has_its_primary_back)
        pair.settle(again)
        assert sorted(again.message_ids()) == ["late", "m1"]
        assert_same(pair.primary, pair.secondary)


def test_nobody_reads_stale_data_after_a_write_under_new_roles():
    with Pair(mode="sync") as pair:
        one, two = pair.process(failback_delay=3600), pair.process(failback_delay=3600)
        one.apply(full_commit())
        for number in range(5):
            # The primary is lost for one process only, for a moment.
            pair.down.add("primary")
            one.retry(commit(messages=[message(f"n{number}")]))
            pair.down.clear()
            assert f"n{number}" in two.message_ids()


def test_a_store_that_hangs_counts_as_lost():
    class Hanging(FaultyStorage):
        hangs = False
        capabilities = MemoryStorage.capabilities.__class__(
            name="hanging", durable=False, suspends=True, shares_forks=True
        )

        async def _around(self, kind, operation):
            if self.hangs:
                await asyncio.Event().wait()
            return await operation()

    async def main():
        primary = Hanging(MemoryStorage(), lambda _: None)
        storage = replicated(primary, MemoryStorage(), mode="sync", timeout=0.05)
        await storage.setup()
        await storage.apply([full_commit()])
        primary.hangs = True
        began = time.monotonic()
        for _ in range(50):
            try:
                await storage.apply([commit(messages=[message("m2")])])
                break
            except TransientStorageError:
                continue
        assert time.monotonic() - began < 60
        roles = storage._coordinator.state.roles
        assert roles is not None
        assert roles.active == "secondary"
        primary.hangs = False
        await storage.close()

    asyncio.run(main())


def test_a_slow_operation_of_a_store_that_answers_pings_is_not_cut_off():
    class Slow(FaultyStorage):
        capabilities = MemoryStorage.capabilities.__class__(
            name="slow", durable=False, suspends=True, shares_forks=True
        )
        ready: asyncio.Event | None = None

        async def apply(self, commits):
            if self.ready is not None:
                await self.ready.wait()
            return await super().apply(commits)

    async def main():
        primary = Slow(MemoryStorage(), lambda _: None)
        storage = replicated(primary, MemoryStorage(), timeout=0.02)
        await storage.setup()
        primary.ready = asyncio.Event()
        writing = asyncio.ensure_future(storage.apply([full_commit()]))
        await asyncio.sleep(0.1)
        primary.ready.set()
        assert (await writing)[0].sequence == 1
        assert storage._coordinator.state.failovers == 0
        await storage.close()

    asyncio.run(main())


def test_writers_wait_when_the_journal_is_full_and_nothing_is_dropped(caplog):
    with Pair(mode="async", max_outbox=5, timeout=0.2) as pair:
        process = pair.process()
        pair.down.add("secondary")
        process.until(lambda: not process.status().secondary_healthy)
        process.apply_all(*chain(5))
        assert process.status().replication_queue_size == 5
        for _ in range(2):
            with pytest.raises(TransientStorageError, match="max_outbox is 5"):
                process.apply(commit(messages=[message("m1")]))
        assert len([each for each in caplog.records if "writers wait" in each.message]) == 1
        waiting = in_thread(lambda: process.retry(commit(messages=[message("m2")])))
        pair.down.clear()
        assert waiting().basis is not None
        pair.settle(process)
        assert process.message_ids() == ["m2"]
        assert len(pair.secondary.checkpoints()) == 5
        assert_same(pair.primary, pair.secondary)


def test_the_status_has_lag_and_queue_size():
    with Pair(mode="async") as pair:
        process = pair.process()
        pair.down.add("secondary")
        process.until(lambda: not process.status().secondary_healthy)
        process.apply(full_commit())
        process.until(lambda: process.status().replication_lag > 0)
        assert process.status().replication_queue_size == 1
        pair.down.clear()
        pair.settle(process)
        process.until(lambda: process.status().replication_lag == 0)
        assert process.status().replication_queue_size == 0


def test_sync_mode_does_not_acknowledge_a_commit_that_only_the_primary_has():
    with Pair(mode="sync") as pair:
        process = pair.process()
        process.apply(full_commit())
        pair.down.add("secondary")
        made = commit(messages=[message("m2")])
        with pytest.raises(TransientStorageError, match="safe in the primary"):
            process.apply(made)
        assert pair.primary.message_ids() == ["m1", "m2"]
        pair.down.clear()
        assert process.apply(made).repeated
        assert pair.secondary.message_ids() == ["m1", "m2"]


def test_a_commit_that_the_primary_may_have_is_not_refused_because_the_secondary_lacks_its_thread():
    """Found by the simulator: a writer got ThreadDeletedError, and its message appeared later."""
    with Pair(mode="sync", make_secondary=Full) as pair:
        creator, writer = pair.process(), pair.process()
        secondary = pair.secondary.storage
        assert isinstance(secondary, Full)
        secondary.full = True
        with pytest.raises(TransientStorageError, match="safe in the primary"):
            creator.apply(full_commit())
        basis = writer.page().basis
        tried = commit(basis=basis, messages=[message("m2")])
        with pytest.raises(TransientStorageError, match="safe in the primary"):
            writer.apply(tried)
        pair.down.add("primary")
        secondary.full = False
        writer.until(lambda: writer.state.roles is not None and writer.state.roles.active == "secondary")
        with pytest.raises(TransientStorageError, match="the primary may have it"):
            writer.apply(tried)
        # The primary has never got this one, so the refusal is final.
        writer.refused(commit(basis=basis, messages=[message("m3")]), ThreadDeletedError)
        pair.down.clear()
        writer.until(writer.has_its_primary_back)
        assert writer.retry(tried).repeated
        assert writer.message_ids() == ["m1", "m2"]
        pair.settle(writer)
        assert_same(pair.primary, pair.secondary)
        writer.apply(deletion())
        writer.refused(tried, ThreadDeletedError)


def test_sync_mode_ships_two_writers_of_a_thread_without_copying_it():
    with Pair(mode="sync") as pair:
        one, two = pair.process(), pair.process()
        for number in range(20):
            for process in (one, two):
                process.apply(commit(messages=[message(f"{number} {id(process)}")]))
                assert pair.secondary.message_ids() == pair.primary.message_ids()
        assert_same(pair.primary, pair.secondary)


def test_a_retried_creation_proposes_a_new_incarnation_on_the_same_store():
    """Found by the simulator: it proposed the same incarnation again, and a late writer was
    accepted."""
    made = full_commit("t", commit_id="first")
    incarnations, empty = Incarnations(merged=False), MemoryStorage()

    def propose(side):
        return asyncio.run(incarnations.propose(made, empty, side))

    first = propose("primary")
    assert propose("secondary") == first
    again = propose("secondary")
    assert again != first
    assert propose("primary") == again
    incarnations.forget(made)
    assert propose("secondary") != again


def test_a_lease_in_the_secondary_refuses_late_commits_of_an_earlier_lease():
    """Found by the simulator: a commit of the previous lease arrived after the new holder had read
    the thread."""
    with Pair(mode="sync", failback_delay=3600) as pair:
        process = pair.process()
        process.apply(full_commit())
        end = pair.secondary.refused(commit(after=After("nothing"), remove=Removal()), StaleBasisError).actual
        pair.down.add("primary")
        process.until(lambda: process.status().failed_over)
        process.lease("holder")
        late = commit(messages=[message("late")], after=After(end))
        pair.secondary.refused(late, StaleBasisError)
        before = len(pair.secondary.journal())
        process.lease("holder")
        assert len(pair.secondary.journal()) == before
