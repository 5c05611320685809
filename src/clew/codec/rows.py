"""Value rows: the values of one commit in one record, and how rows are merged.

The content of a row is the length of its directory (a varint), the directory, and the values themselves, one after the
other. The directory is a msgpack array: the values' lengths, and how many items each holds (nil if each holds one).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, Literal

import msgspec

from clew.codec.frame import seal, unseal
from clew.codec.nodes import read_varint, varint
from clew.errors import CorruptRecordError
from clew.model.records import Range, ValueRow

DIGEST_SIZE: Final = 16
COMPRESS_FROM: Final = 2048
"""A shorter row is compressed when it is merged: that gains more, costs less, and reads faster until then."""
MERGE_LEVEL: Final = 1
"""How hard rows are compressed that are written anew while work goes on."""
Kind = Literal[b"items", b"piece", b"spine"]


_HASHES: Final = {
    kind: hashlib.blake2b(digest_size=DIGEST_SIZE, person=kind) for kind in (b"items", b"piece", b"spine")
}
"""To copy one is cheaper than to make one."""


def digest(content: bytes, kind: Kind) -> bytes:
    """What a value is known by. It resists crafted collisions: what tools return is hostile."""
    hashed = _HASHES[kind].copy()
    hashed.update(content)
    return hashed.digest()


def write_row(first: int, contents: Sequence[bytes], items: Sequence[int], digests: Sequence[bytes]) -> ValueRow:
    """The row of these values, numbered from `first`: their contents, how many items each holds (0 for a piece or a spine) and
    what each is known by."""
    return _row(first, contents, items, b"".join(digests), level=1)


def merge_rows(rows: Sequence[ValueRow], *, level: int) -> ValueRow:
    """One row in the place of neighbouring ones. The numbers of the values stay."""
    if any(one.end != other.first for one, other in pairwise(rows)):
        raise ValueError("only rows that lie side by side can be merged")
    contents, items = _taken_apart(rows)
    return _row(rows[0].first, contents, items, b"".join([row.digests for row in rows]), level=level)


def hollow_row(row: ValueRow, unused: Iterable[Range]) -> ValueRow:
    """The same row without the content of the `unused` values: their numbers stay, so nothing else has to change."""
    contents, items = _taken_apart([row])
    digests = bytearray(row.digests)
    for first, end in unused:
        for at in range(first - row.first, end - row.first):
            contents[at], items[at] = b"", 0
            digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE] = bytes(DIGEST_SIZE)
    return _row(row.first, contents, items, bytes(digests), level=MERGE_LEVEL)


def unbroken(rows: Sequence[ValueRow], end: int) -> Iterator[ValueRow]:
    """The same values up to number `end` in rows that lie side by side from number 0: gaps filled with nothing, overlaps cut
    off. Bodies that refer to `rows` can be read from these."""
    at = 0
    for row, stop in zip(rows, [*(each.first for each in rows[1:]), end], strict=False):
        if row.first > at:
            gap = row.first - at
            yield _row(at, [b""] * gap, [0] * gap, bytes(DIGEST_SIZE * gap), level=MERGE_LEVEL)
        at = min(row.end, stop)
        if at == row.end:
            yield row
        elif at > row.first:
            kept = at - row.first
            contents, items = _taken_apart([row])
            digests = row.digests[: DIGEST_SIZE * kept]
            yield _row(row.first, contents[:kept], items[:kept], digests, level=MERGE_LEVEL)


def _row(first: int, contents: Sequence[bytes], items: Sequence[int], digests: bytes, *, level: int) -> ValueRow:
    count = len(contents)
    directory = msgspec.msgpack.encode([list(map(len, contents)), None if items.count(1) == count else items])
    data = seal(b"".join((varint(len(directory)), directory, *contents)), level=level, compress_from=COMPRESS_FROM)
    return ValueRow(first=first, count=count, digests=digests, data=data)


def _taken_apart(rows: Iterable[ValueRow]) -> tuple[list[bytes], list[int]]:
    """The contents of the values in `rows`, and how many items each holds."""
    opened = [OpenRow(row) for row in rows]
    return [each for row in opened for each in row.contents()], [held for row in opened for held in row.items]


_directories: Final = msgspec.msgpack.Decoder(tuple[list[int], list[int] | None])


class OpenRow:
    """A row whose directory has been read."""

    __slots__ = ("_content", "_ends", "_start", "end", "first", "items", "lengths")

    def __init__(self, row: ValueRow) -> None:
        content = unseal(row.data)
        size, at = read_varint(content, 0)
        start = at + size
        try:
            lengths, items = _directories.decode(content[at:start])
        except msgspec.DecodeError as error:
            raise CorruptRecordError(f"the directory of a stored row of values is damaged: {error}") from error
        count = row.count
        self.first, self.end = row.first, row.first + count
        self.lengths = lengths
        self.items = items if items is not None else [1] * count
        self._content = content
        self._start = start
        self._ends: list[int] | None = None
        if len(lengths) != count or len(self.items) != count or start + sum(lengths) != len(content):
            raise CorruptRecordError("a stored row of values is not what its directory says")

    def slice(self, first: int, end: int) -> memoryview:
        """The contents of values `first` up to `end`, put together; both within this row."""
        content = memoryview(self._content)
        if first == self.first and end == self.end:
            return content[self._start :]
        ends = self._borders()
        return content[ends[first - self.first] : ends[end - self.first]]

    def contents(self) -> list[bytes]:
        """Each value's content."""
        return [self._content[start:end] for start, end in pairwise(self._borders())]

    def _borders(self) -> list[int]:
        # Most rows are read as a whole, and don't need them.
        if self._ends is None:
            self._ends = list(accumulate(self.lengths, initial=self._start))
        return self._ends


