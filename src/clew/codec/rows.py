"""Value rows: the values of one commit in one record, and how rows are merged.

The content of a row is a directory (for each value its length and how many items it holds, as varints), then the
values themselves, one after the other.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, Literal

from msgspec import Struct

from clew.codec.frame import seal, unseal
from clew.codec.nodes import read_varint, varint
from clew.errors import CorruptRecordError
from clew.model.records import Range, ValueRow

DIGEST_SIZE: Final = 16
MERGE_LEVEL: Final = 3
"""How hard rows are compressed that are written anew while work goes on."""
Kind = Literal[b"items", b"piece", b"spine"]


class Value(Struct, frozen=True):
    """A value to be written. `items` is how many items its content holds (0 for a piece or a spine)."""

    content: bytes
    items: int
    digest: bytes


def digest(content: bytes, kind: Kind) -> bytes:
    """What a value is known by. It resists crafted collisions: what tools return is hostile."""
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE, person=kind).digest()


def write_row(first: int, values: Sequence[Value]) -> ValueRow:
    """The row that holds `values`, numbered from `first`."""
    return _row(
        first, [(value.content, value.items) for value in values], b"".join([v.digest for v in values]), level=1
    )


def merge_rows(rows: Sequence[ValueRow], *, level: int) -> ValueRow:
    """One row in the place of neighbouring ones. The numbers of the values stay."""
    values = [value for row in rows for value in OpenRow(row).contents()]
    return _row(rows[0].first, values, b"".join([row.digests for row in rows]), level=level)


def hollow_row(row: ValueRow, unused: Iterable[Range]) -> ValueRow:
    """The same row without the content of the `unused` values: their numbers stay, so nothing else has to change."""
    values = OpenRow(row).contents()
    digests = bytearray(row.digests)
    for first, end in unused:
        for at in range(first - row.first, end - row.first):
            values[at] = b"", 0
            digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE] = bytes(DIGEST_SIZE)
    return _row(row.first, values, bytes(digests), level=MERGE_LEVEL)


def _row(first: int, values: Sequence[tuple[bytes, int]], digests: bytes, *, level: int) -> ValueRow:
    directory = b"".join([varint(len(content)) + varint(items) for content, items in values])
    content = directory + b"".join([content for content, _ in values])
    return ValueRow(first=first, count=len(values), digests=digests, data=seal(content, level=level))


class OpenRow:
    """A row whose directory has been read."""

    __slots__ = ("_content", "ends", "first", "items")

    def __init__(self, row: ValueRow) -> None:
        self.first = row.first
        content = unseal(row.data)
        lengths, self.items, at = _directory(content, row.count)
        self.ends = list(accumulate(lengths, initial=at))
        self._content = content
        if self.ends[-1] != len(content):
            raise CorruptRecordError("a stored row of values is not as long as its directory says")

    def slice(self, first: int, end: int) -> bytes:
        """The contents of values `first` up to `end`, put together; both within this row."""
        return self._content[self.ends[first - self.first] : self.ends[end - self.first]]

    def contents(self) -> list[tuple[bytes, int]]:
        """Each value's content with its number of items."""
        return [
            (self._content[start:end], items)
            for start, end, items in zip(self.ends[:-1], self.ends[1:], self.items, strict=True)
        ]


def _directory(content: bytes, count: int) -> tuple[list[int], list[int], int]:
    lengths, items, at = [], [], 0
    for _ in range(count):
        length, at = read_varint(content, at)
        held, at = read_varint(content, at)
        lengths.append(length)
        items.append(held)
    return lengths, items, at


class OpenRows:
    """Rows of one thread, to read values from by number. Rows are opened when they are first needed."""

    def __init__(self, rows: Iterable[ValueRow]) -> None:
        self._rows: list[ValueRow | OpenRow] = list(rows)
        self._firsts = [row.first for row in self._rows]

    def _open(self, at: int) -> OpenRow:
        row = self._rows[at]
        if isinstance(row, ValueRow):
            try:
                self._rows[at] = opened = OpenRow(row)
            except CorruptRecordError as error:
                raise CorruptRecordError(
                    f"{error} (values {row.first} to {row.end - 1})", values=(row.first, row.end)
                ) from error
            return opened
        return row

    def read(self, first: int, count: int) -> list[bytes]:
        """The contents of `count` values from `first`, in as few parts as they lie in. CorruptRecordError if one is missing."""
        parts, end = [], first + count
        at = bisect_right(self._firsts, first) - 1
        while first < end:
            row = self._open(at) if 0 <= at < len(self._rows) else None
            if row is None or not row.first <= first < row.first + len(row.items):
                raise CorruptRecordError(f"value {first} is missing", values=(first, first + 1))
            stop = min(end, row.first + len(row.items))
            parts.append(row.slice(first, stop))
            first, at = stop, at + 1
        return parts

    def measures(self, first: int, count: int) -> tuple[list[int], list[int]]:
        """The lengths and the item counts of `count` values from `first`."""
        lengths: list[int] = []
        items: list[int] = []
        end, at = first + count, bisect_right(self._firsts, first) - 1
        while first < end:
            row = self._open(at)
            low, high = first - row.first, min(end - row.first, len(row.items))
            lengths += [b - a for a, b in zip(row.ends[low:high], row.ends[low + 1 : high + 1], strict=True)]
            items += row.items[low:high]
            first, at = row.first + high, at + 1
        return lengths, items
