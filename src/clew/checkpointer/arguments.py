"""Checks of arguments that users pass: each returns the value, or raises ConfigError."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

from clew.errors import ConfigError, shown
from clew.model.config import checked_text
from clew.model.message import folded
from clew.model.retention import RetentionPolicy
from clew.validation import checked_number

MAX_LIMIT: Final = (1 << 31) - 1
"""Fits into the integers of every storage."""


def checked_limit(limit: int | None, name: str = "limit") -> int | None:
    """A count, or `None` for no limit."""
    return None if limit is None else checked_number(name, limit, "whole number", at_least=0, at_most=MAX_LIMIT)


def checked_search(search: str | None) -> str | None:
    """The text to search for, folded; `None` to find everything."""
    if search is not None and not isinstance(search, str):
        raise ConfigError(f"search must be text, not {type(search).__name__}")
    return folded(search) if search else None


def keyed_id(idempotency_key: str | None, *place: str) -> str | None:
    """The commit id for this idempotency key at `place`: the same for each repetition; `None` without a key."""
    if idempotency_key is None:
        return None
    parts = (*place, checked_text("idempotency_key", idempotency_key))
    sizes = (f"{len(part)}:{part}" for part in parts)
    return blake2b("".join(sizes).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def checked_policy(policy: RetentionPolicy | None, name: str) -> RetentionPolicy | None:
    if policy is not None and not isinstance(policy, RetentionPolicy):
        raise ConfigError(f"{name} must be a clew.RetentionPolicy, not {type(policy).__name__}")
    return policy


def checked_mapping(value: Mapping[str, Any] | None, name: str, of: str = "") -> dict[str, Any]:
    if value is None:
        return {}
    if type(value) is not dict and not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a mapping{of}, not {type(value).__name__}")
    return dict(value)


def checked_names(names: Iterable[str] | str, name: str) -> list[str]:
    """Names of fields. A single name may be passed without a list."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise ConfigError(f"{name} must be a list of names of fields, not {type(names).__name__}")
    listed = list(names)
    for at, each in enumerate(listed):
        if not isinstance(each, str):
            raise ConfigError(f"{name}[{at}] must be a field's name, not {type(each).__name__}: {shown(each)}")
    return listed


def checked_ids(ids: Iterable[str], name: str) -> tuple[str, ...]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise ConfigError(f"{name} must be a list of ids, not one {type(ids).__name__}")
    return tuple([checked_text(f"{name}[{at}]", each) for at, each in enumerate(ids)])


def checked_items(items: Iterable[Any], name: str) -> list[Any]:
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise ConfigError(f"{name} must be a list of items to append, not one {type(items).__name__}")
    return list(items)


def checked_node_name(node_name: str | None) -> str | None:
    if node_name is not None and not isinstance(node_name, str):
        raise ConfigError(f"node_name must be str or None, not {type(node_name).__name__}: {shown(node_name)}")
    return checked_text("node_name", node_name) if node_name else node_name


def checked_step(step: int | None) -> int | None:
    if step is not None and (not isinstance(step, int) or isinstance(step, bool)):
        raise ConfigError(f"step must be int or None, not {type(step).__name__}: {shown(step)}")
    if step is not None and not -(1 << 63) <= step < 1 << 63:
        raise ConfigError(f"step must fit into 64 bits; got {shown(step)}")
    return step
