"""Value rows: the values of one commit in one record, and the merging of rows.

The content of a row is the length of its directory (a varint), the directory, and the concatenated
values. The directory is a msgpack array: the values' lengths, and the number of items in each (nil if
each has one).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Annotated, Final, Literal

import msgspec

from clew.codec.frame import MOST, intact, seal, unseal
from clew.codec.nodes import read_varint, varint
from clew.errors import CorruptRecordError
from clew.model.queries import Content
from clew.model.records import Range, ValueRow

DIGEST_SIZE: Final = 16
COMPRESS_FROM: Final = 2048
"""Shorter rows stay uncompressed until they are merged: together they compress better."""
MERGE_LEVEL: Final = 1
"""Compression level for rows that are rewritten during normal work."""
LARGEST_MERGE: Final = 64 << 20
"""Maximum content of a merged row, because repetitive rows could outgrow the memory."""
LARGEST_GAP: Final = 1 << 24
"""The largest plausible gap of collected values; a larger one is damage."""
GAP_ROW: Final = 1 << 16
"""Maximum number of collected values that one placeholder row stands for."""
Kind = Literal[b"items", b"piece", b"spine"]


_HASHES: Final = {
    kind: hashlib.blake2b(digest_size=DIGEST_SIZE, person=kind) for kind in (b"items", b"piece", b"spine")
}
"""Copying a hash object is cheaper than creating one."""


def digest(content: bytes, kind: Kind) -> bytes:
    """Return the digest of a value: collision-resistant, because tool output is untrusted."""
    hashed = _HASHES[kind].copy()
    hashed.update(content)
    return hashed.digest()


def write_row(first: int, contents: Sequence[bytes], items: Sequence[int], digests: Sequence[bytes]) -> ValueRow:
    """Return a row of values numbered from `first`. `items` has the number of items in
    each: 0 for a piece or spine."""
    return _row(first, contents, items, b"".join(digests), level=1)


def merge_rows(rows: Sequence[ValueRow], *, level: int) -> ValueRow:
    """Merge adjacent rows into one. Value numbers don't change."""
    if any(one.end != other.first for one, other in pairwise(rows)):
        raise ValueError("only adjacent rows can be merged")
    contents, items = _taken_apart(rows)
    return _row(rows[0].first, contents, items, b"".join([row.digests for row in rows]), level=level)


def hollow_row(row: ValueRow, unused: Iterable[Range]) -> ValueRow:
    """Return `row` without the content of its `unused` values. Value numbers don't change."""
    contents, items = _taken_apart([row])
    digests = bytearray(row.digests)
    for first, end in unused:
        for at in range(first - row.first, end - row.first):
            contents[at], items[at] = b"", 0
            digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE] = bytes(DIGEST_SIZE)
    return _row(row.first, contents, items, bytes(digests), level=MERGE_LEVEL)


def unbroken(content: Content) -> Iterator[ValueRow]:
    """Return the values of a thread that is copied in adjacent rows from 0: gaps are filled, overlaps cut off.

    Raises CorruptRecordError at once, before the first row, if the checksum of a record is wrong or a
    checkpoint refers to values that are not there. Nothing damaged is written over a good copy.
    """
    thread_id = content.thread.thread_id
    for problem in _damage_in(content):
        raise CorruptRecordError(f"thread {thread_id!r} is damaged: it can't be copied: {problem}", thread_id=thread_id)
    return adjacent(content.rows, content.basis.next_value)


def _damage_in(content: Content) -> Iterator[str]:
    for name, frame in content.frames():
        if not intact(frame):
            yield f"the checksum of {name} does not match"
    held: list[Range] = []
    for row in content.rows:  # in order
        if held and row.first <= held[-1][1]:
            held[-1] = (held[-1][0], max(row.end, held[-1][1]))
        else:
            held.append((row.first, row.end))
    for each in content.checkpoints:
        for first, end in each.covers:
            at = bisect_right(held, first, key=itemgetter(0)) - 1
            if at < 0 or end > held[at][1]:
                yield f"values {first} to {end - 1} of checkpoint {each.checkpoint_id!r} are not all there"


def adjacent(rows: Sequence[ValueRow], end: int) -> Iterator[ValueRow]:
    """Yield the values up to number `end` in adjacent rows from 0: gaps are filled with
    empty values, overlaps cut off.

    Bodies that refer to `rows` can be read from the result.
    """
    at = 0
    for row, stop in zip(rows, [*(each.first for each in rows[1:]), end], strict=False):
        if row.first - at > LARGEST_GAP:
            raise CorruptRecordError(
                f"values {at} to {row.first} are missing, which is more than garbage collection removes"
            )
        for first in range(at, row.first, GAP_ROW):
            gap = min(GAP_ROW, row.first - first)
            yield _row(first, [b""] * gap, [0] * gap, bytes(DIGEST_SIZE * gap), level=MERGE_LEVEL)
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
    """Return the contents of the values in `rows`, and the number of items in each."""
    opened = [OpenRow(row) for row in rows]
    return [each for row in opened for each in row.contents()], [held for row in opened for held in row.items]


