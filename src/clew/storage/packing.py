"""How times, ranges and texts are written into columns and fields, in every storage that keeps bytes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from clew.model.records import Range

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    since = moment - _EPOCH
    return since.days * _DAY + since.seconds * 1_000_000 + since.microseconds


def moment(micros: int) -> datetime:
    """The time that `micros` gave, in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def day(number: int) -> str:
    """The name of a day since 1970, as `2026-01-31`."""
    return (_EPOCH + timedelta(days=number)).date().isoformat()


def text_bytes(text: str) -> bytes:
    """`text` as stored; a lone surrogate is kept, where sqlite3 would refuse it."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(stored: bytes) -> str:
    """What `text_bytes` was given; of damaged text, what is left."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "replace")


def pack_ranges(ranges: Iterable[Range]) -> bytes:
    """Ranges as varints: the distance from the last range's end (zigzag, for they may overlap), then the length."""
    packed = bytearray()
    last = 0
    for first, end in ranges:
        distance = first - last
        for number in (distance << 1 if distance >= 0 else (-distance << 1) - 1, end - first):
            while number > 0x7F:
                packed.append(number & 0x7F | 0x80)
                number >>= 7
            packed.append(number)
        last = end
    return bytes(packed)


def unpack_ranges(packed: bytes) -> tuple[Range, ...]:
    """What `pack_ranges` was given."""
    numbers: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            numbers.append(number)
            number = shift = 0
    ranges: list[Range] = []
    last = 0
    for distance, length in zip(numbers[::2], numbers[1::2], strict=True):
        first = last + (distance >> 1 if not distance & 1 else -((distance + 1) >> 1))
        last = first + length
        ranges.append((first, last))
    return tuple(ranges)


def union(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers as sorted ranges that neither overlap nor touch."""
    joined: list[Range] = []
    for first, end in sorted(ranges):
        if end <= first:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined
