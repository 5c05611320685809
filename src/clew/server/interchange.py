"""Values as JSON and back without loss.

JSON's own types stay as they are. Any other value is an object with the key `$type`:

    {"$type": "tuple", "value": [1, 2]}
    {"$type": "datetime", "value": "2026-01-31T12:00:00+01:00", "zone": "Europe/Berlin"}
    {"$type": "bytes", "value": "aGVsbG8="}
    {"$type": "dict", "value": [[1, "a"], ["b", 2]]}          keys that are not text, or the key `$type`
    {"$type": "record", "class": "app.Trip", "value": {…}}    an object of a class

Integers beyond 2**53 are written as text, because JavaScript would round them.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import clew

TYPE: Final = "$type"
_PLAIN: Final = frozenset({str, bool, type(None)})
"""Types that JSON has."""
_SAFE: Final = (1 << 53) - 1
_DEEPEST: Final = 200
_DIGITS: Final = 4300
"""Python's own limit for integers in text."""
_SEQUENCES: Final[dict[type, str]] = {tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
_BUILT: Final[dict[str, Callable[[list[Any]], Any]]] = {name: kind for kind, name in _SEQUENCES.items()}


def to_json(value: Any) -> Any:
    """Return `value` in JSON's types. An object that has no exact form becomes `{"$type": "text", …}`."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if -_SAFE <= value <= _SAFE else {TYPE: "int", "value": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {TYPE: "float", "value": str(value)}
    if kind is list:
        # Most values are plain. Calling this function for each of them would take half of the time.
        return [item if type(item) in _PLAIN else to_json(item) for item in value]
    if kind is dict:
        return _mapping(value)
    if kind in _SEQUENCES:
        return {TYPE: _SEQUENCES[kind], "value": [to_json(item) for item in value]}
    return _other(value)


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str or key == TYPE:
            return {TYPE: "dict", "value": [[to_json(key), to_json(item)] for key, item in value.items()]}
        shown[key] = item if type(item) in _PLAIN else to_json(item)
    return shown


def _other(value: Any) -> Any:
    match value:
        case OrderedDict():
            return {TYPE: "ordereddict", "value": [[to_json(key), to_json(item)] for key, item in value.items()]}
        case clew.Record():
            return {TYPE: "record", "class": value.type_name, "value": _mapping(dict(value.fields))}
        case bytes() | bytearray() | memoryview():
            return {TYPE: "bytes", "value": base64.b64encode(bytes(value)).decode()}
        case datetime():
            return _timed("datetime", value)
        case date():
            return {TYPE: "date", "value": value.isoformat()}
        case time():
            return _timed("time", value)
        case timedelta():
            return {TYPE: "timedelta", "value": [value.days, value.seconds, value.microseconds]}
        case UUID():
            return {TYPE: "uuid", "value": str(value)}
        case Decimal():
            return {TYPE: "decimal", "value": str(value)}
        case complex():
            return {TYPE: "complex", "value": [to_json(value.real), to_json(value.imag)]}
        case Mapping():
            return _mapping(value)
        case _:
            return {TYPE: "text", "class": type(value).__name__, "value": _shown(value)}


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # A user's __repr__ may raise anything.
        return f"<{type(value).__name__}>"


def _timed(kind: str, value: datetime | time) -> dict[str, Any]:
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
    text = (
        value.isoformat()
        if isinstance(value, datetime)
        else value.replace(tzinfo=None if zone else value.tzinfo).isoformat()
    )
    given: dict[str, Any] = {TYPE: kind, "value": text}
    if zone:
        given["zone"] = zone
    if value.fold:
        given["fold"] = 1
    return given


def from_json(value: Any, *, depth: int = 0) -> Any:
    """Return the value that `to_json` wrote. Raises ConfigError if it is not such a value."""
    if depth > _DEEPEST:
        raise clew.ConfigError(f"a value nests deeper than {_DEEPEST} levels")
    if type(value) is list:
        return [from_json(item, depth=depth + 1) for item in value]
    if type(value) is not dict:
        return value
    if TYPE not in value:
        return {key: from_json(item, depth=depth + 1) for key, item in value.items()}
    try:
        return _typed(value[TYPE], value, depth + 1)
    except (
        TypeError,
        ValueError,
        KeyError,
        OverflowError,
        ArithmeticError,
        InvalidOperation,
        binascii.Error,
        ZoneInfoNotFoundError,
    ) as error:
        if isinstance(error, clew.ClewError):
            raise
        raise clew.ConfigError(f"not a value of type {value[TYPE]!r}: {error}") from error


def _typed(kind: Any, given: dict[str, Any], depth: int) -> Any:
    if kind in _BUILT:
        return _BUILT[kind]([from_json(item, depth=depth) for item in given["value"]])
    if kind in ("dict", "ordereddict"):
        pairs = [(from_json(key, depth=depth), from_json(item, depth=depth)) for key, item in given["value"]]
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    if kind == "record":
        fields = from_json(given["value"], depth=depth)
        if not isinstance(given["class"], str) or not isinstance(fields, dict):
            raise ValueError("it needs a 'class' and a 'value' with fields")
        return clew.Record(given["class"], fields)
    if kind == "complex":
        return complex(*[from_json(part, depth=depth) for part in given["value"]])
    if kind not in _SCALARS:
        known = ", ".join(sorted([*_BUILT, *_SCALARS, "dict", "ordereddict", "record", "complex"]))
        raise ValueError(f"unknown; known types are {known}")
    return _SCALARS[kind](given)


def _text(given: dict[str, Any]) -> str:
    text = given["value"]
    if not isinstance(text, str):
        raise TypeError("its 'value' must be text")
    return text


def _int(given: dict[str, Any]) -> int:
    text = _text(given)
    if len(text) > _DIGITS:
        raise ValueError(f"it has more than {_DIGITS} digits")
    return int(text, 0)


def _zoned(value: Any, given: dict[str, Any]) -> Any:
    if given.get("zone"):
        value = value.replace(tzinfo=ZoneInfo(given["zone"]))
    return value.replace(fold=1) if given.get("fold") else value


def _refuse_text(given: dict[str, Any]) -> Any:
    raise ValueError(f"an object of class {given.get('class')!r} was only shown as text, and can't be read back")


_SCALARS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "int": _int,
    "float": lambda given: float(_text(given)),
    "bytes": lambda given: base64.b64decode(_text(given), validate=True),
    "datetime": lambda given: _zoned(datetime.fromisoformat(_text(given)), given),
    "date": lambda given: date.fromisoformat(_text(given)),
    "time": lambda given: _zoned(time.fromisoformat(_text(given)), given),
    "timedelta": lambda given: timedelta(*given["value"]),
    "uuid": lambda given: UUID(_text(given)),
    "decimal": lambda given: Decimal(_text(given)),
    "text": _refuse_text,
}
