"""Leases: one holder at a time in a thread, across processes."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import threading
from contextlib import closing

import pytest

import clew
from clew.answers import Answer
from clew.storage.wrapper import StorageWrapper
from clew.testing import FakeClock, FaultyStorage
from tests.checkpointer.conftest import SHARED
from tests.checkpointer.support import give_up, run, start


def test_a_lease_is_held_inside_its_block_and_given_back_after(store):
    checkpointer = store.open()
    with checkpointer.lease("t") as lease:
        first = lease.token
        checkpointer.put_state("t", {"n": 1})
        checkpointer.put_messages("t", [clew.Message(role="user")])
        checkpointer.update_state("t", set={"n": 2})
    with checkpointer.lease("t") as lease:
        assert lease.token > first
    with pytest.raises(clew.LeaseError, match="not held"):
        _ = lease.token
    assert checkpointer.get_state("t") == {"n": 2}


def test_the_async_lease_does_the_same(store):
    async def go():
        one, other = store.open(), store.open()
        async with one.alease("t", holder="one") as lease:
            await one.aput_state("t", 1)
            assert lease.token > 0
            with pytest.raises(clew.LeaseError, match="held by one"):
                async with other.alease("t"):
                    pass
        async with other.alease("t"):
            await other.aput_state("t", 2)
        assert await one.aget_state("t") == 2

    run(go())


class Stalling(StorageWrapper):
    """Signals each grant or return of a lease, and holds its answer back."""

    def __init__(self, inner):
        super().__init__(inner)
        self.stalls = False
        self.done, self.go_on = asyncio.Event(), asyncio.Event()

    async def lease(self, *args, **kwargs):
        if self.stalls:
            self.stalls = False
            self.done.set()
            await self.go_on.wait()
        return await self.inner.lease(*args, **kwargs)


@pytest.mark.parametrize("when", ["entering", "leaving"])
def test_who_is_cancelled_on_the_way_in_or_out_leaves_the_turn_free(store, when):
    async def go():
        checkpointer = store.open(Stalling)
        stalling = checkpointer.storage
        stalling.stalls = when == "entering"

        async def turn():
            async with checkpointer.alease("t", ttl=300):
                assert when == "leaving"
                stalling.stalls = True

        task = asyncio.create_task(turn())
        await stalling.done.wait()
        await give_up(task, stalling.go_on)
        async with checkpointer.alease("t"):
            pass
        await checkpointer.arelease()

    run(go())


def test_a_renewal_that_is_under_way_when_the_block_ends_does_not_take_the_turn_anew(store):
    async def go():
        checkpointer = store.open(Stalling)
        stalling = checkpointer.storage
        async with checkpointer.alease("t", ttl=0.3):
            stalling.stalls = True
            await stalling.done.wait()
            asyncio.get_running_loop().call_soon(stalling.go_on.set)
        async with checkpointer.alease("t"):
            pass
        await checkpointer.arelease()

    run(go())


def test_who_is_interrupted_on_the_way_in_leaves_the_turn_free(local):
    class Interrupted(StorageWrapper):
        granted = False

        async def lease(self, *args, **kwargs):
            record = await self.inner.lease(*args, **kwargs)
            if not self.granted:
                self.granted = True
                raise KeyboardInterrupt
            return record

    with pytest.raises(KeyboardInterrupt), local.open(Interrupted).lease("t", ttl=300):
        pass
    with local.open().lease("t"):
        pass


def test_who_comes_second_is_told_who_has_it_since_when_and_until(store, clock):
    one, other = store.open(clock=clock), store.open(clock=clock)
    with one.lease("t", ttl=60, holder="worker-7"):
        clock.advance(5)
        with pytest.raises(clew.LeaseError, match="worker-7 since 12:00:00 until 12:01:00") as caught, other.lease("t"):
            pass
        assert (caught.value.holder, caught.value.thread_id) == ("worker-7", "t")
        with other.lease("u"):
            pass


def test_a_lease_that_was_not_renewed_ends_after_its_ttl(store, clock):
    one, other = store.open(clock=clock), store.open(clock=clock)
    lease = one.lease("t", ttl=30)
    lease.__enter__()
    clock.advance(31)
    with other.lease("t", ttl=30) as second:
        assert second.token > lease.token
    lease.__exit__(None, None, None)


def test_a_holder_that_lost_its_turn_is_fenced_off(store, clock):
    late, other = store.open(clock=clock), store.open(clock=clock)
    late.put_state("t", {"n": 0})
    with late.lease("t", ttl=30):
        clock.advance(31)
        with other.lease("t", ttl=30):
            other.put_state("t", {"n": "other's"})
            for write in (
                lambda: late.put_state("t", {"n": "late"}),
                lambda: late.update_state("t", set={"n": "late"}),
                lambda: late.put_messages("t", [clew.Message(role="user")]),
                lambda: late.put_thread("t", {"thread_name": "late"}),
                lambda: late.clear_state("t"),
                lambda: late.delete_thread("t"),
            ):
                with pytest.raises(clew.LeaseError):
                    write()
        # Also after the other has returned it: what the late holder knows is old.
        with pytest.raises(clew.LeaseError):
            late.put_state("t", {"n": "late"})
        late.put_state("u", {"n": "another thread"})
    assert other.get_state("t") == {"n": "other's"}
    assert other.list_messages("t") == []
    late.put_state("t", {"n": "without a lease again"})
    assert other.get_state("t") == {"n": "without a lease again"}


def test_an_async_holder_that_lost_its_turn_is_fenced_off(store, clock):
    async def go():
        late, other = store.open(clock=clock), store.open(clock=clock)
        async with late.alease("t", ttl=30):
            clock.advance(31)
            async with other.alease("t", ttl=30):
                await other.aput_state("t", 1)
                with pytest.raises(clew.LeaseError):
                    await late.aput_state("t", 2)
        assert await other.aget_state("t") == 1

    run(go())


class TickingStorage(StorageWrapper):
    """Advances the clock with each request for a lease, so that tests don't wait."""

    clock: FakeClock

    async def _around(self, kind, operation):
        return await operation()

    async def lease(self, *args, **options):
        self.clock.advance(10)
        return await self.inner.lease(*args, **options)


