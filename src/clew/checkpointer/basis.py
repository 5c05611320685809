"""Known bases: the state in which this process last saw each thread, so that late writers notice a deletion.

The bases of the most recently used threads are kept in full. For every other thread, the process keeps 16
bytes until it ends: a digest of its key and one of its incarnation. They tell that the thread was known, and
whether it is still the same. So eviction costs a read, and a deleted thread stays deleted.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from clew.model.config import User
from clew.model.records import Basis

Key = tuple[str, User]
_DIGEST: Final = (1 << 64) - 1
_ABSENT: Final = 0
"""Stored instead of an incarnation if the thread did not exist."""
_LONGEST_RUN: Final = 400_000
"""Longer runs of digests are not merged: that would block an event loop for too long."""


class KnownBases:
    """The last known basis of each thread, by thread and user. Thread-safe."""

    kept_whole = 100_000

    def __init__(self) -> None:
        self._recent: dict[Key, Basis | None] = {}
        self._runs: tuple[_Run, ...] = ()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Basis | None:
        """The last known basis; `None` if the thread is unknown, did not exist, or only its digest is left."""
        return self._recent.get(key)

    def put(self, key: Key, basis: Basis) -> None:
        self._recent[key] = basis
        if len(self._recent) > self.kept_whole:
            self._evict()

    def drop(self, key: Key) -> None:
        """Note that the thread does not exist, so that its user may create it again."""
        if self._digest(key) is None:
            self._recent.pop(key, None)
        else:
            self._recent[key] = None

    def is_digested(self, key: Key) -> bool:
        """Return whether the thread is known, but only by its digest."""
        return bool(self._runs) and key not in self._recent and self._digest(key) is not None

    def is_same(self, key: Key, basis: Basis | None) -> bool:
        """Return whether `basis` belongs to the incarnation that is known. True for an unknown thread."""
        if key in self._recent or not self._runs:
            known = self._recent.get(key)
            return known is None or (basis is not None and basis.incarnation == known.incarnation)
        digest = self._digest(key)
        return digest is None or (basis is not None and _incarnation_digest(basis) == digest)

    def _digest(self, key: Key) -> int | None:
        """The digest of the thread's incarnation, if it was evicted and existed then."""
        if not self._runs:
            return None
        of_key = _key_digest(key)
        for run in reversed(self._runs):
            if (found := run.get(of_key)) is not None:
                return found or None
        return None

    def _evict(self) -> None:
        """Reduce the oldest entries to their digests. A thread that is in use comes back with its next call."""
        with self._lock:
            if len(self._recent) <= self.kept_whole:
                return
            first = [*self._recent.items()][: max(self.kept_whole // 16, 1)]
            runs = [*self._runs, _Run({_key_digest(key): _incarnation_digest(basis) for key, basis in first})]
            while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]) and len(runs[-2]) <= _LONGEST_RUN:
                newer, older = runs.pop(), runs.pop()
                runs.append(_Run({**older.content(), **newer.content()}))
            # Digests first: no thread is unknown in between.
            self._runs = tuple(runs)
            for key, _ in first:
                self._recent.pop(key, None)


class _Run:
    """Digests of incarnations by digests of keys, sorted: two arrays without any overhead per entry."""

    __slots__ = ("_incarnations", "_keys")

    def __init__(self, content: Mapping[int, int]) -> None:
        ordered = sorted(content.items())
        self._keys = array("Q", [key for key, _ in ordered])
        self._incarnations = array("Q", [incarnation for _, incarnation in ordered])

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: int) -> int | None:
        at = bisect_left(self._keys, key)
        return self._incarnations[at] if at < len(self._keys) and self._keys[at] == key else None

    def content(self) -> dict[int, int]:
        return dict(zip(self._keys, self._incarnations, strict=True))


def _key_digest(key: Key) -> int:
    # Python's hash: 64 bits, randomized per process, so nobody outside can choose colliding names.
    return hash(key) & _DIGEST


def _incarnation_digest(basis: Basis | None) -> int:
    return _ABSENT if basis is None else hash(basis.incarnation) & _DIGEST or 1
