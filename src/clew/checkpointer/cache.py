"""Caches of volatile states: bounded, with a TTL, and never older than the durable head."""

from __future__ import annotations

from typing import Protocol

from clew.bounded import BoundedMap
from clew.clock import Clock
from clew.model.config import User
from clew.storage.wrapper import SharedStates, StateVersion

Version = StateVersion

Key = tuple[str, str, User]
"""Thread, namespace and user. A tuple can't be ambiguous, and users never see each other's entries."""


class VolatileCache(Protocol):
    """Keeps states that are not durable."""

    shared: bool
    """Whether other processes read and write it, too."""

    async def put(self, key: Key, packed: bytes, version: Version) -> None: ...

    async def get(self, key: Key, version: Version) -> bytes | None:
        """The cached state, if it has this version and has not expired."""

    def drop(self, thread_id: str) -> None:
        """Forget all states of a thread that was cleared or deleted."""


class StateCache:
    """An LRU cache of `max_threads` states in this process."""

    shared = False

    def __init__(self, *, max_threads: int, ttl: float, clock: Clock) -> None:
        self._states: BoundedMap[Key, tuple[Version, bytes]] = BoundedMap(max_entries=max_threads, ttl=ttl, clock=clock)
        self.forget = self._states.pop

    def __len__(self) -> int:
        return len(self._states)

    async def put(self, key: Key, packed: bytes, version: Version) -> None:
        self._states.put(key, (version, packed))

    async def get(self, key: Key, version: Version) -> bytes | None:
        found = self._states.get(key)
        if found is None:
            return None
        if found[0] != version:
            self._states.pop(key)
            return None
        return found[1]

    def drop(self, thread_id: str) -> None:
        for key in self._states:
            if key[0] == thread_id:
                self._states.pop(key)


class SharedStateCache:
    """States that all processes share.

    A state stays in this process while the shared cache does not answer, and while the thread has
    nothing durable: without an incarnation, threads of different stores have the same key.
    """

    shared = True

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
        # The commit that removes the thread or its state removes the shared ones.
        self._own.drop(thread_id)
