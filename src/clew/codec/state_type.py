"""The class of a checkpointer's states (`state_type=`): plain dicts are loaded as this class, and what could not be
loaded is not saved."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.codec.classes import fields_of
from clew.codec.tags import PLAIN_TYPES
from clew.errors import ConfigError


def loader_of(cls: type) -> Callable[[Any], Any] | None:
    """Return a function that returns a state as an object of `cls`; `None` if it is one anyway.

    The function converts dicts, and raises ConfigError for a state that is not and can't become one.
    """
    if typing.is_typeddict(cls):
        return None
    origin: Any = typing.get_origin(cls) or cls
    fields = None if origin in PLAIN_TYPES else fields_of(origin)

    def load(state: Any) -> Any:
        if isinstance(state, origin) or state is None:
            return state
        if not isinstance(state, Mapping) or fields is None:
            raise ConfigError(
                f"the state is of type {type(state).__name__}, not {origin.__name__}, which is the checkpointer's "
                f"state_type; use a checkpointer without state_type for it"
            )
        return _converted(dict(state), origin, fields)

    return load


def _converted(state: dict[Any, Any], cls: Any, fields: dict[str, Any]) -> Any:
    """Return a new object with the fields of `state`. Nothing may be lost or left out."""
    model = getattr(cls, "model_validate", None)
    known = set(fields)
    if model is not None:
        known |= {each.alias for each in cls.model_fields.values() if each.alias}
        known |= set(state) if cls.model_config.get("extra") == "allow" else set()
    if unknown := [name for name in state if name not in known]:
        raise ConfigError(
            f"the state is a dict with the field {unknown[0]!r}, which {cls.__name__}, the checkpointer's state_type, "
            f"does not have; add it there, or use a checkpointer without state_type"
        )
    try:
        if model is not None:
            return model(state)
        # Named tuples are sequences to msgspec.
        data: Any = [state[name] for name in fields] if issubclass(cls, tuple) else state
        return msgspec.convert(data, cls, from_attributes=True, dec_hook=_as_it_is)
    except (ValueError, TypeError, KeyError, NameError) as error:
        # Errors of validation are ValueErrors. A NameError is an annotation that can't be resolved.
        raise ConfigError(
            f"the state is a dict that does not fit {cls.__name__}, the checkpointer's state_type: {error}"
        ) from error


def _as_it_is(cls: Any, value: Any) -> Any:
    """Accept a value of a class that msgspec does not know."""
    if isinstance(value, typing.get_origin(cls) or cls):
        return value
    raise NotImplementedError
