"""Extension types: their numbers, and the byte formats of those that are not containers."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import ormsgpack

from clew.errors import ConfigError, UnsupportedTypeError


class Tag(enum.IntEnum):
    """Extension types. Numbers are stored: never change or reuse one. `nodes` has 32 and up."""

    TUPLE = 1
    SET = 2
    FROZENSET = 3
    DATETIME = 4
    DATE = 5
    TIME = 6
    TIMEDELTA = 7
    UUID = 8
    DECIMAL = 9
    BIG_INT = 10
    COMPLEX = 11
    PAIRS = 12
    """A dict with keys other than strings: alternating keys and values."""
    RECORD = 13
    """A registered class: its name, then a map of its fields."""
    ORDERED_DICT = 14
    DEQUE = 15
    TIME_IN_ZONE = 16
    """A time of day with its zone's name, which `TIME` loses. An older Clew refuses this tag."""


CONTAINER_TAGS: Final = frozenset({Tag.TUPLE, Tag.SET, Tag.FROZENSET, Tag.PAIRS, Tag.RECORD, Tag.ORDERED_DICT})
"""Extensions whose content is an array or map (in a record, after a name), and can be cut like one."""


def _datetime_bytes(value: datetime) -> bytes:
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    if zone is None and not value.fold:
        return value.isoformat().encode()
    return ormsgpack.packb([value.isoformat(), zone, value.fold])


def _datetime(data: bytes) -> datetime:
    if data[0] < 0x80:
        return _in_utc(datetime.fromisoformat(data.decode()))
    text, zone, fold = msgspec.msgpack.decode(data)
    value = datetime.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return _in_utc(value)
    try:
        return value.replace(tzinfo=ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # The zone is unknown on this machine. The stored offset is still right.
        return value


def _in_utc(value: datetime) -> datetime:
    # fromisoformat returns an unnamed zone for "+00:00", but UTC was saved.
    return value.replace(tzinfo=UTC) if value.tzinfo == UTC else value


def time_extension(value: time) -> tuple[Tag, bytes]:
    """Return the extension for a time. Raises UnsupportedTypeError if its zone can't be stored."""
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    if zone is not None:
        return Tag.TIME_IN_ZONE, ormsgpack.packb([value.replace(tzinfo=None).isoformat(), value.fold, zone])
    if value.tzinfo is not None and value.utcoffset() is None:
        raise UnsupportedTypeError(
            f"the zone of {value!r} has neither a name nor, without a date, an offset; use a zoneinfo.ZoneInfo"
        )
    return Tag.TIME, ormsgpack.packb([value.isoformat(), value.fold])


def _time(data: bytes) -> time:
    text, fold = msgspec.msgpack.decode(data)
    return time.fromisoformat(text).replace(fold=fold)


def _time_in_zone(data: bytes) -> time:
    text, fold, zone = msgspec.msgpack.decode(data)
    value = time.fromisoformat(text).replace(fold=fold)
    try:
        return value.replace(tzinfo=ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        # Unlike a datetime, a time has no offset without its zone.
        raise ConfigError(
            f"the time zone {zone!r} of a stored time is unknown on this machine; install the tzdata package"
        ) from error


def _timedelta_bytes(value: timedelta) -> bytes:
    return ormsgpack.packb([value.days, value.seconds, value.microseconds])


def _big_int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


# Times are not included, because their format depends on the zone.
SCALAR_BYTES: Final[dict[type, tuple[Tag, Callable[[Any], bytes]]]] = {
    datetime: (Tag.DATETIME, _datetime_bytes),
    date: (Tag.DATE, lambda value: value.isoformat().encode()),
    timedelta: (Tag.TIMEDELTA, _timedelta_bytes),
    UUID: (Tag.UUID, lambda value: value.bytes),
    Decimal: (Tag.DECIMAL, lambda value: str(value).encode()),
    int: (Tag.BIG_INT, _big_int_bytes),
    complex: (Tag.COMPLEX, lambda value: ormsgpack.packb([value.real, value.imag])),
}
PLAIN_TYPES: Final[frozenset[type]] = frozenset(
    {
        *(type(None), bool, float, str, bytes, bytearray, memoryview),
        *(list, dict, tuple, set, frozenset, OrderedDict, deque, time),
        *SCALAR_BYTES,
    }
)
"""Types that can be saved without registration, if their contents can."""
SCALARS: Final[dict[int, Callable[[bytes], Any]]] = {
    Tag.DATETIME: _datetime,
    Tag.DATE: lambda data: date.fromisoformat(data.decode()),
    Tag.TIME: _time,
    Tag.TIME_IN_ZONE: _time_in_zone,
    Tag.TIMEDELTA: lambda data: timedelta(*msgspec.msgpack.decode(data)),
    Tag.UUID: lambda data: UUID(bytes=data),
    Tag.DECIMAL: lambda data: Decimal(data.decode()),
    Tag.BIG_INT: lambda data: int.from_bytes(data, "big", signed=True),
    Tag.COMPLEX: lambda data: complex(*msgspec.msgpack.decode(data)),
}
