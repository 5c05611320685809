"""Which value rows are merged, and what of them nobody needs any more."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from msgspec import Struct

from clew.codec.rows import hollow_row, merge_rows
from clew.errors import CorruptRecordError
from clew.model.records import Range, ValueRow
from clew.storage.packing import union

MERGE_FROM = 32
"""So many small rows of values at the end of a thread's log are merged into one while work goes on."""
SMALL_ROW = 8 << 10
"""A row with less data than this is small."""
GROWING_ROW = 16 << 10
"""A merged row with less data than this grows by the next ones. A larger one stays: to write it again gains a tenth at most,
and leaves garbage where only a vacuum takes it away."""
MERGED_VALUES = 4096
"""A compacted row holds at most so many values."""
MERGED_BYTES = 192 << 10
"""Rows are merged until their data is about so long."""
LEVEL = 12
"""How hard compacted rows are compressed."""


def small_rows_at_the_end(rows: Sequence[ValueRow]) -> tuple[int, ...]:
    """The first numbers of the small rows after the last large one."""
    small: list[int] = []
    for row in reversed(rows):
        if len(row.data) >= SMALL_ROW:
            break
        small.append(row.first)
    return tuple(reversed(small))


def rows_to_merge(rows: Sequence[ValueRow], loose: Sequence[int], fixed_before: int) -> list[ValueRow]:
    """Those of the rows that begin with the numbers `loose` that lie side by side at the end, and the row before them if it
    is still growing. Between the others are rows of other writers."""
    found: list[ValueRow] = []
    for row in reversed(rows):
        side_by_side = not found or row.end == found[-1].first
        if row.first < fixed_before or not side_by_side:
            break
        if row.first in loose:
            found.append(row)
        elif found:
            if len(row.data) < GROWING_ROW:
                found.append(row)
            break
    return found[::-1]


def merged(rows: Sequence[ValueRow], fixed_before: int) -> Iterator[tuple[ValueRow, int]]:
    """Rows to put in the place of neighbouring ones, each as large as is good to read, with how many rows it replaces.

    One by itself is replaced if it gets clearly smaller. A damaged row stays where it is, and keeps its neighbours
    from being merged with it.
    """
    for group in _groups([row for row in rows if row.first >= fixed_before]):
        try:
            row = merge_rows(group, level=LEVEL)
        except CorruptRecordError:
            continue
        if len(group) > 1 or len(row.data) < 0.95 * len(group[0].data):
            yield row, len(group)


@dataclass(slots=True)
class Garbage:
    """Ranges of values that nobody needs, and rows to put in the place of those that are mostly not needed."""

    ranges: list[Range] = field(default_factory=list)
    hollowed: list[ValueRow] = field(default_factory=list)


class RowSize(Struct, frozen=True):
    """A row of values without its data: `count` of them from `first`, in `size` bytes."""

    first: int
    count: int
    size: int

    @property
    def end(self) -> int:
        return self.first + self.count


def garbage(rows: Iterable[ValueRow], needed: Iterable[Range], fixed_before: int) -> Garbage:
    """What can go of `rows` when only the `needed` ranges are referred to. Only those that `to_shorten` names need data."""
    wanted = union(needed)
    found = Garbage()
    for row in rows:
        if row.first < fixed_before:
            continue
        unused = _unused(row, wanted)
        if unused == [(row.first, row.end)]:
            found.ranges.append((row.first, row.end))
        elif row.data and _is_mostly(unused, row):
            try:
                smaller = hollow_row(row, unused)
            except CorruptRecordError:
                continue
            if len(smaller.data) < len(row.data):
                found.ranges += unused
                found.hollowed.append(smaller)
    return found


def to_shorten(rows: Iterable[ValueRow], needed: Iterable[Range], fixed_before: int) -> list[Range]:
    """The ranges of the rows that are mostly, but not wholly, unused: `garbage` has to see what is in them."""
    wanted = union(needed)
    return [
        (row.first, row.end)
        for row in rows
        if row.first >= fixed_before
        and (unused := _unused(row, wanted)) != [(row.first, row.end)]
        and _is_mostly(unused, row)
    ]


def freed(rows: Iterable[RowSize], needed: Iterable[Range], fixed_before: int) -> int:
    """About how many bytes `garbage` would find in `rows`: those of rows that go are counted, of shortened ones estimated."""
    wanted = union(needed)
    size = 0
    for row in rows:
        if row.first >= fixed_before:
            unused = _unused(row, wanted)
            if _is_mostly(unused, row):
                size += row.size * sum(end - first for first, end in unused) // row.count
    return size


def _is_mostly(unused: list[Range], row: ValueRow | RowSize) -> bool:
    return sum(end - first for first, end in unused) * 2 >= row.count


def _unused(row: ValueRow | RowSize, wanted: Sequence[Range]) -> list[Range]:
    """What of the row is in none of the `wanted` ranges, which are in order and apart."""
    unused: list[Range] = []
    at = row.first
    for first, end in wanted[max(0, bisect_right(wanted, row.first, key=itemgetter(0)) - 1) :]:
        if first >= row.end:
            break
        if end <= at:
            continue
        if first > at:
            unused.append((at, first))
        at = end
    if at < row.end:
        unused.append((at, row.end))
    return unused


def _groups(rows: Iterable[ValueRow]) -> Iterator[list[ValueRow]]:
    group: list[ValueRow] = []
    values = size = 0
    for row in rows:
        full = size + len(row.data) > MERGED_BYTES or values + row.count > MERGED_VALUES
        if group and (full or row.first != group[-1].end):
            yield group
            group, values, size = [], 0, 0
        group.append(row)
        values += row.count
        size += len(row.data)
    if group:
        yield group
