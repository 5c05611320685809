"""Expiry: removes threads that were idle for too long, and messages that are too old.

Expiry is the only removal that the time of day decides. So it does not trust a clock that went
forward too far: `ClockWatch` compares it with the monotonic clock.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from clew.checkpointer.engine import Engine
from clew.checkpointer.sweeper import ATTEMPTS, Sweeper, address_of
from clew.clock import Clock
from clew.errors import ConflictError, LeaseError
from clew.ids import new_id
from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.queries import MessageQuery, ThreadQuery, ValueQuery
from clew.model.records import MessageRecord, ThreadRecord
from clew.upkeep.retention import is_idle

_log = logging.getLogger("clew")

_LEASED_FOR: Final = 30.0
"""Seconds after which a thread is free again if this process dies while it removes the thread."""
_LOOKED_AT: Final = 32
"""Messages that tell whether a thread has old ones. One may be new, because it was replaced."""
_AT_ONCE: Final = 500
"""Messages that one commit removes."""
TOLERANCE: Final = timedelta(hours=1)
"""How much further the wall clock may go than the monotonic clock."""


class ClockWatch:
    """Detects jumps of the wall clock since the last check."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.now(), clock.monotonic()

    def jumped(self) -> timedelta | None:
        """Return how far the clock jumped forward since the last check, if that is more than `TOLERANCE`."""
        now, passed = self._clock.now(), self._clock.monotonic()
        at, before = self._last
        self._last = now, passed
        ahead = (now - at) - timedelta(seconds=passed - before)
        return ahead if ahead > TOLERANCE else None


class Expiry:
    """Removes what has expired from the threads of a store."""

    def __init__(self, engine: Engine, sweeper: Sweeper) -> None:
        self._engine = engine
        self._sweeper = sweeper

    async def thread(self, record: ThreadRecord, ttl: timedelta, *, dry_run: bool) -> Counter[str] | None:
        """Remove the thread if it was idle for longer than `ttl`; `None` if it stays.

        It stays if somebody holds its lease, or writes to it at this moment: a commit that comes
        before the removal prevents it, and one that comes after it finds the thread deleted.
        """
        if not is_idle(record, ttl, self._engine.clock.now()):
            return None
        if not dry_run and not await self._remove(record, ttl):
            return None
        return Counter(expired=1, thread_bytes=record.size)

    async def _remove(self, record: ThreadRecord, ttl: timedelta) -> bool:
        engine, holder = self._engine, f"clew-expiry:{new_id()}"
        take = partial(engine.storage.lease, record.thread_id, ANY_USER, holder=holder)
        lease = await engine.retry(lambda: take(now=engine.clock.now(), ttl=_LEASED_FOR))
        if lease.holder != holder:
            return False
        removed = False
        try:
            # The number first: if the thread is written to after this, the removal is refused.
            sequence = await self._sequence(record)
            found = await engine.threads(ThreadQuery(user=ANY_USER, thread_id=record.thread_id))
            if found and is_idle(found[0], ttl, engine.clock.now()):
                removal = Removal(thread=True, as_of=sequence)
                await self._sweeper.commit(found[0], fence=lease.token, remove=removal)
                removed = True
                for whose in {found[0].user_id, ANY_USER}:
                    engine.forget(address_of(record, whose))
        except (ConflictError, LeaseError):
            # The thread was written to again.
            return False
        finally:
            if not removed:
                await engine.retry(lambda: take(now=engine.clock.now(), ttl=0))
        return removed

    async def messages(self, record: ThreadRecord, ttl: timedelta, *, dry_run: bool) -> Counter[str]:
        """Remove the thread's messages that are older than `ttl`; returns what was removed.

        Reads from the oldest on, until a page has no such message.
        """
        removed: Counter[str] = Counter()
        cutoff = self._engine.clock.now() - ttl
        # Most threads have nothing to remove, which their first messages tell.
        if not record.message_count or not _old(await self._page(record, None, _LOOKED_AT), cutoff):
            return removed
        cursor: str | None = None
        attempts = 0
        while attempts <= ATTEMPTS:
            sequence = await self._sequence(record)
            page = await self._page(record, cursor, _AT_ONCE)
            old = _old(page, cutoff)
            if not old:
                break
            if not dry_run:
                removal = Removal(messages=tuple(each.message_id for each in old), as_of=sequence)
                try:
                    await self._sweeper.commit(record, remove=removal)
                except LeaseError:
                    break
                except ConflictError:
                    # A message may have been replaced by a new one with its id.
                    attempts += 1
                    continue
            removed["messages"] += len(old)
            removed["message_bytes"] += sum(len(each.data) + len(each.text.encode("utf-8", "replace")) for each in old)
            gone = {each.message_id for each in old} if not dry_run else set()
            cursor = next((each.message_id for each in reversed(page) if each.message_id not in gone), cursor)
        return removed

    async def _sequence(self, record: ThreadRecord) -> int:
        asked = ValueQuery(thread_id=record.thread_id, user=ANY_USER, ranges=())
        return (await self._engine.values(asked)).sequence

    async def _page(self, record: ThreadRecord, cursor: str | None, limit: int) -> list[MessageRecord]:
        engine = self._engine
        query = MessageQuery(thread_id=record.thread_id, user=ANY_USER, after=cursor, limit=limit)
        return await engine.retry(lambda: engine.storage.messages(query))


def _old(page: list[MessageRecord], cutoff: datetime) -> list[MessageRecord]:
    """Return the messages from before `cutoff`. The time of a damaged one can't be trusted."""
    return [each for each in page if each.created_at < cutoff and not each.damage]


def may_expire(watch: ClockWatch) -> bool:
    """Return whether the clock can be trusted in this run. If not, logs why."""
    ahead = watch.jumped()
    if ahead is not None:
        _log.warning(
            "expiry skipped: the clock jumped forward by %s since the last cleanup; the next cleanup trusts it",
            ahead,
        )
    return ahead is None
