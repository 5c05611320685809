"""Conversions of times, texts and value ranges to what storages write, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from clew.model.records import Range

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)
"""What msgspec raises for damaged bytes. Text that is not UTF-8 raises Python's own error."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
FIRST_TIME: Final = -62_135_596_800_000_000
LAST_TIME: Final = 253_402_300_799_999_999
"""The first and the last moment that Python knows, in microseconds since 1970."""
_LARGEST = (1 << 63) - 1
"""The greatest value number."""
_MOST_RANGES = 4096
"""The most ranges that a checkpoint may need. Writers use a few; each one costs a query."""


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    since = moment - _EPOCH
    return since.days * _DAY + since.seconds * 1_000_000 + since.microseconds


def moment(micros: int) -> datetime:
    """The inverse of `micros`, in UTC. Raises OverflowError if it is out of range."""
    return _EPOCH + timedelta(microseconds=micros)


def moment_or_none(micros: int) -> datetime | None:
    """Like `moment`, but `None` for a time out of range."""
    try:
        return moment(micros)
    except OverflowError:
        return None


def day(number: int | None) -> str:
    """The date of a day number since 1970, like `2026-01-31`; `unknown` for a damaged record."""
    try:
        return "unknown" if number is None else (_EPOCH + timedelta(days=number)).date().isoformat()
    except OverflowError:
        return "unknown"


def text_bytes(text: str) -> bytes:
    """`text` as UTF-8. Lone surrogates are kept (sqlite3 would refuse them)."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(stored: bytes) -> str:
    """The inverse of `text_bytes`. Undecodable bytes of damaged text are replaced."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "replace")


def text_or_bytes(stored: bytes) -> str | bytes:
    """The inverse of `text_bytes`. Damaged text is returned as `bytes`."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored


def pack_ranges(ranges: Iterable[Range]) -> bytes:
    """Ranges as varints: (zigzag) distance from the end of the last range, then length."""
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


def unpack_ranges(packed: bytes) -> tuple[Range, ...] | None:
    """The inverse of `pack_ranges`; `None` if `packed` is damaged."""
    if not packed:
        return ()
    numbers: list[int] = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            numbers.append(number)
            number = shift = 0
        elif (shift := shift + 7) > 63:
            return None
    if shift or len(numbers) % 2:
        return None
    ranges: list[Range] = []
    last = 0
    for distance, length in zip(numbers[::2], numbers[1::2], strict=True):
        first = last + (distance >> 1 if not distance & 1 else -((distance + 1) >> 1))
        last = first + length
        ranges.append((first, last))
    return checked_ranges(ranges)


def checked_ranges(ranges: Sequence[Range]) -> tuple[Range, ...] | None:
    """`ranges` as a tuple, or `None` if no checkpoint can have them."""
    if len(ranges) > _MOST_RANGES or not all(0 <= first <= end <= _LARGEST for first, end in ranges):
        return None
    return tuple(ranges)


def union(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in sorted ranges that neither overlap nor touch."""
    joined: list[Range] = []
    for first, end in sorted(ranges):
        if end <= first:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined
