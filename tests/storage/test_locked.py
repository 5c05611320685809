"""LockingStorage: commits take their thread's lease first."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from clew.errors import LeaseError, PermissionDeniedError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.records import LeaseRecord
from clew.storage.locked import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.testing import FakeClock
from clew.testing.build import checkpoint, commit, deletion, message


class LeaseCounter(MemoryStorage):
    """Counts lease requests, and advances the clock with each."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.asked: list[float] = []

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        self.asked.append(ttl)
        self.clock.advance(1)
        return await super().lease(thread_id, user, holder=holder, now=now, ttl=ttl)


class SlowLeases(LeaseCounter):
    """Pauses at each lease request, before or after it is granted, until it is resumed."""

    def __init__(self, clock: FakeClock, *, given: bool) -> None:
        super().__init__(clock)
        self.given = given
        self.stopped, self.go_on = asyncio.Event(), asyncio.Event()
        self.lost = False

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        if not self.given:
            await self._stop()
        record = await super().lease(thread_id, user, holder=holder, now=now, ttl=ttl)
        if self.given:
            await self._stop()
        if self.lost and ttl:
            raise TransientStorageError("the answer was lost")
        return record

    async def _stop(self) -> None:
        self.stopped.set()
        await self.go_on.wait()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def inner(clock):
    return LeaseCounter(clock)


@pytest.fixture
def locking(inner, clock):
    return LockingStorage(inner, timeout=5, expiry=30, clock=clock)


def put(storage: Storage, each: Commit) -> object:
    async def applied() -> object:
        (outcome,) = await storage.apply((each,))
        return outcome

    return asyncio.run(applied())


def held(storage: Storage, clock: FakeClock, *, ttl: float, holder: str = "somebody") -> LeaseRecord:
    return asyncio.run(storage.lease("t", None, holder=holder, now=clock.now(), ttl=ttl))


def test_a_commit_takes_the_lock_and_gives_it_back(locking, inner, clock):
    assert isinstance(put(locking, commit(checkpoint=checkpoint("c1"))), Applied)
    assert inner.asked == [30, 0]
    assert held(inner, clock, ttl=1).holder == "somebody"


def test_the_lock_is_given_back_when_the_commit_is_refused(locking, inner, clock):
    rejected = commit(checkpoint=checkpoint("c1", parent="elsewhere", on_conflict="reject"))
    assert not isinstance(put(locking, rejected), Applied)
    assert held(inner, clock, ttl=1).holder == "somebody"


def test_a_commit_waits_for_whoever_has_the_lock(locking, inner, clock):
    held(inner, clock, ttl=4)
    assert isinstance(put(locking, commit(messages=[message("m1")])), Applied)
    assert inner.asked[1:-1] == [30] * (len(inner.asked) - 2)
    assert len(inner.asked) > 3


def test_a_lock_that_is_kept_too_long_is_an_error_that_says_by_whom(locking, inner, clock):
    held(inner, clock, ttl=100)
    outcome = put(locking, commit(messages=[message("m1")]))
    assert isinstance(outcome, LeaseError)
    assert "somebody" in str(outcome)
    assert "lock_timeout" in str(outcome)
    assert held(inner, clock, ttl=0).holder == "somebody"


def test_the_lock_of_a_writer_that_died_ends_by_itself(locking, inner, clock):
    held(inner, clock, ttl=30, holder="dead")
    clock.advance(31)
    assert isinstance(put(locking, commit(messages=[message("m1")])), Applied)


def test_who_holds_the_lease_needs_no_other_lock(locking, inner, clock):
    token = held(inner, clock, ttl=100).token
    assert isinstance(put(locking, commit(fence=token, messages=[message("m1")])), Applied)
    assert inner.asked == [100]


def test_another_users_thread_gives_no_lock(locking):
    put(locking, commit(user="ann", messages=[message("m1")]))
    assert isinstance(put(locking, commit(user="bob", messages=[message("m2")])), PermissionDeniedError)


def test_a_deletion_takes_the_lock_along(locking, inner, clock):
    put(locking, commit(messages=[message("m1")]))
    assert isinstance(put(locking, deletion()), Applied)
    assert held(inner, clock, ttl=1).holder == "somebody"


@pytest.mark.parametrize("given", [False, True], ids=["on its way", "given"])
def test_a_save_that_is_given_up_while_it_takes_the_lock_gives_it_back(clock, given):
    async def give_up() -> None:
        inner = SlowLeases(clock, given=given)
        locking = LockingStorage(inner, timeout=5, expiry=30, clock=clock)
        saving = asyncio.create_task(locking.apply((commit(messages=[message("m1")]),)))
        await inner.stopped.wait()
        saving.cancel()
        inner.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert (await inner.lease("t", None, holder="next", now=clock.now(), ttl=1)).holder == "next"
        (outcome,) = await locking.apply((commit(messages=[message("m2")]),))
        assert isinstance(outcome, Applied)

    asyncio.run(give_up())


def test_who_gives_up_twice_gives_the_lock_back_after_it_was_taken(clock):
    async def give_up() -> None:
        inner = SlowLeases(clock, given=False)
        locking = LockingStorage(inner, timeout=5, expiry=30, clock=clock)
        saving = asyncio.create_task(locking.apply((commit(messages=[message("m1")]),)))
        await inner.stopped.wait()
        saving.cancel()
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.sleep(0)
        assert inner.asked == []
        inner.go_on.set()
        await asyncio.wait([saving])
        assert saving.cancelled()
        assert inner.asked == [30, 0]

    asyncio.run(give_up())


def test_a_lock_whose_answer_was_lost_is_given_back(clock):
    async def lose() -> None:
        inner = SlowLeases(clock, given=True)
        inner.go_on.set()
        inner.lost = True
        locking = LockingStorage(inner, timeout=5, expiry=30, clock=clock)
        with pytest.raises(TransientStorageError, match="lost"):
            await locking.apply((commit(messages=[message("m1")]),))
        assert inner.asked == [30, 0]

    asyncio.run(lose())
