"""What a writer remembers of a thread, so that a save costs the change: bounded, and never trusted for more than it is.

A `ThreadIndex` knows which values the thread has (by digest) and, for each namespace, how the head was cut (`Memo`). It is
right as long as its `basis` is: the storage checks that with every commit. A memo is compared byte by byte with
what is saved next, so nothing rests on the caller's word that a part is unchanged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from clew.codec.chunks import Chunks
from clew.codec.nodes import Container, Runs
from clew.codec.nodes import Sequence as SequenceNode
from clew.codec.rows import DIGEST_SIZE
from clew.model.records import Basis, Range, ValueRow

MAX_COVERS = 8
"""How many ranges of values a checkpoint says it needs; more are joined over the smallest gaps."""

_ENTRY_BYTES = 160
"""About what one value takes in the index: its digest, its number, its place in a memo."""


class Memo(Struct, frozen=True, kw_only=True):
    """How a part was cut last time: `packed` is what it was, `node` what stands for it in the body.

    A long list is packed in chunks. For a sequence: what kind it is, where its content starts in `packed`, the number of each
    value, where its content and its items end (counted from the start), and in `reach` the ranges that values with references
    inside them need. For a map: the memos of its entries, by packed key (and `packed` only if it has very many).
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
    """A part of the state as it stands in the body, the values that it needs, and its memo for the next save.

    `length` is how long it would be written out; `sequence` is what `node` says, if it is the node of a sequence.
    """

    node: bytes
    length: int
    covers: tuple[Range, ...] = ()
    memo: Memo | None = None
    sequence: SequenceNode | None = None


class Entries(Struct, frozen=True):
    """A state with fields: what kind of map it is, and its parts by packed key."""

    container: Container
    parts: Mapping[bytes, Part]


class View(Struct, frozen=True, kw_only=True):
    """The last checkpoint of a namespace that this process wrote or loaded. `entries`, if they are known, spare an edit
    reading the body."""

    checkpoint_id: str
    body: bytes
    size: int
    memo: Memo | None
    entries: Entries | None = None


class ThreadIndex:
    """What a process knows of one thread's values. Safe in several threads: parts are swapped whole or only added to."""

    def __init__(self, basis: Basis, numbers: Mapping[bytes, int] | None = None) -> None:
        self.basis = basis
        self.views: dict[str, View] = {}
        self.loose: tuple[int, ...] = ()
        """The first numbers of the small rows at the end of the log, which want merging."""
        self._numbers: dict[bytes, int] = dict(numbers or {})
        self._unread: list[tuple[int, bytes]] = []
        self._known_end = 0
        self._lock = threading.Lock()

    def number(self, digest: bytes) -> int | None:
        """The number of the value with this digest, if the thread is known to have it."""
        if self._unread:
            self._read()
        return self._numbers.get(digest)

    def learn(self, rows: Iterable[ValueRow]) -> None:
        """Take note of the values in `rows`, as far as they are newer than what is known."""
        for row in rows:
            if row.end > self._known_end:
                self._known_end = row.end
                self._unread.append((row.first, row.digests))

    def add(self, first: int, digests: Sequence[bytes]) -> None:
        """Take note of values that were written."""
        self._known_end = first + len(digests)
        self._numbers.update(zip(digests, range(first, self._known_end), strict=True))

    def _read(self) -> None:
        with self._lock:
            for first, digests in self._unread:
                starts = range(0, len(digests), DIGEST_SIZE)
                self._numbers.update((digests[at : at + DIGEST_SIZE], first + at // DIGEST_SIZE) for at in starts)
            self._unread = []

    @property
    def weight(self) -> int:
        """About how many bytes of memory this takes."""
        weight = 1000 + _ENTRY_BYTES * len(self._numbers)
        for _, digests in self._unread:
            weight += _ENTRY_BYTES * len(digests) // DIGEST_SIZE
        # A memo holds the packed state, and a few numbers for each value.
        for view in self.views.values():
            weight += len(view.body) + view.size
        return weight


class IndexCache:
    """Thread indexes, the least recently used dropped when they take more than `max_bytes` together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._indexes: OrderedDict[str, tuple[ThreadIndex, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._indexes)

    def get(self, thread_id: str) -> ThreadIndex | None:
        with self._lock:
            found = self._indexes.get(thread_id)
            if found is None:
                return None
            self._indexes.move_to_end(thread_id)
            return found[0]

    def put(self, thread_id: str, index: ThreadIndex) -> None:
        """Keep `index` as the newest, and drop the oldest ones over the bound (this one too, if it alone is)."""
        weight = index.weight
        known = self._indexes.get(thread_id)
        if known is not None and known[0] is index and 0 <= weight - known[1] < known[1] // 8:
            # Near enough; `get` has made it the newest.
            return
        with self._lock:
            self.bytes += weight - self._indexes.pop(thread_id, (index, 0))[1]
            self._indexes[thread_id] = index, weight
            while self.bytes > self.max_bytes and self._indexes:
                _, (_, freed) = self._indexes.popitem(last=False)
                self.bytes -= freed

    def drop(self, thread_id: str) -> None:
        with self._lock:
            self.bytes -= self._indexes.pop(thread_id, (None, 0))[1]

    def clear(self) -> None:
        with self._lock:
            self._indexes.clear()
            self.bytes = 0


def joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """`ranges` in order, overlaps and small gaps closed, at most `MAX_COVERS` of them."""
    ranges = tuple(ranges)
    if len(ranges) < 2:
        return ranges
    merged: list[Range] = []
    for first, end in sorted(ranges):
        # A row holds more than one value: a gap this small saves no reading.
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
