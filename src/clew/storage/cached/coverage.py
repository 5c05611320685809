"""Coverage: selects the rows that hold the needed values, and finds the missing ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from clew.model.records import Range, ValueRow
from clew.storage.conversions import union

DIGEST_SIZE: Final = 16
"""Bytes of a value's digest in a row. The digest of an emptied value is all zeros."""


class HeldRow(Struct, frozen=True):
    """A row, and an epoch of the thread's log in which it holds every referenced value."""

    row: ValueRow
    epoch: int

    @property
    def size(self) -> int:
        return len(self.row.digests) + len(self.row.data)


def largest(rows: Iterable[HeldRow]) -> list[HeldRow] | None:
    """Return the rows that no other contains, sorted; None if two rows contradict each other.

    Merging takes whole rows, so any two rows of a log are nested or disjoint, and the values that
    they share are equal unless emptied. Otherwise the rows are of two logs: the cold storage was
    restored to an earlier time and numbers were reused. Of equal rows, the latest is taken.
    """
    chosen: list[HeldRow] = []
    for held in sorted(rows, key=lambda each: (each.row.first, -each.row.count, -each.epoch)):
        if not chosen or held.row.first >= chosen[-1].row.end:
            chosen.append(held)
        elif held.row.end > chosen[-1].row.end or not _agree(chosen[-1].row, held.row):
            return None
    return chosen


def _agree(outer: ValueRow, inner: ValueRow) -> bool:
    """Return whether the values of `inner` are the same in `outer`, except emptied ones."""
    start = (inner.first - outer.first) * DIGEST_SIZE
    same = outer.digests[start : start + len(inner.digests)]
    if same == inner.digests:
        return True
    pairs = (
        (same[at : at + DIGEST_SIZE], inner.digests[at : at + DIGEST_SIZE]) for at in range(0, len(same), DIGEST_SIZE)
    )
    return all(one == other or not any(one) or not any(other) for one, other in pairs)


def overlapping(rows: Iterable[ValueRow], ranges: Sequence[Range]) -> list[ValueRow]:
    """Return the rows that hold any value of `ranges`. Both are sorted, `ranges` disjoint."""
    found: list[ValueRow] = []
    at = 0
    for row in rows:
        while at < len(ranges) and ranges[at][1] <= row.first:
            at += 1
        if at < len(ranges) and ranges[at][0] < row.end:
            found.append(row)
    return found


def missing(rows: Iterable[ValueRow], ranges: Sequence[Range]) -> list[Range]:
    """Return the parts of `ranges` that `rows` don't hold. Both are sorted and disjoint."""
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
