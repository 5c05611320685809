"""The in-process cache of volatile states: bounded, with a time to live, and never older than the durable head."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from clew.clock import Clock
from clew.model.config import User

Version = tuple[str | None, str | int | None]
"""Incarnation of the thread and its head's id (its epoch, while it has none): if either changed, a cached state is outdated."""

Key = tuple[str, str, User]
"""Thread, namespace and who asks: a tuple, so that no two can be mistaken for each other, or see or displace the other's."""


@dataclass(frozen=True, slots=True)
class _Entry:
    packed: bytes
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

    def put(self, key: Key, packed: bytes, version: Version) -> None:
        entry = _Entry(packed, version, self._clock.monotonic() + self._ttl)
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = entry
            while len(self._entries) > self._max_threads:
                self._entries.popitem(last=False)

    def get(self, key: Key, version: Version) -> bytes | None:
        """What was put for this thread by this user, if it is not too old and of this version."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
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