def ticking(clock):
    def wrap(storage):
        wrapped = TickingStorage(storage)
        wrapped.clock = clock
        return wrapped

    return wrap


def test_waiting_ends_when_the_turn_is_free(store, clock):
    one, other = store.open(clock=clock), store.open(ticking(clock), clock=clock)
    lease = one.lease("t", ttl=25)
    lease.__enter__()
    with other.lease("t", wait=100) as second:
        assert second.token > lease.token
    lease.__exit__(None, None, None)


def test_waiting_ends_after_so_many_seconds(store, clock):
    one, other = store.open(clock=clock), store.open(ticking(clock), clock=clock)
    with one.lease("t", ttl=1000), pytest.raises(clew.LeaseError, match="wait="), other.lease("t", wait=45):
        pass
    assert 45 <= clock.monotonic() <= 70


def test_a_lease_does_not_create_a_thread_and_ends_with_it(store):
    checkpointer, other = store.open(), store.open()
    with checkpointer.lease("t"):
        assert checkpointer.get_thread("t") is None
    checkpointer.put_state("t", 1)
    with checkpointer.lease("t"):
        checkpointer.delete_thread("t")
        with other.lease("t"):
            pass


def test_leases_of_thread_names_that_look_like_locks_do_not_collide(store):
    checkpointer = store.open()
    names = ["x", "lock:x", "x:lock", "lease:x"]
    leases = [checkpointer.lease(name) for name in names]
    tokens = [lease.__enter__().token for lease in leases]
    assert len(set(tokens)) == 4
    for lease in leases:
        lease.__exit__(None, None, None)


