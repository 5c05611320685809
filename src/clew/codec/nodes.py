"""Nodes: the grammar of checkpoint bodies, msgpack in which large parts are
references into the value log.

A body is one msgpack item. Three extension types stand for parts that are stored in values:

- `VALUE`     number, length: the part is the content of one value.
- `PIECES`    length, runs: the part is the concatenated content of these values, such as a long text.
- `SEQUENCE`  shape, tag, prefix, count, length, reach, spine, runs: a container of `count` items (in a
  map, pairs), which are the concatenated contents of these values. `tag` and `prefix` tell its type, if
  it is not a plain list or map.

`length` is the part's length when written out, so that sizes are known without reading it. Runs are
`(first, count)` over value numbers. If there are too many, as with several lists that grow in turn,
the older runs move into values themselves: the `spine` has the runs of those. Items may contain
nodes again. The `reach` covers all values needed in addition to `runs`, so that a body alone tells
what has to be read. Numbers are little-endian varints with seven bits per byte.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from clew.errors import CorruptRecordError

Run = tuple[int, int]
"""`(first, count)`: consecutive value numbers."""

Runs = tuple[Run, ...]


LARGEST: Final = (1 << 63) - 1
"""Upper bound of value numbers."""


class NodeTag(enum.IntEnum):
    """Extension types of nodes. Numbers are stored: never change one."""

    VALUE = 32
    PIECES = 33
    SEQUENCE = 34


_items: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
ARRAY: Final = 0x90
MAP: Final = 0x80


class Container(Struct, frozen=True):
    """The type of a sequence: an array or map, optionally inside an extension, after a prefix."""

    shape: int = ARRAY
    tag: int = 0
    prefix: bytes = b""


LIST: Final = Container(ARRAY)
DICT: Final = Container(MAP)
_LIST: Final = bytes((ARRAY, 0, 0))
"""A plain list's type in a node."""


class Sequence(Struct, frozen=True, kw_only=True):
    """A parsed `SEQUENCE` node."""

    container: Container
    count: int
    length: int
    reach: Runs
    spine: Runs
    runs: Runs


def value_node(number: int, length: int) -> bytes:
    return extension(NodeTag.VALUE, varint(number) + varint(length))


def pieces_node(length: int, runs: Iterable[Run]) -> bytes:
    return extension(NodeTag.PIECES, varint(length) + write_runs(runs))


def sequence_node(container: Container, count: int, length: int, *, reach: Runs, spine: Runs, runs: Runs) -> bytes:
    kind = _LIST if container is LIST else bytes((container.shape, container.tag)) + _sized(container.prefix)
    elsewhere = _sized(write_runs(reach)) + _sized(write_runs(spine)) if reach or spine else b"\0\0"
    return extension(NodeTag.SEQUENCE, kind + varint(count) + varint(length) + elsewhere + write_runs(runs))


def read_value(data: memoryview) -> tuple[int, int]:
    """Return the number and length in a `VALUE` node."""
    number, at = read_varint(data, 0)
    length, _ = read_varint(data, at)
    if number >= LARGEST:
        raise CorruptRecordError(f"a stored reference has the impossible value number {number}")
    return number, length


def read_pieces(data: memoryview) -> tuple[int, Runs]:
    """Return the length and runs in a `PIECES` node."""
    length, at = read_varint(data, 0)
    return length, read_runs(data[at:])


def read_sequence(data: memoryview) -> Sequence:
    """Parse a `SEQUENCE` node."""
    size, at = read_varint(data, 2)
    prefix = bytes(data[at : at + size])
    count, at = read_varint(data, at + size)
    length, at = read_varint(data, at)
    size, at = read_varint(data, at)
    reach, at = read_runs(data[at : at + size]), at + size
    size, at = read_varint(data, at)
    return Sequence(
        container=Container(data[0], data[1], prefix),
        count=count,
        length=length,
        reach=reach,
        spine=read_runs(data[at : at + size]),
        runs=read_runs(data[at + size :]),
    )


def write_runs(runs: Iterable[Run]) -> bytes:
    """Encode runs: the signed distance of each from the end of the previous one, and its length."""
    parts: list[bytes] = []
    end = 0
    for first, count in runs:
        step = first - end
        parts += (varint(step << 1 if step >= 0 else -step << 1 | 1), varint(count))
        end = first + count
    return b"".join(parts)


