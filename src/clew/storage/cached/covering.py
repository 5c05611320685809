"""Which rows make up the values that are needed, and what is missing then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from clew.model.records import Range, ValueRow
from clew.storage.packing import union

DIGEST_SIZE: Final = 16
"""Bytes of a value's digest in a row; of a value that was emptied they are nought."""


class HeldRow(Struct, frozen=True):
    """A row, and the epoch of the thread's log for which it is known to hold all that anybody refers to."""

    row: ValueRow
    epoch: int

    @property
    def size(self) -> int:
        return len(self.row.digests) + len(self.row.data)


def largest(rows: Iterable[HeldRow]) -> list[HeldRow] | None:
    """Those of `rows` that lie in no other, by number; of equal ones the latest. `None` if two of them contradict each other.

    Merging takes whole rows, so of any two rows that a log ever had, one holds the other or they have nothing in common; and
    the values that both have are the same, unless they were emptied. If not, the rows are of two logs: the storage they came
    from was set back to an earlier time, and numbers were given again.
    """
    chosen: list[HeldRow] = []
    for held in sorted(rows, key=lambda each: (each.row.first, -each.row.count, -each.epoch)):
        if not chosen or held.row.first >= chosen[-1].row.end:
            chosen.append(held)
        elif held.row.end > chosen[-1].row.end or not _agree(chosen[-1].row, held.row):
            return None
    return chosen


def _agree(outer: ValueRow, inner: ValueRow) -> bool:
    """Whether the values of `inner`, which `outer` has too, are the same in both, but for those that were emptied."""
    start = (inner.first - outer.first) * DIGEST_SIZE
    same = outer.digests[start : start + len(inner.digests)]
    if same == inner.digests:
        return True
    pairs = (
        (same[at : at + DIGEST_SIZE], inner.digests[at : at + DIGEST_SIZE]) for at in range(0, len(same), DIGEST_SIZE)
    )
    return all(one == other or not any(one) or not any(other) for one, other in pairs)


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
