"""Caches of volatile states: bounded, with a time to live, and never older than the durable head."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from clew.clock import Clock
from clew.model.config import User
from clew.storage.wrapper import SharedStates, StateVersion

Version = StateVersion

Key = tuple[str, str, User]
"""Thread, namespace and who asks: a tuple, so that no two can be mistaken for each other, or see or displace the other's."""


@dataclass(frozen=True, slots=True)
class _Entry:
    packed: bytes
    version: Version
    expires: float


class Volatile(Protocol):
    """Keeps states that are not durable."""

    async def put(self, key: Key, packed: bytes, version: Version) -> None: ...

    async def get(self, key: Key, version: Version) -> bytes | None:
        """What was put for this thread by this user, if it is not too old and of this version."""

    def drop(self, thread_id: str) -> None:
        """Forget all states of a thread, which is cleared or deleted."""


class StateCache:
    """States by thread in this process, the least recently used dropped when there are more than `max_threads`."""

    def __init__(self, *, max_threads: int, ttl: float, clock: Clock) -> None:
        self._max_threads = max_threads
        self._ttl = ttl
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    async def put(self, key: Key, packed: bytes, version: Version) -> None:
        entry = _Entry(packed, version, self._clock.monotonic() + self._ttl)
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = entry
            while len(self._entries) > self._max_threads:
                self._entries.popitem(last=False)

    async def get(self, key: Key, version: Version) -> bytes | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if entry.version != version or entry.expires <= self._clock.monotonic():
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry.packed

    def forget(self, key: Key) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def drop(self, thread_id: str) -> None:
        with self._lock:
            for key in [key for key in self._entries if key[0] == thread_id]:
                del self._entries[key]


class SharedStateCache:
    """States that all processes share. What can't be shared is this process's own: when the place does not answer, and as long
    as the thread has nothing durable. By its incarnation it is known in whatever store it is; without one, only by its id."""

    def __init__(self, shared: SharedStates, own: StateCache, *, ttl: float) -> None:
        self._shared = shared
        self._own = own
        self._ttl = ttl

    async def put(self, key: Key, packed: bytes, version: Version) -> None:
        if version[0] is not None and await self._shared.put_state(*key, version, packed, self._ttl):
            self._own.forget(key)
        else:
            await self._own.put(key, packed, version)

    async def get(self, key: Key, version: Version) -> bytes | None:
        own = await self._own.get(key, version)
        return own if own is not None or version[0] is None else await self._shared.get_state(*key, version)

    def drop(self, thread_id: str) -> None:
        # The shared ones go with the commit that takes the thread, or its state, away.
        self._own.drop(thread_id)
