"""The undo log of a commit, so that an interrupted one leaves nothing behind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from dataclasses import fields
from functools import cache, partial
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
_ABSENT: Final = object()
"""In place of a value: the key was absent."""


class Undo:
    """Changes containers in place, and records before each change how to undo it.

    An interrupt (Ctrl-C) may come at any line, also during `undo`. So each step is idempotent.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object] | tuple[MutableMapping[Any, Any], Any, Any]] = []
        """In place of a function, a mapping, a key, and the value that it had: commits make many of these."""

    def keep(self) -> None:
        """Make the changes permanent."""
        self._steps = []

    def undo(self) -> None:
        """Undo the changes since the last `keep`."""
        while self._steps:
            step = self._steps[-1]
            if isinstance(step, tuple):
                _restore(*step)
            else:
                step()
            del self._steps[-1]

    def fields(self, record: object) -> None:
        """Save the fields of a dataclass's `record`, which may then be assigned to."""
        kind: object = type(record)
        names, values = _fields(kind)
        self._steps.append(partial(_assign, record, names, values(record)))

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """`mapping[key] = value`"""
        self._steps.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def take(self, mapping: MutableMapping[K, Any], key: K) -> None:
        """`mapping.pop(key, None)`. Undoing appends the key at the end."""
        if key in mapping:
            self._steps.append((mapping, key, mapping[key]))
            del mapping[key]

    def take_first(self, mapping: OrderedDict[K, Any]) -> None:
        """`mapping.popitem(last=False)`"""
        key = next(iter(mapping))
        self._steps.append(partial(_put_first, mapping, key, mapping[key]))
        del mapping[key]

    def append(self, items: list[T], item: T) -> None:
        """`items.append(item)`"""
        self._steps.append(partial(_shorten, items, len(items)))
        items.append(item)

    def add(self, items: set[T], item: T) -> None:
        """`items.add(item)`"""
        if item not in items:
            self._steps.append(partial(items.discard, item))
            items.add(item)

    def discard(self, items: set[T], item: T) -> None:
        """`items.discard(item)`"""
        if item in items:
            self._steps.append(partial(items.add, item))
            items.discard(item)


@cache
def _fields(cls: Any) -> tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """The names of a class's fields, and a function that reads all of them, in a tenth of attrgetter's time."""
    names = tuple(each.name for each in fields(cls))
    return names, eval(f"lambda record: ({', '.join(f'record.{name}' for name in names)},)")


def _assign(record: object, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(record, name, value)


def _restore(mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    if value is _ABSENT:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _put_first(mapping: OrderedDict[K, V], key: K, value: V) -> None:
    mapping[key] = value
    mapping.move_to_end(key, last=False)


def _shorten(items: list[Any], length: int) -> None:
    del items[length:]