_DIRECTORY, _DIRECTORY_ENTRY = 16, 18
"""Maximum size of a directory: a fixed part, and two numbers of up to nine bytes for each value."""
_Number = Annotated[int, msgspec.Meta(ge=0)]
_directories: Final = msgspec.msgpack.Decoder(tuple[list[_Number], list[_Number] | None])


class OpenRow:
    """A row whose directory has been read."""

    __slots__ = ("_content", "_ends", "_start", "end", "first", "items", "lengths")

    def __init__(self, row: ValueRow, most: int = MOST) -> None:
        content = unseal(row.data, most)
        size, at = read_varint(content, 0)
        start = at + size
        if size > _DIRECTORY + _DIRECTORY_ENTRY * row.count:
            raise CorruptRecordError("the directory of a stored row has more entries than the row has values")
        try:
            lengths, items = _directories.decode(content[at:start])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptRecordError(f"the directory of a stored row of values is damaged: {error}") from error
        count = row.count
        self.first, self.end = row.first, row.first + count
        self.lengths = lengths
        # Checked before anything is allocated from the count, which is untrusted.
        if len(lengths) != count or start + sum(lengths) != len(content):
            raise CorruptRecordError("a stored row of values does not match its directory")
        self.items = items if items is not None else [1] * count
        self._content = content
        self._start = start
        self._ends: list[int] | None = None
        if len(self.items) != count:
            raise CorruptRecordError("a stored row of values does not match its directory")

    def slice(self, first: int, end: int) -> memoryview:
        """Return the joined contents of the values from `first` up to `end`, all in this row."""
        content = memoryview(self._content)
        if first == self.first and end == self.end:
            return content[self._start :]
        ends = self._borders()
        return content[ends[first - self.first] : ends[end - self.first]]

    def contents(self) -> list[bytes]:
        """Return the content of each value."""
        return [self._content[start:end] for start, end in pairwise(self._borders())]

    def _borders(self) -> list[int]:
        # Computed on demand: most rows are read as a whole.
        if self._ends is None:
            self._ends = list(accumulate(self.lengths, initial=self._start))
        return self._ends


Stretch = tuple[OpenRow, int, int]
"""A row, with the first and the end of a range of its values."""


class OpenRows:
    """A thread's rows, for reading values by number. Rows are opened when they are first needed.

    Where rows overlap, the later one counts: a fork reads older values from rows of its source's
    log, which may extend past the fork, and newer values from its own rows.
    """

    def __init__(self, rows: Iterable[ValueRow | OpenRow], most: int = MOST) -> None:
        self._rows: list[ValueRow | OpenRow] = list(rows)
        self._most = most
        self._firsts = [row.first for row in self._rows]

    def within(self, ranges: Iterable[Range]) -> OpenRows:
        """Return the rows that hold any value of `ranges`. Open rows stay open."""
        wanted: set[int] = set()
        for first, end in ranges:
            low = max(bisect_right(self._firsts, first) - 1, 0)
            wanted.update(range(low, bisect_left(self._firsts, end)))
        for at in wanted:
            with suppress(CorruptRecordError):
                # Reading a value of this row raises the error again.
                self._opened(at)
        return OpenRows([self._rows[at] for at in sorted(wanted)], self._most)

    def read(self, first: int, count: int) -> list[memoryview]:
        """Return the contents of `count` values from `first`, one part per row. Raises
        CorruptRecordError if one is missing."""
        return [row.slice(low, high) for row, low, high in self.stretches(first, count)]

    def stretches(self, first: int, count: int) -> list[Stretch]:
        """Return where `count` values from `first` are. Raises CorruptRecordError if one is missing."""
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
            self._rows[at] = opened = OpenRow(row, self._most)
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"{error} (values {row.first} to {row.end - 1})", values=(row.first, row.end)
            ) from error
        return opened


def measures(stretches: Iterable[Stretch]) -> tuple[list[int], list[int]]:
    """Return the lengths and item counts of the values in `stretches`."""
    lengths: list[int] = []
    items: list[int] = []
    for row, first, end in stretches:
        start, stop = first - row.first, end - row.first
        lengths += row.lengths[start:stop]
        items += row.items[start:stop]
    return lengths, items
