"""Snapshots of states, which the next load copies instead of decoding the stored state.

Every load gets its own objects, so changing them does not change the snapshot. Only immutable
values, such as texts and numbers, are shared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final, Protocol, Self

from pydantic import BaseModel

from clew.adapters.langgraph.values import MESSAGES
from clew.codec.nodes import ARRAY, header
from clew.codec.packer import Packer
from clew.codec.state import gc_paused
from clew.errors import UnsupportedTypeError

AT_ONCE: Final = 64
"""How many messages one part holds.

Few enough to stay in the CPU cache, and a list that grew shares all parts but the last.
"""
MAX_PARTS: Final = 1000
"""A list that has grown into more parts is not kept; the next load decodes it."""
MAX_SET: Final = 100
"""A longer list that did not just grow is not kept; the next load decodes it."""
_MESSAGE_BYTES: Final = 1000
"""Approximate memory of a message without its texts."""

_SLOTS: Final = [
    vars(BaseModel)[name]
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
]
"""The slots of a pydantic object."""
_SHARED: Final = frozenset({str, int, float, bool, type(None), bytes})
"""Immutable types."""
_FIELDS: Final[Mapping[type, frozenset[str]]] = {
    cls: frozenset(cls.model_fields)
    for cls in MESSAGES
    if cls.__new__ is object.__new__ and not cls.__private_attributes__ and not cls.__pydantic_post_init__
}
"""Message classes whose objects consist of their fields only."""


_interned: dict[frozenset[str], frozenset[str]] = {}


def interned(names: Iterable[str]) -> frozenset[str]:
    """Return a set of names, the same object for equal sets.

    Most messages were given the same few fields.
    """
    made = frozenset(names)
    return _interned.setdefault(made, made) if len(_interned) < 1000 else _interned.get(made, made)


class Part(Protocol):
    """The snapshot of a value, or of some elements of a list."""

    @property
    def weight(self) -> int: ...

    def fresh(self, packer: Packer) -> Any:
        """Return an equal value that shares nothing mutable with the snapshot."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An immutable value."""

    value: Any

    @property
    def weight(self) -> int:
        return 50 + (len(self.value) if isinstance(self.value, str | bytes) else 0)

    def fresh(self, packer: Packer) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Packed:
    """A value that the codec packed."""

    data: bytes

    @property
    def weight(self) -> int:
        return 50 + len(self.data)

    def fresh(self, packer: Packer) -> Any:
        return packer.unpack(self.data)


@dataclass(frozen=True, slots=True)
class Messages:
    """Up to `AT_ONCE` messages in columns, so that most of the work is done in C.

    Mutable values are not in `fields`. Empty dicts and lists are listed by place in `dicts` and
    `lists`; the others are `packed`.
    """

    classes: list[type]
    fields: list[dict[str, Any]]
    given: list[frozenset[str]]
    """The fields that were set explicitly."""
    dicts: dict[str, list[int]]
    lists: dict[str, list[int]]
    packed: list[tuple[int, str, bytes]]
    weight: int

    @classmethod
    def of(cls, messages: list[Any], packer: Packer) -> Self | None:
        """Return `messages` in columns; `None` if one is not a message or has more than its fields."""
        made = cls([], [], [], {}, {}, [], 0)
        weight = _MESSAGE_BYTES * len(messages)
        for at, message in enumerate(messages):
            known = _FIELDS.get(type(message))
            if known is None or message.__pydantic_extra__ or message.__pydantic_private__:
                return None
            fields, given = message.__dict__.copy(), interned(message.__pydantic_fields_set__)
            if fields.keys() != known or not given <= known:
                return None
            for name, value in fields.items():
                if type(value) is str:
                    weight += len(value)
                elif type(value) not in _SHARED:
                    weight += made._set_aside(at, name, value, packer)
                    fields[name] = None
            made.classes.append(type(message))
            made.fields.append(fields)
            made.given.append(given)
        return replace(made, weight=weight)

    def _set_aside(self, at: int, name: str, value: Any, packer: Packer) -> int:
        if not value and type(value) is dict:
            self.dicts.setdefault(name, []).append(at)
        elif not value and type(value) is list:
            self.lists.setdefault(name, []).append(at)
        else:
            data = packer.pack(value)
            self.packed.append((at, name, data))
            return len(data)
        return 0

    def followed_by(self, other: Messages) -> Messages | None:
        """Return these messages followed by the others; `None` if they are too many for one part."""
        base = len(self.classes)
        if base + len(other.classes) > AT_ONCE:
            return None
        return Messages(
            self.classes + other.classes,
            self.fields + other.fields,
            self.given + other.given,
            _moved_and_joined(self.dicts, other.dicts, base),
            _moved_and_joined(self.lists, other.lists, base),
            self.packed + [(base + at, name, data) for at, name, data in other.packed],
            self.weight + other.weight,
        )

    def fresh(self, packer: Packer) -> list[Any]:
        fields = list(map(dict.copy, self.fields))
        for name, places in self.dicts.items():
            for at in places:
                fields[at][name] = {}
        for name, places in self.lists.items():
            for at in places:
                fields[at][name] = []
        together = header(ARRAY, len(self.packed)) + b"".join([data for _, _, data in self.packed])
        for (at, name, _), value in zip(self.packed, packer.unpack(together), strict=True):
            fields[at][name] = value
        messages: list[Any] = list(map(object.__new__, self.classes))
        contents: tuple[Iterable[Any], ...] = (fields, map(set, self.given), [{} for _ in messages], repeat(None))
        for slot, content in zip(_SLOTS, contents, strict=True):
            deque(map(slot.__set__, messages, content), maxlen=0)
        return messages