def test_an_error_inside_the_block_gives_the_turn_back(store):
    checkpointer = store.open()
    with pytest.raises(ZeroDivisionError), checkpointer.lease("t"):
        raise ZeroDivisionError
    with store.open().lease("t"):
        pass


def test_whoever_gives_back_a_lost_lease_does_not_take_it_from_the_next(store, clock):
    late, other = store.open(clock=clock), store.open(clock=clock)
    lease = late.lease("t", ttl=30)
    lease.__enter__()
    clock.advance(31)
    with other.lease("t", ttl=30):
        lease.__exit__(None, None, None)
        with pytest.raises(clew.LeaseError), late.lease("t"):
            pass


HOLDER = """
import asyncio, sys, clew
url, way = sys.argv[1:]
checkpointer = clew.connect(url)

def told(line):
    print(line, flush=True)

def write(lease):
    try:
        checkpointer.put_state("t", {"by": "the late one"})
        told("saved")
    except clew.LeaseError:
        told(f"refused, lost: {lease.lost}")

async def awrite(lease):
    try:
        await checkpointer.aput_state("t", {"by": "the late one"})
        told("saved")
    except clew.LeaseError:
        told(f"refused, lost: {lease.lost}")

async def go():
    async with checkpointer.alease("t", ttl=2, holder="the late one") as lease:
        told(f"held, lost: {lease.lost}")
        await asyncio.to_thread(sys.stdin.readline)
        await awrite(lease)
    await checkpointer.arelease()

if way == "async":
    asyncio.run(go())
else:
    with checkpointer.lease("t", ttl=2, holder="the late one") as lease:
        told(f"held, lost: {lease.lost}")
        sys.stdin.readline()
        write(lease)
    checkpointer.release()
"""


@pytest.fixture(params=SHARED)
def shared(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


def stop(process, url):
    """Stop the process between two renewals. In the middle of one, it would keep an SQLite file locked."""
    while True:
        process.send_signal(signal.SIGSTOP)
        if not url.startswith("sqlite:///"):
            return
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=1)) as file:
            try:
                file.execute("BEGIN IMMEDIATE")
                file.rollback()
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
            else:
                return


@pytest.mark.parametrize("way", ["async", "sync"])
def test_a_holder_that_was_stopped_for_longer_than_its_ttl_can_not_write_and_notices(shared, way):
    checkpointer = shared.open()
    with start(HOLDER, shared.url, way) as process:
        assert process.stdout.readline() == "held, lost: False\n"
        with pytest.raises(clew.LeaseError, match="held by the late one since"), checkpointer.lease("t", wait=2.5):
            # It is renewed, so it can be held longer than its ttl.
            pass
        stop(process, shared.url)
        with checkpointer.lease("t", wait=60):
            checkpointer.put_state("t", {"by": "the next"})
            process.send_signal(signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "refused, lost: True\n"
        assert process.wait(120) == 0
    assert checkpointer.get_state("t") == {"by": "the next"}


def test_the_turn_of_a_holder_that_was_killed_comes_free(shared):
    checkpointer = shared.open()
    with start(HOLDER, shared.url, "sync") as process:
        assert process.stdout.readline() == "held, lost: False\n"
        process.kill()
        process.wait()
        with checkpointer.lease("t", wait=20):
            checkpointer.put_state("t", 1)
    assert checkpointer.get_state("t") == 1


def test_processes_take_turns_and_none_is_lost(shared):
    script = """
import sys, clew
checkpointer = clew.connect(sys.argv[1])
for _ in range(6):
    with checkpointer.lease("t", ttl=10, wait=60):
        # Read, think, write: updates would be lost if two did it at once.
        count = (checkpointer.get_state("t") or {"n": 0})["n"]
        checkpointer.put_state("t", {"n": count + 1})
checkpointer.release()
"""
    workers = [start(script, shared.url) for _ in range(2)]
    for worker in workers:
        with worker:
            assert worker.wait(120) == 0
    assert shared.open().get_state("t") == {"n": 12}


def test_a_holder_that_renews_too_late_knows_that_it_lost_the_turn_though_nobody_took_it(store, clock):
    async def go():
        checkpointer = store.open(clock=clock)
        async with checkpointer.alease("t", ttl=30) as lease:
            await lease._renew()
            assert not lease.lost
            clock.advance(31)
            assert lease.lost
            await lease._renew()
            assert lease.lost
            with pytest.raises(clew.LeaseError):
                await checkpointer.aput_state("t", 1)
            # Nobody has to wait for it.
            other = store.open(clock=clock)
            async with other.alease("t"):
                await other.aput_state("t", 2)
            await other.arelease()
        await checkpointer.arelease()

    run(go())


def test_a_turn_that_can_not_be_given_back_hides_nothing(store):
    faulty = FaultyStorage(store.storage(), lambda kind: None)
    checkpointer = clew.BaseCheckpointer(faulty, retry_for=0)
    store.opened.append(checkpointer)

    def fail() -> None:
        faulty._plan = lambda kind: "before apply"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), checkpointer.lease("t", ttl=60):
        fail()


