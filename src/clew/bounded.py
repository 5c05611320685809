"""A bounded map for everything that Clew caches: LRU eviction by count or weight, optional TTL."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from clew.clock import SYSTEM_CLOCK, Clock
from clew.os_threads import reset_after_fork

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """A thread-safe map that evicts the least recently used entries when it is full.

    `max_entries` bounds the number of entries, and `max_weight` the sum of the weights
    passed to `put`. With `ttl`, an entry expires that many seconds after it was put, by
    `clock`. Values must not be `None`.
    """

    __slots__ = ("__weakref__", "_clock", "_entries", "_lock", "_max_entries", "_max_weight", "_ttl", "_weight")

    def __init__(
        self,
        *,
        max_entries: float = math.inf,
        max_weight: float = math.inf,
        ttl: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._ttl = ttl
        self._clock = clock
        self._entries: OrderedDict[K, tuple[V, int, float]] = OrderedDict()
        """The value, weight and expiry time of each key, least recently used first."""
        self._weight = 0
        self._lock = threading.Lock()
        reset_after_fork(self)

    def reset(self) -> None:
        """Forget everything in a forked child: another thread may have held the lock in the middle of a change."""
        self._entries, self._weight, self._lock = OrderedDict(), 0, threading.Lock()

    def __len__(self) -> int:
        """The number of entries, including expired ones that nobody has asked for since."""
        return len(self._entries)

    @property
    def weight(self) -> int:
        """The sum of the entries' weights."""
        return self._weight

    def __iter__(self) -> Iterator[K]:
        """Iterate over a snapshot of the keys, least recently used first."""
        with self._lock:
            return iter(list(self._entries))

    def get(self, key: K) -> V | None:
        """Return the value and make it the newest; `None` if it is absent or expired."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._ttl is not None and entry[2] <= self._clock.monotonic():
                self._remove(key)
                return None
            self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight: int = 1) -> list[tuple[K, V]]:
        """Store `value` as the most recently used, and return the entries evicted to make room for it.

        A value that alone exceeds the bound is evicted itself, after all others.
        """
        expires = math.inf if self._ttl is None else self._clock.monotonic() + self._ttl
        evicted: list[tuple[K, V]] = []
        entries = self._entries
        with self._lock:
            replaced = entries.pop(key, None)
            entries[key] = value, weight, expires
            self._weight += weight if replaced is None else weight - replaced[1]
            while (self._weight > self._max_weight or len(entries) > self._max_entries) and entries:
                oldest, (old_value, old_weight, _) = entries.popitem(last=False)
                self._weight -= old_weight
                evicted.append((oldest, old_value))
            if not entries:
                # An interrupt between the lines above can leave a wrong sum. Without entries, it is 0.
                self._weight = 0
        return evicted

    def pop(self, key: K) -> V | None:
        """Remove the entry and return its value; `None` if there is none or it has expired."""
        with self._lock:
            entry = self._remove(key)
        if entry is None or (self._ttl is not None and entry[2] <= self._clock.monotonic()):
            return None
        return entry[0]

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _remove(self, key: K) -> tuple[V, int, float] | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]
        return entry