def read_runs(data: memoryview) -> Runs:
    runs = []
    at = end = 0
    while at < len(data):
        step, at = read_varint(data, at)
        count, at = read_varint(data, at)
        first = end - (step >> 1) if step & 1 else end + (step >> 1)
        end = first + count
        if first < 0 or end > LARGEST:
            raise CorruptRecordError(f"a stored reference has the impossible value numbers {first} to {end}")
        runs.append((first, count))
    return tuple(runs)


def runs_of(numbers: Iterable[int], before: Runs = ()) -> Runs:
    """Return `numbers` as runs, appended to the runs `before`."""
    runs = list(before)
    first, count = runs.pop() if runs else (0, 0)
    for number in numbers:
        if count and number == first + count:
            count += 1
        else:
            if count:
                runs.append((first, count))
            first, count = number, 1
    if count:
        runs.append((first, count))
    return tuple(runs)


def ranges_of(runs: Iterable[Run]) -> tuple[tuple[int, int], ...]:
    """Return runs as ranges: `(first, end)`."""
    return tuple([(first, first + count) for first, count in runs])


def varint(number: int) -> bytes:
    if number < 0x80:
        return _SMALL[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data if data else b"\0"


def read_varint(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and its end. Raises CorruptRecordError if cut off or over 63 bits."""
    number = shift = 0
    try:
        while (byte := data[at]) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 56:
                break
    except IndexError:
        raise CorruptRecordError("a stored reference is truncated") from None
    if byte & 0x80:
        raise CorruptRecordError("a stored number is too large")
    return number | byte << shift, at + 1


_SMALL: Final = [bytes([number]) for number in range(0x80)]


def extension(tag: int, data: bytes) -> bytes:
    """Return a msgpack extension item."""
    size = len(data)
    if size in _FIXED:
        return bytes((_FIXED[size], tag)) + data
    if size < 1 << 8:
        return bytes((0xC7, size, tag)) + data
    if size < 1 << 16:
        return b"\xc8" + size.to_bytes(2, "big") + bytes((tag,)) + data
    return b"\xc9" + size.to_bytes(4, "big") + bytes((tag,)) + data


def extension_overhead(size: int) -> int:
    """Return the number of bytes that `extension` adds to `size` bytes of data."""
    if size in _FIXED:
        return 2
    return 3 if size < 1 << 8 else 4 if size < 1 << 16 else 6


_FIXED: Final = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
_FIXED_SIZES: Final = {header: size for size, header in _FIXED.items()}


def read_extension(item: bytes | memoryview) -> tuple[int, int] | None:
    """Return the tag of an extension item and the start of its data; `None` for any other item."""
    head = item[0]
    if head in _FIXED_SIZES:
        return item[1], 2
    if head == 0xC7:
        return item[2], 3
    if head == 0xC8:
        return item[3], 4
    if head == 0xC9:
        return item[5], 6
    return None


def header(shape: int, count: int) -> bytes:
    """Return the msgpack header of an array or map with `count` items or pairs."""
    if count < 16:
        return bytes((shape | count,))
    if count < 1 << 16:
        return bytes((0xDC if shape == ARRAY else 0xDE,)) + count.to_bytes(2, "big")
    return bytes((0xDD if shape == ARRAY else 0xDF,)) + count.to_bytes(4, "big")


def read_header(item: bytes | memoryview, at: int = 0) -> tuple[int, int, int] | None:
    """Return shape, count and start of the content, if an array or map begins at `at`."""
    head = item[at]
    if head & 0xF0 in (ARRAY, MAP):
        return head & 0xF0, head & 0x0F, at + 1
    if head in (0xDC, 0xDE):
        return (ARRAY if head == 0xDC else MAP), int.from_bytes(item[at + 1 : at + 3], "big"), at + 3
    if head in (0xDD, 0xDF):
        return (ARRAY if head == 0xDD else MAP), int.from_bytes(item[at + 1 : at + 5], "big"), at + 5
    return None


def split_items(content: bytes | memoryview, count: int) -> list[bytes]:
    """Split `content` into `count` msgpack items. Raises msgspec.DecodeError if it
    does not have exactly that many."""
    return list(map(bytes, _items.decode(header(ARRAY, count) + content)))
