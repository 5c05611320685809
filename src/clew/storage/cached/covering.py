"""Which rows make up the values that are needed, and what is missing then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from clew.model.records import Range, ValueRow
from clew.storage.packing import union


class HeldRow(Struct, frozen=True):
    """A row, and the epoch of the thread's log for which it is known to hold all that anybody refers to."""

    row: ValueRow
    epoch: int

    @property
    def size(self) -> int:
        return len(self.row.digests) + len(self.row.data)


def largest(rows: Iterable[HeldRow]) -> list[HeldRow] | None:
    """Those of `rows` that lie in no other, by number; of equal ones the latest. `None` if two of them cross.

    Merging takes whole rows, so of any two rows that a log ever had, one holds the other or they have nothing in common.
    """
    chosen: list[HeldRow] = []
    end = 0
    for held in sorted(rows, key=lambda each: (each.row.first, -each.row.count, -each.epoch)):
        if held.row.first >= end:
            chosen.append(held)
            end = held.row.end
        elif held.row.end > end:
            return None
    return chosen


def overlapping(rows: Iterable[ValueRow], ranges: Sequence[Range]) -> list[ValueRow]:
    """Those of `rows`, which are in order, that hold any value of `ranges`, which are in order and apart."""
    found: list[ValueRow] = []
    at = 0
    for row in rows:
        while at < len(ranges) and ranges[at][1] <= row.first:
            at += 1
        if at < len(ranges) and ranges[at][0] < row.end:
            found.append(row)
    return found


def missing(rows: Iterable[ValueRow], ranges: Sequence[Range]) -> list[Range]:
    """The numbers of `ranges` that `rows`, which are in order and apart, don't hold."""
    held = union((row.first, row.end) for row in rows)
    gaps: list[Range] = []
    at = 0
    for first, end in ranges:
        while at < len(held) and held[at][1] <= first:
            at += 1
        look = at
        while first < end:
            if look == len(held) or held[look][0] >= end:
                gaps.append((first, end))
                break
            if held[look][0] > first:
                gaps.append((first, held[look][0]))
            first = held[look][1]
            look += 1
    return gaps
