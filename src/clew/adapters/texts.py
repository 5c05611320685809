"""Texts that are not valid Unicode: half an emoji of a stream that was cut ends no run of an agent."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from clew.errors import UnsupportedTypeError

T = TypeVar("T")
R = TypeVar("R")


async def save_cleaned(save: Callable[[T], Awaitable[R]], value: T) -> R:
    """What `save(value)` gives. If that refuses a lone surrogate, `value` is saved with "?" in its place.

    Only then is it looked through, so a value that is fine costs nothing.
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
    """`text` with "?" in the place of each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _cleaned(value: Any) -> Any:
    """A copy of `value` without lone surrogates in its texts, at any depth."""
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
            # Also of one that is frozen: the copy is nobody else's yet.
            object.__setattr__(value, name, _cleaned(getattr(value, name)))
    return value


def _fields(value: Any) -> Iterable[str]:
    """The names of the fields of a dataclass or pydantic model; of anything else, none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [each.name for each in dataclasses.fields(value)]
    return list(getattr(type(value), "model_fields", ()))
