"""Cache eviction: least recently used threads, by count and by age."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from clew.bounded import BoundedMap
from clew.clock import Clock
from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.storage.cached.entries import drop_commit
from clew.storage.protocol import Storage

SHARE: Final = 16
"""A process sweeps after it has used `max_threads / SHARE` threads that were new to it."""
_PAGE: Final = 256


class Eviction:
    """Keeps a hot storage to about `max_threads` threads, used in the last `ttl` seconds if given.

    Evicts by the threads' last activity in the hot storage. Writes count as activity. Readers touch
    a thread every `touch_every` seconds.
    """

    def __init__(self, *, max_threads: int, ttl: float | None, touch_every: float, clock: Clock) -> None:
        self._max_threads = max_threads
        self._ttl = ttl
        self._touch_every = touch_every
        self._clock = clock
        self._marked: BoundedMap[str, float] = BoundedMap(max_entries=max_threads)
        """The last activity that this process knows of, for the threads that it used."""
        self._new = 0
        self._swept = clock.monotonic()

    def used(self, thread_id: str, *, written: bool) -> bool:
        """Note that a thread was used. Returns whether it must be touched in the hot storage."""
        now = self._clock.monotonic()
        marked = self._marked.get(thread_id)
        due = marked is None or now - marked >= self._touch_every
        self._marked.put(thread_id, now if marked is None or due or written else marked)
        if marked is None:
            self._new += 1
        return due and not written

    def forget(self, thread_id: str) -> None:
        """Note that a thread was dropped."""
        self._marked.pop(thread_id)

    def sweep_due(self) -> bool:
        """Return whether it is time to sweep. If true, the caller must sweep."""
        now = self._clock.monotonic()
        old = self._ttl is not None and now - self._swept >= self._ttl / SHARE
        if not old and self._new * SHARE <= self._max_threads:
            return False
        self._new, self._swept = 0, now
        return True

    async def sweep(self, hot: Storage) -> int:
        """Evict threads beyond the bounds. Returns their number."""
        gone = await self._sweep(hot, self._max_threads, None)
        return gone if self._ttl is None else gone + await self._sweep(hot, 0, self._ttl)

    async def _sweep(self, hot: Storage, offset: int, ttl: float | None) -> int:
        """Evict threads unused for `ttl` seconds, except the `offset` most recently used."""
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