def _moved_and_joined(one: dict[str, list[int]], other: dict[str, list[int]], base: int) -> dict[str, list[int]]:
    return one | {name: one.get(name, []) + [base + at for at in places] for name, places in other.items()}


@dataclass(frozen=True, slots=True)
class Elements:
    """A list in several parts, because it grew or is long."""

    parts: tuple[Part, ...]

    @property
    def weight(self) -> int:
        return sum([part.weight for part in self.parts])

    def fresh(self, packer: Packer) -> list[Any]:
        whole: list[Any] = []
        for part in self.parts:
            whole += part.fresh(packer)
        return whole


def part_of(value: Any, packer: Packer) -> Part:
    """Return the snapshot of `value`. It shares nothing mutable with it."""
    if type(value) in _SHARED:
        return Constant(value)
    if type(value) is not list:
        return Packed(packer.pack(value))
    parts: list[Part] = []
    for first in range(0, len(value) or 1, AT_ONCE):
        messages = Messages.of(value[first : first + AT_ONCE], packer)
        if messages is None:
            return Packed(packer.pack(value))
        parts.append(messages)
    return parts[0] if len(parts) == 1 else Elements(tuple(parts))


def appended(part: Part, elements: Part) -> Part | None:
    """Return the snapshot of a list after it grew; `None` if it has too many parts."""
    *parts, last = part.parts if isinstance(part, Elements) else (part,)
    joined = last.followed_by(elements) if isinstance(last, Messages) and isinstance(elements, Messages) else None
    if joined is not None:
        return Elements((*parts, joined)) if parts else joined
    parts += [last, *(elements.parts if isinstance(elements, Elements) else (elements,))]
    return Elements(tuple(parts)) if len(parts) <= MAX_PARTS else None


class Snapshot:
    """The snapshot of a state, field by field."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = parts
        self.weight = sum([len(name) + part.weight for name, part in parts.items()])

    @classmethod
    def of(cls, state: Mapping[str, Any], packer: Packer) -> Snapshot | None:
        """Return the snapshot of a loaded state; `None` if some of it can't be packed."""
        try:
            return cls({name: part_of(value, packer) for name, value in state.items()})
        except UnsupportedTypeError:
            return None

    def with_changes(
        self, set: Mapping[str, Part], append: Mapping[str, Part], remove: Sequence[str]
    ) -> Snapshot | None:
        """Return the snapshot after these changes; `None` if a list has too many parts."""
        parts = {**{name: part for name, part in self._parts.items() if name not in remove}, **set}
        for name, elements in append.items():
            grown = appended(parts[name], elements)
            if grown is None:
                return None
            parts[name] = grown
        return Snapshot(parts)

    def fresh(self, packer: Packer) -> dict[str, Any]:
        """Return the state as a load from the store would."""
        with gc_paused():
            return {name: part.fresh(packer) for name, part in self._parts.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """Changes of a state, and the snapshot of the new state if there is one."""

    set: Mapping[str, Any]
    append: Mapping[str, list[Any]]
    remove: Sequence[str]
    snapshot: Snapshot | None


def changed(
    before: Snapshot | None,
    set: Mapping[str, Any],
    append: Mapping[str, list[Any]],
    remove: Sequence[str],
    packer: Packer,
) -> Change:
    """Return the change of the state that `before` is a snapshot of.

    If there is a new snapshot, the values to save are copies from it, because the graph may change
    its objects during the save.
    """
    if before is None or any(type(value) is list and len(value) > MAX_SET for value in set.values()):
        return Change(set, append, remove, None)
    set_parts = {name: part_of(value, packer) for name, value in set.items()}
    append_parts = {name: part_of(value, packer) for name, value in append.items()}
    return Change(
        {name: part.fresh(packer) for name, part in set_parts.items()},
        {name: part.fresh(packer) for name, part in append_parts.items()},
        remove,
        before.with_changes(set_parts, append_parts, remove),
    )