Stretch = tuple[OpenRow, int, int]
"""A row, and the values `first` up to `end` of it."""


class OpenRows:
    """Rows of one thread, to read values from by number. Rows are opened when they are first needed.

    Where rows overlap, the later one counts: a fork reads the values up to the fork in rows of its source's log that
    may go on beyond it, and what comes then in its own.
    """

    def __init__(self, rows: Iterable[ValueRow]) -> None:
        self._rows: list[ValueRow | OpenRow] = list(rows)
        self._firsts = [row.first for row in self._rows]

    def read(self, first: int, count: int) -> list[memoryview]:
        """The contents of `count` values from `first`, in as few parts as they lie in. CorruptRecordError if one is missing."""
        return [row.slice(low, high) for row, low, high in self.stretches(first, count)]

    def stretches(self, first: int, count: int) -> list[Stretch]:
        """Where `count` values from `first` lie. CorruptRecordError if one is missing."""
        found: list[Stretch] = []
        firsts = self._firsts
        end, at, last = first + count, bisect_right(firsts, first) - 1, len(firsts) - 1
        while first < end:
            row = self._opened(at) if 0 <= at <= last else None
            if row is None or not row.first <= first < row.end:
                raise CorruptRecordError(f"value {first} is missing", values=(first, first + 1))
            stop = min(row.end, end)
            if at < last and firsts[at + 1] < stop:
                stop = firsts[at + 1]
            found.append((row, first, stop))
            first, at = stop, at + 1
        return found

    def _opened(self, at: int) -> OpenRow:
        row = self._rows[at]
        if type(row) is OpenRow:
            return row
        assert isinstance(row, ValueRow)
        try:
            self._rows[at] = opened = OpenRow(row)
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"{error} (values {row.first} to {row.end - 1})", values=(row.first, row.end)
            ) from error
        return opened


def measures(stretches: Iterable[Stretch]) -> tuple[list[int], list[int]]:
    """The lengths and the item counts of the values in `stretches`."""
    lengths: list[int] = []
    items: list[int] = []
    for row, first, end in stretches:
        start, stop = first - row.first, end - row.first
        lengths += row.lengths[start:stop]
        items += row.items[start:stop]
    return lengths, items
