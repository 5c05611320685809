"""`to_dict` and `from_dict` for the public model classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, ClassVar, Self

from clew.errors import ConfigError


class Plain:
    """A frozen dataclass that turns into a plain dict and back, exactly."""

    __slots__ = ()
    _nested: ClassVar[Mapping[str, type[Plain]]] = {}
    _times: ClassVar[frozenset[str]] = frozenset()
    _tuples: ClassVar[frozenset[str]] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict: times as ISO 8601 text, tuples as lists, nested records as dicts."""
        return {field.name: _out(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild what `to_dict` gave. Unknown keys are an error, so that nothing is dropped in silence."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        if unknown := sorted(set(data) - known):
            raise ConfigError(f"{cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        try:
            return cls(**{name: cls._in(name, value) for name, value in data.items()})
        except TypeError as error:
            raise ConfigError(f"not a {cls.__name__}: {error}") from error

    @classmethod
    def _in(cls, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name in cls._times and isinstance(value, str):
            return datetime.fromisoformat(value)
        if name in cls._tuples:
            return tuple(value)
        if name in cls._nested and isinstance(value, Mapping):
            return cls._nested[name].from_dict(value)
        return value


def _out(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Plain):
        return value.to_dict()
    if type(value) is tuple:
        return [_out(item) for item in value]
    return value
