"""The in-process cache of volatile states: bounded, with a time to live, and never older than the durable head."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from clew.clock import Clock
from clew.model.config import ANY_USER, User

Version = tuple[str | None, str | None]
"""Incarnation of the thread and id of its head: if either changed, a cached state is out of date."""

Key = tuple[str, str]
"""Thread and namespace: a tuple, so that no two can be mistaken for each other."""


@dataclass(frozen=True, slots=True)
class _Entry:
    packed: bytes
    user: User
    version: Version
    expires: float


class StateCache:
    """States by thread, the least recently used dropped when there are more than `max_threads`."""

    def __init__(self, *, max_threads: int, ttl: float, clock: Clock) -> None:
        self._max_threads = max_threads
        self._ttl = ttl
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Key, packed: bytes, user: User, version: Version) -> None:
        entry = _Entry(packed, user, version, self._clock.monotonic() + self._ttl)
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = entry
            while len(self._entries) > self._max_threads:
                self._entries.popitem(last=False)

    def get(self, key: Key, user: User, version: Version) -> bytes | None:
        """What was put for this thread, if it is this user's, not too old and of this version."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or (user is not ANY_USER and entry.user != user):
                return None
            if entry.version != version or entry.expires <= self._clock.monotonic():
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry.packed

    def drop(self, thread_id: str) -> None:
        """Forget all states of a thread."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == thread_id]:
                del self._entries[key]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
