"""Texts that are not valid Unicode, such as half an emoji from a stream; times as text; roles."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

from clew.errors import UnsupportedTypeError
from clew.model.message import UNUSABLE_ROLES

T = TypeVar("T")
R = TypeVar("R")


async def save_cleaned(save: Callable[[T], Awaitable[R]], value: T) -> R:
    """Return `save(value)`. If it refuses a lone surrogate, save `value` with "?" in its place.

    `value` is searched only then, so valid values cost nothing.
    """
    try:
        return await save(value)
    except UnsupportedTypeError as error:
        if not isinstance(error.__cause__, UnicodeEncodeError):
            raise
        try:
            cleaned = _cleaned(value)
        except RecursionError:
            raise error from error.__cause__
    return await save(cleaned)


def clean(text: str) -> str:
    """Return `text` with lone surrogates replaced by "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def parsed_time(text: Any) -> datetime | None:
    """Return the time in ISO 8601 `text`, by default in UTC; `None` if it is not a time."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _cleaned(value: Any) -> Any:
    """Return a copy of `value` without lone surrogates in its texts, at any depth."""
    kind = type(value)
    if kind is str:
        return clean(value)
    if kind is dict:
        return {_cleaned(key): _cleaned(each) for key, each in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(map(_cleaned, value))
    names = _fields(value)
    if names:
        value = copy.copy(value)
        for name in names:
            # Works for frozen classes. Nobody else has the copy yet.
            object.__setattr__(value, name, _cleaned(getattr(value, name)))
    return value


def _fields(value: Any) -> Iterable[str]:
    """Return the field names of a dataclass or pydantic model; nothing for other values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [each.name for each in dataclasses.fields(value)]
    return list(getattr(type(value), "model_fields", ()))


def recorded_role(role: str) -> str:
    """Return the role to record. A role that the record refuses becomes "unknown", instead of failing the run."""
    return "unknown" if role in UNUSABLE_ROLES else role
