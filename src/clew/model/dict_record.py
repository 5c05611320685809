"""Conversion of the public model classes to dicts and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Self

from clew.errors import ConfigError
from clew.model.config import ANY_USER


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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict: times in ISO 8601, durations in seconds, tuples as lists."""
        return {
            name: self._out(name, getattr(self, name)) if converted else getattr(self, name)
            for name, converted in _plan(type(self))
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `to_dict` returned. Raises ConfigError for unknown keys."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        if not isinstance(data, Mapping):
            raise ConfigError(f"{cls.__name__}.from_dict takes a mapping, not {type(data).__name__}")
        if unknown := sorted(map(str, set(data) - known)):
            raise ConfigError(f"{cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        try:
            return cls(**{name: cls._in(name, value) for name, value in data.items()})
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"not a {cls.__name__}: {error}") from error

    @classmethod
    def _in(cls, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name in cls._times and isinstance(value, str):
            return datetime.fromisoformat(value)
        if name in cls._durations and isinstance(value, int | float):
            return timedelta(seconds=value)
        if name in cls._nested and not isinstance(value, DictRecord):
            return _each(cls._nested[name].from_dict, value, name in cls._tuples, name in cls._mappings)
        return tuple(value) if name in cls._tuples else value

    @classmethod
    def _out(cls, name: str, value: Any) -> Any:
        if value is None or value is ANY_USER:
            return None
        if name in cls._times and isinstance(value, datetime):
            return value.isoformat()
        if name in cls._durations and isinstance(value, timedelta):
            return value.total_seconds()
        if name in cls._nested:
            nested = _each(cls._nested[name].to_dict, value, name in cls._tuples, name in cls._mappings)
            return list(nested) if name in cls._tuples else nested
        return list(value) if name in cls._tuples else value


_PLANS: Final[dict[type[DictRecord], list[tuple[str, bool]]]] = {}


def _plan(cls: type[DictRecord]) -> list[tuple[str, bool]]:
    """The fields of a class, and whether a field's values are converted. Most are not."""
    plan = _PLANS.get(cls)
    if plan is None:
        converted = cls._times | cls._durations | cls._tuples | cls._mappings | cls._users | cls._nested.keys()
        plan = _PLANS[cls] = [(field.name, field.name in converted) for field in fields(cls)]  # type: ignore[arg-type]
    return plan


def _each(convert: Callable[[Any], Any], value: Any, is_tuple: bool, is_mapping: bool) -> Any:
    if is_tuple:
        return tuple(convert(item) for item in value)
    return {key: convert(item) for key, item in value.items()} if is_mapping else convert(value)
