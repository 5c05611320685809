"""Encoding: turns a packed state into a body, and the values that are new to the thread.

C code packs the state once, and everything here works on those bytes. Small parts stay in the body,
medium ones become values, and large ones are cut into values (`cuts`). Known content is recognised by
comparing bytes with the memo of the last save (one comparison for a list that only grew), or else by
digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from clew.codec import rows
from clew.codec.chunks import Chunks
from clew.codec.cuts import (
    INLINE,
    LARGE,
    RUNS_INLINE,
    SPLIT,
    closed,
    ends_group,
    opened,
    pieces,
    run_groups,
    split_pairs,
)
from clew.codec.index import Entries, Memo, Part, ThreadIndex, joined
from clew.codec.nodes import (
    LIST,
    MAP,
    Container,
    Runs,
    Sequence,
    header,
    pieces_node,
    ranges_of,
    runs_of,
    sequence_node,
    split_items,
    value_node,
    write_runs,
)
from clew.codec.reuse import accumulated, kept, spliced, whole
from clew.model.records import Range, ValueRow

MANY_ENTRIES: Final = 64
"""A map with more entries is compared as a whole before its entries are."""

CUT_DEPTH: Final = 24
"""Deeper parts are not cut: a level takes seven nested calls, and Python allows about 1,000."""

Covers = tuple[Range, ...]


class _Cut(Struct):
    """A sequence's entries as values: the number, length, item count and references of each."""

    numbers: list[int] = []
    lengths: list[int] = []
    items: list[int] = []
    reach: dict[int, Covers] = {}


