"""Thread indexes: a writer's memory of a thread, which makes a save cost only as much as the change.

A `ThreadIndex` has the digests of the thread's newest values and, for each namespace, a `Memo` of how
the head was cut. It is valid as long as its `basis` is, which the storage checks with every commit.
A memo is compared with the next state byte by byte, so Clew never relies on a caller's word that a
part is unchanged. An index may forget any digest: the value is stored again if it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.bounded import BoundedMap
from clew.codec.chunks import Chunks
from clew.codec.nodes import Container, Runs
from clew.codec.nodes import Sequence as SequenceNode
from clew.codec.rows import DIGEST_SIZE
from clew.model.records import Basis, Range, ValueRow

MAX_COVERS = 8
"""Maximum number of value ranges in a checkpoint; more are joined over the smallest gaps."""

_ENTRY_BYTES = 160
"""Approximate memory for one value: its digest, its number, its place in a memo."""

_LEAST_VALUES = 10_000
"""Number of values per thread that are always indexed, however small the memory bound is."""


class Memo(Struct, frozen=True, kw_only=True):
    """The cut of a part in the last save: `packed` is its content, `node` its node in the body.

    A long list is packed in chunks. A sequence has its container, the `start` of its content in
    `packed`, the number of each value, the cumulative ends of the values' contents and items, and
    in `reach` the ranges that values with references need. A map has the memos of its entries by
    packed key, and `packed` only if it has very many.
    """

    packed: bytes | Chunks
    node: bytes
    covers: tuple[Range, ...] = ()
    container: Container | None = None
    start: int = 0
    numbers: list[int] = []
    ends: list[int] = []
    items: list[int] = []
    runs: Runs = ()
    reach: Mapping[int, tuple[Range, ...]] = {}
    entries: Mapping[bytes, Memo] = {}


class Part(Struct):
    """A part of the state: its node in the body, the values that it needs,
    and its memo for the next save.

    `length` is its length when written out. `sequence` is the parsed
    `node`, if that is a sequence's.
    """

    node: bytes
    length: int
    covers: tuple[Range, ...] = ()
    memo: Memo | None = None
    sequence: SequenceNode | None = None


class Entries(Struct, frozen=True):
    """A state with fields: its container, and its parts by packed key."""

    container: Container
    parts: Mapping[bytes, Part]


class View(Struct, frozen=True, kw_only=True):
    """The last checkpoint of a namespace that this process wrote or loaded. With `entries`, an
    edit need not read the body."""

    checkpoint_id: str
    body: bytes
    size: int
    memo: Memo | None
    entries: Entries | None = None


class ThreadIndex:
    """A process's knowledge of one thread's values. Thread-safe: parts are replaced or added to."""

    def __init__(self, basis: Basis, numbers: Mapping[bytes, int] | None = None) -> None:
        self.basis = basis
        self.views: dict[str, View] = {}
        self.loose: tuple[int, ...] = ()
        """The first numbers of the small rows at the end of the log, which should be merged."""
        self._numbers: dict[bytes, int] = dict(numbers or {})
        self._older: dict[bytes, int] = {}
        """The digests to forget next. They go all at once, so that no save pays for moving others."""
        self._unread: list[tuple[int, bytes]] = []
        self._known_end = 0
        self._lock = threading.Lock()

    def number(self, digest: bytes) -> int | None:
        """Return the number of the value with this digest, if known."""
        if self._unread:
            self._read()
        number = self._numbers.get(digest)
        if number is None and self._older:
            number = self._older.get(digest)
            if number is not None:
                # It is in use, so keep it longer.
                self._numbers[digest] = number
        return number

    def learn(self, rows: Iterable[ValueRow]) -> None:
        """Add the values in `rows` that are newer than the known ones."""
        for row in rows:
            if row.end > self._known_end:
                self._known_end = row.end
                self._unread.append((row.first, row.digests))

    def add(self, first: int, digests: Sequence[bytes]) -> None:
        """Add values that were written."""
        self._known_end = first + len(digests)
        self._numbers.update(zip(digests, range(first, self._known_end), strict=True))

    def counting_on(self, next_value: int) -> ThreadIndex:
        """Return this index for a save that numbers its values from `next_value`,
        behind saves not yet acknowledged."""
        if self._unread:
            self._read()
        ahead = ThreadIndex.__new__(ThreadIndex)
        ahead.basis = replace(self.basis, next_value=next_value)
        ahead.views, ahead.loose, ahead._lock = self.views, (), self._lock
        ahead._numbers, ahead._older = self._numbers, self._older
        ahead._unread, ahead._known_end = [], self._known_end
        return ahead

    def _read(self) -> None:
        with self._lock:
            for first, digests in self._unread:
                starts = range(0, len(digests), DIGEST_SIZE)
                self._numbers.update((digests[at : at + DIGEST_SIZE], first + at // DIGEST_SIZE) for at in starts)
            self._unread = []

    def keep_newest(self, count: int) -> None:
        """Forget the oldest digests if more than `count` values are known."""
        if self.known <= count:
            return
        if self._unread:
            self._read()
        with self._lock:
            if len(self._numbers) > count // 2:
                self._older, self._numbers = self._numbers, {}
            if len(self._older) > count // 2:
                surplus = len(self._older) - count // 2
                # A copy of the items first: a save in another thread may be adding to them.
                self._older = dict(list(self._older.items())[surplus:])

    @property
    def known(self) -> int:
        """The number of known values."""
        unread = sum(len(digests) for _, digests in self._unread) // DIGEST_SIZE if self._unread else 0
        return len(self._numbers) + len(self._older) + unread

    @property
    def state_weight(self) -> int:
        """Approximate memory in bytes, without the digests of values."""
        weight = 1000
        # A memo holds the packed state, and a few numbers per value.
        for view in self.views.values():
            weight += len(view.body) + view.size
        return weight


class IndexCache:
    """Thread indexes, at most `max_bytes` together; the least recently used make room first.

    An index knows at most `most_values` values, so that the digests of a long thread take at most half of the
    memory. To make room, a large index is cut to its newest values, and a small one is dropped. If long threads
    that take turns were dropped whole, each of their saves would read all digests again.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.most_values = max(max_bytes // 2 // _ENTRY_BYTES, _LEAST_VALUES)
        self._share = max_bytes // 8
        """The memory that an index keeps when it makes room."""
        self._indexes: BoundedMap[str, ThreadIndex] = BoundedMap(max_weight=max_bytes)
        self.get = self._indexes.get
        self.drop = self._indexes.pop
        self.clear = self._indexes.clear

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def bytes(self) -> int:
        return self._indexes.weight

    def put(self, thread_id: str, index: ThreadIndex) -> None:
        """Store `index` with its current weight, or drop it if its state exceeds the bound."""
        state = index.state_weight
        made_room = self._put(thread_id, index, state, min(self.max_bytes // 2, self.max_bytes - state))
        while made_room:
            each, large = made_room.pop()
            state = large.state_weight
            if state < self._share < state + _ENTRY_BYTES * large.known:
                made_room += self._put(each, large, state, self._share - state)

    def _put(self, thread_id: str, index: ThreadIndex, state: int, room: int) -> list[tuple[str, ThreadIndex]]:
        """Store `index` with the newest digests that fit into `room`; returns the indexes that made room for it."""
        if room >= 0:
            index.keep_newest(room // _ENTRY_BYTES)
        return self._indexes.put(thread_id, index, state + _ENTRY_BYTES * index.known)


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return `ranges` sorted, with overlaps and small gaps closed: at most `MAX_COVERS` of them."""
    ranges = tuple(ranges)
    if len(ranges) < 2:
        return ranges
    merged: list[Range] = []
    for first, end in sorted(ranges):
        # A row holds many values, so skipping a gap this small would save nothing.
        if merged and first <= merged[-1][1] + 4:
            if end > merged[-1][1]:
                merged[-1] = merged[-1][0], end
        else:
            merged.append((first, end))
    if len(merged) > MAX_COVERS:
        gaps = sorted(range(1, len(merged)), key=lambda at: merged[at][0] - merged[at - 1][1])
        borders = sorted(gaps[len(merged) - MAX_COVERS :])
        starts, stops = [0, *borders], [*borders, len(merged)]
        merged = [(merged[a][0], merged[b - 1][1]) for a, b in zip(starts, stops, strict=True)]
    return tuple(merged)