@pytest.mark.parametrize("durability", ["sync", "background"])
def test_a_task_that_outlives_the_block_writes_like_any_other(store, durability):
    async def go():
        checkpointer = store.open(durability=durability)
        go_on = asyncio.Event()

        async def later():
            await checkpointer.aput_messages("t", [{"role": "user", "content": "in the block"}])
            await go_on.wait()
            await checkpointer.aput_thread("t", thread_name="A title")
            await checkpointer.aupdate_state("t", set={"late": True})
            await checkpointer.aput_state("other", {"n": 1})

        async with checkpointer.alease("t") as lease:
            await checkpointer.aput_state("t", {"n": 1})
            task = asyncio.create_task(later())
            first = lease.token
        async with checkpointer.alease("t") as lease:
            assert lease.token > first
            await checkpointer.aput_state("t", {"n": 2})
        go_on.set()
        await task
        assert await checkpointer.aget_state("t") == {"n": 2, "late": True}
        assert (await checkpointer.aget_thread("t")).thread_name == "A title"

    run(go())


def test_a_save_that_was_accepted_in_the_block_is_fenced_off_after_it(store, clock):
    checkpointer = store.open(durability="background", clock=clock)
    checkpointer.put_state("t", {"n": 0})
    held, go_on = threading.Event(), Answer[None]()
    apply = checkpointer._engine.storage.apply

    async def slow(commits):
        if any(each.fence is not None for each in commits):
            held.set()
            await go_on.arrive()
        return await apply(commits)

    def lose_the_lease():
        with checkpointer.lease("t", 10):
            checkpointer._engine.storage.apply = slow
            checkpointer.put_state("t", {"n": "late"})
            assert held.wait(60)
            clock.advance(11)
            with store.open(clock=clock).lease("t"):
                go_on.give(None)
                checkpointer.get_state("t")

    with pytest.raises(clew.LeaseError):
        lose_the_lease()


def test_a_renewal_under_way_when_the_block_ends_is_no_loss(store, caplog):
    async def go():
        checkpointer = store.open()
        async with checkpointer.alease("t", 30) as lease:
            request, asked, answer = lease._request, asyncio.Event(), asyncio.Event()

            async def slow(now, ttl):
                record = await request(now, ttl)
                if ttl:
                    asked.set()
                    await answer.wait()
                return record

            lease._request = slow
            renewal = asyncio.create_task(lease._renew())
            await asked.wait()
        answer.set()
        await renewal
        assert not lease.lost

    run(go())
    assert not [each.getMessage() for each in caplog.records if "lease lost" in each.getMessage()]
