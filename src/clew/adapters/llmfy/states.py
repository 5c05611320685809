"""States of llmfy with their objects, and the tagged dicts that earlier versions stored instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from clew.codec.registry import DEFAULT_REGISTRY, Record, register
from clew.errors import ConfigError

OBJECTS: Final = "llmfy.objects"
"""Metadata key that marks a state with objects.

Without it, llmfy 0.11 has replaced them by tagged dicts.
"""

_TAG: Final = "__type__"
_DATA: Final = "data"
_DEEP: Final = 100


def allow(cls: type) -> None:
    """Register `cls` unless it is registered."""
    if DEFAULT_REGISTRY.by_class(cls) is None:
        register(cls)


def copied(value: Any, depth: int = 0) -> Any:
    """Copy the containers in `value`, which other branches of the run keep changing."""
    kind = type(value)
    if depth > _DEEP:
        return value
    if kind is dict:
        return {key: copied(each, depth + 1) for key, each in value.items()}
    if kind is list or kind is tuple:
        return kind(copied(each, depth + 1) for each in value)
    return set(value) if kind is set else value


def untagged(value: Any, classes: Mapping[str, type]) -> Any:
    """Replace llmfy's tags in `value` by objects.

    A dict that only resembles a tag is left unchanged.

    Raises ConfigError if a tag names a class that is neither in `classes` nor registered. Nothing
    is imported.
    """
    if isinstance(value, list):
        return [untagged(each, classes) for each in value]
    if not isinstance(value, dict):
        return value
    name, data = value.get(_TAG), value.get(_DATA)
    if value.keys() != {_TAG, _DATA} or not isinstance(name, str) or "." not in name or not isinstance(data, dict):
        return {key: untagged(each, classes) for key, each in value.items()}
    cls = classes.get(name) or _registered(name)
    if cls is None:
        raise _unknown(name)
    validate = getattr(cls, "model_validate", None)
    if validate is not None:
        return validate(data)
    return cls(**{field: untagged(each, classes) for field, each in data.items()})


def check_known(value: Any) -> None:
    """Raise ConfigError if `value` contains an object of a class that is not registered.

    llmfy's own checkpointers refuse such a state, too: a node that expects the class would fail.
    """
    pending = [value]
    while pending:
        each = pending.pop()
        kind = type(each)
        if kind is Record:
            raise _unknown(each.type_name)
        if kind is dict:
            pending.extend(each.values())
        elif kind in (list, tuple):
            pending.extend(each)
        elif dataclasses.is_dataclass(each) or hasattr(kind, "model_fields"):
            pending.extend(vars(each).values() if hasattr(each, "__dict__") else ())


def label(cls: type) -> str:
    """Return the name of a class in llmfy's tags."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _registered(name: str) -> type | None:
    entry = DEFAULT_REGISTRY.by_name(name.rpartition(".")[2])
    return entry.cls if entry is not None and label(entry.cls) == name else None


def _unknown(name: str) -> ConfigError:
    short = name.rpartition(".")[2]
    return ConfigError(
        f"the session contains a {name}, which is not registered in this process: "
        f"ClewCheckpointer(…, types=[{short}]), or clew.register({short})",
        type_name=name,
    )
