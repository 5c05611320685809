"""States of llmfy: its objects and the user's, as they are, and as earlier versions of the adapter stored them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from clew.codec.registry import DEFAULT_REGISTRY, Record, register
from clew.errors import ConfigError

OBJECTS: Final = "llmfy.objects"
"""In a checkpoint's metadata: its state holds objects. Without it, llmfy 0.11 has put tagged dicts in their place."""

_TAG: Final = "__type__"
_DATA: Final = "data"
_DEEP: Final = 100


def allow(cls: type) -> None:
    """Let objects of `cls` be saved and loaded, unless they can be already."""
    if DEFAULT_REGISTRY.by_class(cls) is None:
        register(cls)


def copied(value: Any, depth: int = 0) -> Any:
    """`value` with the dicts, lists, tuples and sets in it copied: other branches of a run go on changing theirs."""
    kind = type(value)
    if depth > _DEEP:
        return value
    if kind is dict:
        return {key: copied(each, depth + 1) for key, each in value.items()}
    if kind is list or kind is tuple:
        return kind(copied(each, depth + 1) for each in value)
    return set(value) if kind is set else value


def untagged(value: Any, classes: Mapping[str, type]) -> Any:
    """`value` with the objects that llmfy's tags stand for. A dict that only looks like a tag stays as it is.

    Raises ConfigError if a tag names a class that is not among `classes` or registered: nothing is imported.
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
    """Raise ConfigError if `value` holds an object of a class that this process has not registered.

    llmfy's own checkpointers refuse such a state as well: a node that expects the class would fail on anything else.
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
    """The name that llmfy's tags have for a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _registered(name: str) -> type | None:
    entry = DEFAULT_REGISTRY.by_name(name.rpartition(".")[2])
    return entry.cls if entry is not None and label(entry.cls) == name else None


def _unknown(name: str) -> ConfigError:
    short = name.rpartition(".")[2]
    return ConfigError(
        f"the session holds a {name}, which is not registered in this process: "
        f"ClewCheckpointer(…, types=[{short}]), or clew.register({short})",
        type_name=name,
    )
