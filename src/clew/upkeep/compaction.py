"""Compaction of value rows: which rows to merge, and which values are garbage."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from msgspec import Struct

from clew.codec.frame import content_size
from clew.codec.rows import LARGEST_MERGE, hollow_row, merge_rows
from clew.errors import UNREADABLE
from clew.model.records import Range, ValueRow
from clew.storage.conversions import union

MERGE_FROM = 32
"""This many small rows at the end of a thread's log are merged into one after a save."""
SMALL_ROW = 8 << 10
"""A row with less data than this is small."""
GROWING_ROW = 16 << 10
"""A merged row with less data than this is merged again with the next ones.

Rewriting a larger row saves at most a tenth of it, and leaves garbage until the next vacuum.
"""
MERGED_VALUES = 4096
"""The most values in a compacted row."""
MERGED_BYTES = 192 << 10
"""Rows are merged up to about this much data."""
LEVEL = 12
"""The compression level of compacted rows."""


def small_rows_at_the_end(rows: Sequence[ValueRow]) -> tuple[int, ...]:
    """The first numbers of the small rows after the last large one."""
    small: list[int] = []
    for row in reversed(rows):
        if len(row.data) >= SMALL_ROW:
            break
        small.append(row.first)
    return tuple(reversed(small))


def rows_to_merge(rows: Sequence[ValueRow], loose: Sequence[int], fixed_before: int) -> list[ValueRow]:
    """The contiguous rows at the end that begin with the numbers `loose`, and the row before them
    if it is still growing.

    The other loose rows have rows of other writers between them.
    """
    found: list[ValueRow] = []
    content = 0
    for row in reversed(rows):
        contiguous = not found or row.end == found[-1].first
        content += content_size(row.data)
        if row.first < fixed_before or not contiguous or content > LARGEST_MERGE:
            break
        if row.first in loose:
            found.append(row)
        elif found:
            if len(row.data) < GROWING_ROW:
                found.append(row)
            break
    return found[::-1]


def merged(rows: Sequence[ValueRow], fixed_before: int) -> Iterator[tuple[ValueRow, int]]:
    """Yield rows that replace contiguous ones, each of a good size for reading, and how many rows
    each replaces.

    A single row is replaced if it gets at least 5 % smaller. Damaged rows stay, with the rows of
    their group.
    """
    for group in _groups([row for row in rows if row.first >= fixed_before]):
        try:
            row = merge_rows(group, level=LEVEL)
        except UNREADABLE:
            continue
        if len(group) > 1 or len(row.data) < 0.95 * len(group[0].data):
            yield row, len(group)


@dataclass(slots=True)
class Garbage:
    """Ranges of values that are not needed, and replacements for rows that are mostly not needed."""

    ranges: list[Range] = field(default_factory=list)
    hollowed: list[ValueRow] = field(default_factory=list)


class RowSize(Struct, frozen=True):
    """A value row without its data: `count` values from `first`, in `size` bytes."""

    first: int
    count: int
    size: int

    @property
    def end(self) -> int:
        return self.first + self.count


def garbage(rows: Iterable[ValueRow], needed: Iterable[Range], fixed_before: int) -> Garbage:
    """The garbage in `rows` if only the `needed` ranges are referenced.

    Only rows in `to_shorten` must have their data.
    """
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
            except UNREADABLE:
                continue
            if len(smaller.data) < len(row.data):
                found.ranges += unused
                found.hollowed.append(smaller)
    return found


def to_shorten(rows: Iterable[ValueRow], needed: Iterable[Range], fixed_before: int) -> list[Range]:
    """The ranges of the rows that are mostly, but not completely, unused. `garbage` needs their data."""
    wanted = union(needed)
    return [
        (row.first, row.end)
        for row in rows
        if row.first >= fixed_before
        and (unused := _unused(row, wanted)) != [(row.first, row.end)]
        and _is_mostly(unused, row)
    ]


def freed(rows: Iterable[RowSize], needed: Iterable[Range], fixed_before: int) -> int:
    """About how many bytes `garbage` would find in `rows`: exact for removed rows, estimated for
    shortened ones."""
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
    """The parts of the row outside of the `wanted` ranges, which are sorted and disjoint."""
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
    values = size = content = 0
    for row in rows:
        unpacked = content_size(row.data)
        full = size + len(row.data) > MERGED_BYTES or values + row.count > MERGED_VALUES
        if group and (full or content + unpacked > LARGEST_MERGE or row.first != group[-1].end):
            yield group
            group, values, size, content = [], 0, 0, 0
        group.append(row)
        values += row.count
        size += len(row.data)
        content += unpacked
    if group:
        yield group