class Encoding:
    """One save: collects the new values. `index` is only read; the commit updates it."""

    def __init__(self, index: ThreadIndex | None) -> None:
        self._index = index
        self.first = index.basis.next_value if index is not None else 0
        self.digests: list[bytes] = []
        """The digests of the new values."""
        self._contents: list[bytes] = []
        self._items: list[int] = []
        self._fresh: dict[bytes, int] = {}
        self._depth = 0

    def row(self) -> ValueRow | None:
        """Return the row of new values, if there are any."""
        if not self.digests:
            return None
        return rows.write_row(self.first, self._contents, self._items, self.digests)

    def part(self, item: bytes | Chunks, memo: Memo | None) -> Part:
        """Encode any part, as small as possible in the body."""
        if memo is not None and memo.packed == item:
            return Part(memo.node, len(item), memo.covers, memo)
        if isinstance(item, Chunks):
            return self._chunked(item, memo)
        size = len(item)
        if size <= INLINE:
            return Part(item, size)
        container = opened(item) if self._depth < CUT_DEPTH else None
        if container is not None:
            kind, count, start = container
            if kind.shape == MAP:
                entries = split_pairs(item[start:], count)
                # A medium map is one value, unless one of its entries is large
                # enough to grow independently.
                if size > LARGE or max(map(len, entries.values())) > INLINE:
                    return self._map(kind, entries, item, memo)
            elif kind == LIST or size > LARGE:
                return self.sequence(kind, count, start, item, memo)
        if size <= LARGE:
            number = self.value(item, 1, b"items")
            node, covers = value_node(number, size), ranges_of([(number, 1)])
        else:
            runs = runs_of([self.value(piece, 0, b"piece") for piece in pieces(item)])
            node, covers = pieces_node(size, runs), joined(ranges_of(runs))
        return Part(node, size, covers, Memo(packed=item, node=node, covers=covers))

    def entries(self, container: Container, packed: Mapping[bytes, bytes | Chunks], memo: Memo | None) -> Entries:
        """Encode each entry of a map of packed keys to packed values as a separate part."""
        known = memo.entries if memo is not None else {}
        self._depth += 1
        parts = {key: self.part(item, known.get(key)) for key, item in packed.items()}
        self._depth -= 1
        return Entries(container, parts)

    def fields(self, entries: Entries, length: int) -> Part:
        """Encode the map of `entries` with their memos. It stays in the body, for edits."""
        part = self.map_of(entries, length)
        part.memo = Memo(
            packed=b"",
            node=part.node,
            covers=part.covers,
            entries={key: entry.memo for key, entry in entries.parts.items() if entry.memo is not None},
        )
        return part

    def value(self, content: bytes, items: int, kind: rows.Kind) -> int:
        """Return the number of the value with this content, adding it if it is new."""
        digest = rows.digest(content, kind)
        number = self._fresh.get(digest)
        if number is None and self._index is not None:
            number = self._index.number(digest)
        if number is None:
            number = self._fresh[digest] = self.first + len(self.digests)
            self.digests.append(digest)
            self._contents.append(content)
            self._items.append(items)
        return number

    def _map(self, container: Container, entries: Mapping[bytes, bytes], item: bytes, memo: Memo | None) -> Part:
        part = self.fields(self.entries(container, entries, memo), len(item))
        if len(entries) > MANY_ENTRIES and part.memo is not None:
            part.memo = replace(part.memo, packed=item)
        return part

    def map_of(self, entries: Entries, length: int) -> Part:
        """Encode the map of `entries`. `length` is its length when written out."""
        parts = entries.parts
        covers = [each for part in parts.values() for each in part.covers]
        written = [key + part.node for key, part in parts.items()]
        content = b"".join(written)
        if len(content) <= SPLIT:
            return Part(closed(entries.container, len(parts), content), length, joined(covers))
        cut = self._cut(zip(written, map(len, written), [part.covers for part in parts.values()], strict=True))
        return self._node(entries.container, len(parts), length, runs_of(cut.numbers), covers)

    def _chunked(self, item: Chunks, memo: Memo | None) -> Part:
        """Encode a long list."""
        if memo is None or memo.container != LIST:
            memo = _NOTHING
        added = item.added_to(memo.packed, memo.start, memo.items[-1] if memo.items else 0)
        if added is None:
            return self._changed(LIST, item.count, item.start, item.whole(), memo, item)
        return self._grown(LIST, item.count, item.start, item, memo, added)

    def sequence(self, container: Container, count: int, start: int, item: bytes, memo: Memo | None) -> Part:
        """Encode a list (or tuple, set, …) as values, reusing the memo's where they agree."""
        if memo is None or memo.container != container:
            memo = _NOTHING
        # A view, because copying a megabyte costs more than comparing it.
        old = memoryview(whole(memo.packed))[memo.start :]
        if item.startswith(old, start):
            before = memo.items[-1] if memo.items else 0
            added = split_items(item[start + len(old) :], count - before)
            return self._grown(container, count, start, item, memo, added)
        return self._changed(container, count, start, item, memo, item)

    def _changed(
        self, container: Container, count: int, start: int, item: bytes, memo: Memo, packed: bytes | Chunks
    ) -> Part:
        """Encode a sequence that differs from the memo other than by appended items."""
        low, high, tail, middle = kept(memo, whole(memo.packed)[memo.start :], item, start, count)
        fresh = self._cut_items(middle)
        numbers = [*memo.numbers[low:high], *fresh.numbers, *memo.numbers[tail:]]
        ends = spliced(memo.ends, low, high, fresh.lengths, tail)
        items = spliced(memo.items, low, high, fresh.items, tail)
        reach = {at - low: reach for at, reach in memo.reach.items() if low <= at < high}
        reach |= {at + high - low: reach for at, reach in fresh.reach.items()}
        shift = len(numbers) - len(memo.numbers)
        reach |= {at + shift: reach for at, reach in memo.reach.items() if at >= tail}
        return self._remembered(container, count, start, packed, numbers, ends, items, runs_of(numbers), reach)

    def _grown(
        self, container: Container, count: int, start: int, packed: bytes | Chunks, memo: Memo, added: list[bytes]
    ) -> Part:
        """Encode a sequence that only grew, which is the common case."""
        fresh = self._cut_items(added)
        reach = memo.reach
        if fresh.reach:
            there = len(memo.numbers)
            reach = {**reach, **{at + there: covers for at, covers in fresh.reach.items()}}
        return self._remembered(
            container,
            count,
            start,
            packed,
            memo.numbers + fresh.numbers,
            memo.ends + accumulated(fresh.lengths, memo.ends),
            memo.items + accumulated(fresh.items, memo.items),
            runs_of(fresh.numbers, memo.runs),
            reach,
        )

    def _remembered(
        self,
        container: Container,
        count: int,
        start: int,
        packed: bytes | Chunks,
        numbers: list[int],
        ends: list[int],
        items: list[int],
        runs: Runs,
        reach: Mapping[int, Covers],
    ) -> Part:
        part = self._node(container, count, len(packed), runs, _all(reach.values()) if reach else [])
        part.memo = Memo(
            packed=packed,
            node=part.node,
            covers=part.covers,
            container=container,
            start=start,
            numbers=numbers,
            ends=ends,
            items=items,
            runs=runs,
            reach=reach,
        )
        return part

    def append(self, old: Sequence, items: list[bytes]) -> Part:
        """Encode a sequence with `items` appended. Only the sequence's node is known."""
        cut = self._cut_items(items)
        return self._node(
            old.container,
            old.count + len(items),
            old.length + sum(map(len, items)) + _header_growth(old, len(items)),
            runs_of(cut.numbers, old.runs),
            [*ranges_of(old.reach), *_all(cut.reach.values())],
            old.spine,
        )

    def _cut_items(self, items: list[bytes]) -> _Cut:
        """Store items as values; large ones are replaced by their nodes."""
        lengths = list(map(len, items))
        if lengths and min(lengths) >= INLINE and max(lengths) <= LARGE:
            # The common case, messages: one value each.
            return _Cut([self.value(item, 1, b"items") for item in items], lengths, [1] * len(items))
        return self._cut(self._parts(items))

    def _parts(self, items: Iterable[bytes]) -> Iterable[tuple[bytes, int, Covers]]:
        for item in items:
            if len(item) > LARGE:
                self._depth += 1
                part = self.part(item, None)
                self._depth -= 1
                yield part.node, len(item), part.covers
            else:
                yield item, len(item), ()

    def _cut(self, entries: Iterable[tuple[bytes, int, Covers]]) -> _Cut:
        """Store entries (content, plain length, references) as values. Small ones share one."""
        cut = _Cut()
        group: list[bytes] = []
        length = size = 0
        reach: Covers = ()
        for content, plain, refers in entries:
            alone = len(content) >= INLINE
            if alone and group:
                self._add_value(cut, b"".join(group), len(group), length, reach)
                group, length, size, reach = [], 0, 0, ()
            if alone:
                self._add_value(cut, content, 1, plain, refers)
                continue
            group.append(content)
            length, size, reach = length + plain, size + len(content), reach + refers
            if ends_group(content, size):
                self._add_value(cut, b"".join(group), len(group), length, reach)
                group, length, size, reach = [], 0, 0, ()
        if group:
            self._add_value(cut, b"".join(group), len(group), length, reach)
        return cut

    def _add_value(self, cut: _Cut, content: bytes, items: int, length: int, reach: Covers) -> None:
        if reach:
            cut.reach[len(cut.numbers)] = reach
        cut.numbers.append(self.value(content, items, b"items"))
        cut.lengths.append(length)
        cut.items.append(items)

    def _node(
        self, container: Container, count: int, length: int, runs: Runs, reach: list[Range], spine: Runs = ()
    ) -> Part:
        """Return the node of a sequence with these `runs`, whose items refer to `reach`."""
        if len(runs) == 1 and not reach and not spine:
            return _sequence_part(container, count, length, (), (), runs, ranges_of(runs))
        covers = joined([*ranges_of(runs), *reach])
        beyond = joined(reach) if reach else ()
        if spine or (len(runs) > RUNS_INLINE // 4 and len(write_runs(runs)) > RUNS_INLINE):
            *groups, last = run_groups(runs)
            spine = runs_of([self.value(write_runs(group), 0, b"spine") for group in groups], spine)
            covers = beyond = joined([*covers, *ranges_of(spine)])
            runs = tuple(last)
        reached = tuple([(first, end - first) for first, end in beyond])
        return _sequence_part(container, count, length, reached, spine, runs, covers)


def _sequence_part(
    container: Container, count: int, length: int, reach: Runs, spine: Runs, runs: Runs, covers: Covers
) -> Part:
    node = sequence_node(container, count, length, reach=reach, spine=spine, runs=runs)
    read = Sequence(container=container, count=count, length=length, reach=reach, spine=spine, runs=runs)
    return Part(node, length, covers, None, read)


_NOTHING: Final = Memo(packed=b"", node=b"")


def _header_growth(old: Sequence, added: int) -> int:
    shape = old.container.shape
    return len(header(shape, old.count + added)) - len(header(shape, old.count))


def _all(reaches: Iterable[Covers]) -> list[Range]:
    return [each for reach in reaches for each in reach]
