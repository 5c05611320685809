"""`to_dict` and `from_dict` for the public model classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from clew.errors import ConfigError


class Plain:
    """A frozen dataclass that turns into a plain dict and back, exactly."""

    __slots__ = ()
    _nested: ClassVar[Mapping[str, type[Plain]]] = {}
    _times: ClassVar[frozenset[str]] = frozenset()
    _durations: ClassVar[frozenset[str]] = frozenset()
    _tuples: ClassVar[frozenset[str]] = frozenset()
    _mappings: ClassVar[frozenset[str]] = frozenset()
    """Fields that are mappings of nested records."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict: times as ISO 8601 text, durations as seconds, tuples as lists, nested records as dicts."""
        return {field.name: self._out(field.name, getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `to_dict` gave. Unknown keys are an error, so that nothing is dropped in silence."""
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
        if name in cls._nested and not isinstance(value, Plain):
            return _each(cls._nested[name].from_dict, value, name in cls._tuples, name in cls._mappings)
        return tuple(value) if name in cls._tuples else value

    @classmethod
    def _out(cls, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name in cls._times and isinstance(value, datetime):
            return value.isoformat()
        if name in cls._durations and isinstance(value, timedelta):
            return value.total_seconds()
        if name in cls._nested:
            nested = _each(cls._nested[name].to_dict, value, name in cls._tuples, name in cls._mappings)
            return list(nested) if name in cls._tuples else nested
        return list(value) if name in cls._tuples else value


def _each(convert: Callable[[Any], Any], value: Any, is_tuple: bool, is_mapping: bool) -> Any:
    if is_tuple:
        return tuple(convert(item) for item in value)
    return {key: convert(item) for key, item in value.items()} if is_mapping else convert(value)
