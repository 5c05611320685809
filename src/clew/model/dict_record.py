"""Conversion of the public model classes to dicts and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, ClassVar, Self

from msgspec import to_builtins

from clew.errors import ConfigError
from clew.model.config import ANY_USER

Convert = Callable[[Any], Any]


class DictRecord:
    """A frozen dataclass that converts to a plain dict and back without loss."""

    __slots__ = ()
    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {}
    _times: ClassVar[frozenset[str]] = frozenset()
    _durations: ClassVar[frozenset[str]] = frozenset()
    _tuples: ClassVar[frozenset[str]] = frozenset()
    _mappings: ClassVar[frozenset[str]] = frozenset()
    """Fields that are mappings whose values are nested records."""
    _users: ClassVar[frozenset[str]] = frozenset()
    """Fields that name a user. `ANY_USER` is a right of the caller, and not data."""
    _given: ClassVar[frozenset[str]] = frozenset()
    """Fields with values of the application, which may have any type."""

    def to_dict(self, *, convert: Convert | None = None) -> dict[str, Any]:
        """Return the fields as a dict: times in ISO 8601, durations in seconds, tuples as lists.

        `convert` is applied to the application's own values, such as states, metadata and content.
        """
        kind: object = type(self)  # As `type[Self]`, mypy asks if the records are hashable, not their class.
        names, values, converters = _plan(kind, convert)
        shown = dict(zip(names, values(self), strict=True))
        for name, converter in converters:
            if shown[name] is not None:
                shown[name] = converter(shown[name])
        return shown

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `to_dict` returned. Raises ConfigError for unknown keys."""
        if type(data) is not dict and not isinstance(data, Mapping):
            raise ConfigError(f"{cls.__name__}.from_dict takes a mapping, not {type(data).__name__}")
        kind: object = cls
        known, readers = _reading_plan(kind)
        if unknown := sorted(map(str, data.keys() - known)):
            raise ConfigError(f"{cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        content = dict(data)
        try:
            for name, read in readers:
                if content.get(name) is not None:
                    content[name] = read(content[name])
            return cls(**content)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"not a {cls.__name__}: {error}") from error


@lru_cache(maxsize=256)
def _reading_plan(cls: type[DictRecord]) -> tuple[frozenset[str], list[tuple[str, Convert]]]:
    """The names of a class's fields, and the fields that `from_dict` converts."""
    names = frozenset(field.name for field in fields(cls))  # type: ignore[arg-type]
    return names, [(name, read) for name in names if (read := _reader(cls, name)) is not None]


def _reader(cls: type[DictRecord], name: str) -> Convert | None:
    """The conversion of a field for `from_dict`. Most fields need none."""
    if name in cls._times:
        return lambda value: datetime.fromisoformat(value) if isinstance(value, str) else value
    if name in cls._durations:
        return lambda value: timedelta(seconds=value) if isinstance(value, int | float) else value
    if name in cls._nested:
        from_dict, is_tuple, is_mapping = cls._nested[name].from_dict, name in cls._tuples, name in cls._mappings
        return lambda value: value if isinstance(value, DictRecord) else _each(from_dict, value, is_tuple, is_mapping)
    return tuple if name in cls._tuples else None


@lru_cache(maxsize=256)
def _plan(
    cls: type[DictRecord], convert: Convert | None
) -> tuple[list[str], Callable[[DictRecord], tuple[Any, ...]], list[tuple[str, Convert]]]:
    """The names of a class's fields, a function that reads all of them, and the fields to convert."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    converters = [(name, found) for name in names if (found := _converter(cls, name, convert)) is not None]
    # Fields are read at once, because answers of the server have hundreds. attrgetter returns a tuple for two or more.
    return names, attrgetter(*names), converters


def _converter(cls: type[DictRecord], name: str, convert: Convert | None) -> Convert | None:
    """The conversion of a field for `to_dict`. Most fields need none."""
    if name in cls._times:
        return _iso
    if name in cls._durations:
        return lambda value: value.total_seconds() if isinstance(value, timedelta) else value
    if name in cls._users:
        return lambda value: None if value is ANY_USER else value
    if name in cls._nested:
        to_dict: Convert = partial(cls._nested[name].to_dict, convert=convert)
        mapping = name in cls._mappings
        if name in cls._tuples:
            return lambda value: [to_dict(item) for item in value]
        return lambda value: _each(to_dict, value, False, mapping)
    if name in cls._tuples:
        return list if convert is None or name not in cls._given else lambda value: convert(list(value))
    return convert if name in cls._given else None


def _iso(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    # The same text as isoformat's, in a fifth of the time.
    return f"{to_builtins(value)[:-1]}+00:00" if value.tzinfo is UTC else value.isoformat()


def _each(convert: Callable[[Any], Any], value: Any, is_tuple: bool, is_mapping: bool) -> Any:
    if is_tuple:
        return tuple(convert(item) for item in value)
    return {key: convert(item) for key, item in value.items()} if is_mapping else convert(value)
