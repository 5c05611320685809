"""How much is kept: which threads were used lately, and which are taken out."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Final

from clew.clock import Clock
from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.storage.cached.entries import drop_commit
from clew.storage.protocol import Storage

SHARE: Final = 16
"""A process looks for threads to take out when it has used so large a part of the allowed number that were new to it."""
_PAGE: Final = 256


class Bounds:
    """At most about `max_threads` threads, those used last; none that was not used for `ttl` seconds, if that is given.

    What counts is when a thread was last active in the hot storage. Writing shows there; who only reads marks the thread as
    used every `touch_every` seconds.
    """

    def __init__(self, *, max_threads: int, ttl: float | None, touch_every: float, clock: Clock) -> None:
        self._max_threads = max_threads
        self._ttl = ttl
        self._touch_every = touch_every
        self._clock = clock
        self._marked: OrderedDict[str, float] = OrderedDict()
        """When each thread that this process used was last active in the hot storage, as far as it knows."""
        self._new = 0
        self._swept = clock.monotonic()

    def used(self, thread_id: str, *, written: bool) -> bool:
        """Take note that a thread was used; whether that has to be marked in the hot storage."""
        now = self._clock.monotonic()
        marked = self._marked.pop(thread_id, None)
        due = marked is None or now - marked >= self._touch_every
        self._marked[thread_id] = now if marked is None or due or written else marked
        while len(self._marked) > self._max_threads:
            self._marked.popitem(last=False)
        if marked is None:
            self._new += 1
        return due and not written

    def forget(self, thread_id: str) -> None:
        """Take note that a thread was taken out."""
        self._marked.pop(thread_id, None)

    def sweep_due(self) -> bool:
        """Whether it is time to look for threads to take out; the caller does it then."""
        now = self._clock.monotonic()
        old = self._ttl is not None and now - self._swept >= self._ttl / SHARE
        if not old and self._new * SHARE <= self._max_threads:
            return False
        self._new, self._swept = 0, now
        return True

    async def sweep(self, hot: Storage) -> int:
        """Take out what is too much or too old; how many threads."""
        gone = await self._sweep(hot, self._max_threads, None)
        return gone if self._ttl is None else gone + await self._sweep(hot, 0, self._ttl)

    async def _sweep(self, hot: Storage, offset: int, ttl: float | None) -> int:
        """Take out the threads from number `offset` on, by their last use, that were not used for `ttl` seconds."""
        oldest = self._clock.now() - timedelta(seconds=ttl or 0)
        count = 0
        while True:
            found = await hot.threads(ThreadQuery(user=ANY_USER, offset=offset, limit=_PAGE))
            gone = [each.thread_id for each in found if ttl is None or each.updated_at <= oldest]
            if gone:
                await hot.apply([drop_commit(thread_id, self._clock.now()) for thread_id in gone])
            count += len(gone)
            offset += len(found) - len(gone)
            if len(found) < _PAGE:
                return count
