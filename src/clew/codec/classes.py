"""How objects of each kind of class are taken apart into fields and put together again."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from clew.errors import ConfigError

T = TypeVar("T")
Fields = dict[str, Any]

_UNSET_FIELDS = "\0unset"
"""Where a pydantic model's record keeps the names of the fields that were left at their defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How objects of one class are taken apart and put together."""

    name: str
    cls: type
    take_apart: Callable[[Any], Fields]
    put_together: Callable[[Fields], Any]
    has_fields: bool
    """Whether what it is taken apart into are fields that an edit may set."""
    only_fields: frozenset[str] | None = None
    """The only ones that an object can have, if that is known."""


def entry_of(name: str, cls: type) -> Entry:
    if issubclass(cls, enum.Enum):
        return _enum_entry(name, cls)
    fields = fields_of(cls)
    if fields is None:
        raise ConfigError(
            f"{cls.__qualname__} is not a dataclass, pydantic model, msgspec struct, attrs class, named tuple or enum: "
            f"register it with encode= (to plain data) and decode= (back)"
        )
    if hasattr(cls, "model_construct"):
        return _pydantic_entry(name, cls)
    names = tuple(fields)

    def take_apart(obj: Any) -> Fields:
        return {field: getattr(obj, field) for field in names if hasattr(obj, field)}

    if hasattr(cls, "__struct_fields__") or issubclass(cls, tuple):

        def put_together(values: Fields) -> Any:
            return cls(**{field: value for field, value in values.items() if field in fields})

    else:

        def put_together(values: Fields) -> Any:
            # Not through __init__: what comes back is what went in, not what a constructor makes of it.
            obj = object.__new__(cls)
            for field, default in fields.items():
                if field in values:
                    object.__setattr__(obj, field, values[field])
                elif default is not None:
                    object.__setattr__(obj, field, default())
            return obj

    return Entry(
        name=name,
        cls=cls,
        take_apart=take_apart,
        put_together=put_together,
        has_fields=True,
        only_fields=frozenset(names),
    )


def _pydantic_entry(name: str, cls: Any) -> Entry:
    def take_apart(obj: Any) -> Fields:
        values = {**obj.__dict__, **(obj.__pydantic_extra__ or {})}
        unset = sorted(set(values) - obj.__pydantic_fields_set__ - set(obj.__pydantic_extra__ or {}))
        return {**values, _UNSET_FIELDS: unset} if unset else values

    fields = frozenset(cls.model_fields)
    keeps_extra = cls.model_config.get("extra") == "allow"
    # What a model does beyond having fields is done by model_construct, which takes three times as long.
    plain = not cls.__private_attributes__ and not cls.__pydantic_post_init__ and not cls.__pydantic_root_model__

    def put_together(values: Fields) -> Any:
        unset = values.pop(_UNSET_FIELDS, ())
        if not plain or not fields <= values.keys():
            return cls.model_construct(_fields_set=values.keys() - unset, **values)
        given, extra = values.keys() - unset, {}
        if len(values) > len(fields):
            extra = {field: value for field, value in values.items() if field not in fields}
            values = {field: value for field, value in values.items() if field in fields}
        obj = cls.__new__(cls)
        object.__setattr__(obj, "__dict__", values)
        object.__setattr__(obj, "__pydantic_fields_set__", given)
        object.__setattr__(obj, "__pydantic_extra__", extra if keeps_extra else None)
        object.__setattr__(obj, "__pydantic_private__", None)
        return obj

    return Entry(name=name, cls=cls, take_apart=take_apart, put_together=put_together, has_fields=True)


def _enum_entry(name: str, cls: type[enum.Enum]) -> Entry:
    def take_apart(member: enum.Enum) -> Fields:
        # Only a combination of flags has no name of its own, or one that can't be looked up.
        return {"name": member.name} if member.name in cls.__members__ else {"value": member.value}

    def put_together(values: Fields) -> Any:
        return cls[values["name"]] if "name" in values else cls(values["value"])

    return Entry(name=name, cls=cls, take_apart=take_apart, put_together=put_together, has_fields=False)


def custom_entry(name: str, cls: type[T], encode: Callable[[T], Any], decode: Callable[[Any], T]) -> Entry:
    return Entry(
        name=name,
        cls=cls,
        take_apart=lambda obj: {"value": encode(obj)},
        put_together=lambda values: decode(values["value"]),
        has_fields=False,
    )


def fields_of(cls: type) -> dict[str, Callable[[], Any] | None] | None:
    """The fields of `cls` with what makes their default, if it is a class with declared fields."""
    if dataclasses.is_dataclass(cls):
        return {field.name: _dataclass_default(field) for field in dataclasses.fields(cls)}
    if isinstance(fields := getattr(cls, "model_fields", None), dict):
        return dict.fromkeys(fields)
    if isinstance(names := getattr(cls, "__struct_fields__", None), tuple):
        return dict.fromkeys(names)
    if (attributes := getattr(cls, "__attrs_attrs__", None)) is not None:
        return {attribute.name: _attrs_default(attribute) for attribute in attributes}
    if issubclass(cls, tuple) and isinstance(names := getattr(cls, "_fields", None), tuple):
        return dict.fromkeys(names)
    return None


def _dataclass_default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else lambda: field.default


def _attrs_default(attribute: Any) -> Callable[[], Any] | None:
    default = attribute.default
    if type(default).__name__ == "Factory":
        return None if default.takes_self else typing.cast(Callable[[], Any], default.factory)
    return None if repr(default) == "NOTHING" else lambda: default


def is_saveable_class(cls: type) -> bool:
    """Whether `cls` is of a kind that `register` takes apart by itself."""
    return fields_of(cls) is not None or issubclass(cls, enum.Enum)
