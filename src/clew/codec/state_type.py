"""The class of a checkpointer's states (`state_type=`): plain dicts are loaded as this class, and states that
could not be loaded as it are not saved."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec

from clew.codec.classes import fields_of, is_typed_dict, needed_of
from clew.codec.registry import Record
from clew.codec.tags import PLAIN_TYPES
from clew.errors import ConfigError


def loader_of(cls: type) -> Callable[[Any], Any] | None:
    """Return a function that converts a state to an object of `cls`; `None` if no conversion is needed.

    The function converts dicts, and raises ConfigError for any other state that is not an object of `cls`.
    """
    origin: Any = typing.get_origin(cls) or cls
    if is_typed_dict(origin):
        return _loader_of_dicts(origin)
    fields = None if origin in PLAIN_TYPES else fields_of(origin)

    def load(state: Any) -> Any:
        if isinstance(state, origin) or state is None:
            return state
        # A Record is a mapping, too, but an object of a class other than `cls`: `cls` is registered.
        if isinstance(state, Record) or not isinstance(state, Mapping) or fields is None:
            raise _another_type(state, origin)
        return _converted(dict(state), origin, fields)

    return load


def _loader_of_dicts(cls: type) -> Callable[[Any], Any]:
    """Return a function that raises ConfigError if a state can't be a dict of the TypedDict `cls`."""

    def load(state: Any) -> Any:
        if state is not None and (isinstance(state, Record) or not isinstance(state, Mapping)):
            raise _another_type(state, cls)
        return state

    return load


def _another_type(state: Any, cls: type) -> ConfigError:
    found = (
        f"an object of the class {state.type_name}" if isinstance(state, Record) else f"of type {type(state).__name__}"
    )
    return ConfigError(
        f"the state is {found}, not {cls.__name__}, which is the checkpointer's state_type; use a checkpointer "
        f"without state_type for it"
    )


def fields_check_of(cls: type) -> Callable[[Collection[Any]], None] | None:
    """Return a function that raises ConfigError if a dict with these fields could not be loaded as `cls`; `None` if any
    dict can be."""
    origin: Any = typing.get_origin(cls) or cls
    if is_typed_dict(origin):
        # Keys may be missing: states are often built key by key, and earlier ones lack new keys.
        return None if _takes_more_keys(origin) else partial(_check_known, cls=origin, fields=_keys_of(origin))
    if origin in PLAIN_TYPES or (fields := fields_of(origin)) is None:
        return None
    # msgspec also wants the fields that a dataclass or an attrs class sets itself.
    sets_own = dataclasses.is_dataclass(origin) or hasattr(origin, "__attrs_attrs__")
    needed = {name for name in fields if fields[name] is None} if sets_own else needed_of(origin)

    def check(names: Collection[Any]) -> None:
        _check_known(names, origin, fields)
        given = {*names, *_named_by_alias(names, origin)}
        if missing := [name for name in fields if name in needed and name not in given]:
            raise ConfigError(
                f"the state would be a dict without the field {missing[0]!r}, which {origin.__name__}, the checkpointer's "
                f"state_type, needs; set it, too"
            )

    return check


def _keys_of(cls: Any) -> Collection[str]:
    return frozenset(cls.__required_keys__ | cls.__optional_keys__)


def _takes_more_keys(cls: Any) -> bool:
    """Return whether a TypedDict allows keys that it does not name (`extra_items` of PEP 728)."""
    extra = getattr(cls, "__extra_items__", None)
    return extra is not None and "NoExtraItems" not in repr(extra)


def _named_by_alias(names: Collection[Any], cls: Any) -> set[str]:
    """Return the fields of a pydantic model that `names` may set by an alias."""
    found = set[str]()
    for name, field in getattr(cls, "model_fields", {}).items():
        alias = getattr(field, "validation_alias", None) or getattr(field, "alias", None)
        # A path or a choice of aliases is left to pydantic.
        if alias is not None and (alias in names or not isinstance(alias, str)):
            found.add(name)
    return found


def _check_known(names: Collection[Any], cls: Any, fields: Collection[str]) -> None:
    known = set(fields)
    if hasattr(cls, "model_validate"):
        known |= {each.alias for each in cls.model_fields.values() if each.alias}
        known |= set(names) if cls.model_config.get("extra") == "allow" else set()
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"the state is a dict with the field {unknown[0]!r}, which {cls.__name__}, the checkpointer's state_type, "
            f"does not have; add it there, or use a checkpointer without state_type"
        )


def _converted(state: dict[Any, Any], cls: Any, fields: dict[str, Any]) -> Any:
    """Return a new object with the fields of `state`. Nothing may be lost or left out."""
    _check_known(state, cls, fields)
    model = getattr(cls, "model_validate", None)
    try:
        if model is not None:
            return model(state)
        # Named tuples are sequences to msgspec.
        data: Any = [*map({**cls._field_defaults, **state}.__getitem__, fields)] if issubclass(cls, tuple) else state
        return msgspec.convert(data, cls, from_attributes=True, dec_hook=_as_it_is)
    except (ValueError, TypeError, KeyError, NameError, NotImplementedError) as error:
        # Errors of validation are ValueErrors. A NameError is an annotation that can't be resolved. msgspec does not
        # implement all defaults of attrs.
        raise ConfigError(
            f"the state is a dict that does not fit {cls.__name__}, the checkpointer's state_type: {error}"
        ) from error


def _as_it_is(cls: Any, value: Any) -> Any:
    """Accept a value of a class that msgspec does not know."""
    if isinstance(value, typing.get_origin(cls) or cls):
        return value
    raise NotImplementedError
