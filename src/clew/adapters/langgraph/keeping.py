"""The states that this process saved or loaded last, kept so that loading one again costs a copy and not a decoding.

What is kept is nobody else's: every load gets objects of its own, and nothing that is done to them gets back here. Texts and
numbers are shared, since nobody can change them; everything that can be changed is made anew each time.
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
from clew.codec.packing import Packer
from clew.codec.state import collecting_later
from clew.errors import UnsupportedTypeError

AT_ONCE: Final = 64
"""How many messages are put together at a time: what they need then stays at hand, and a list that grew shares the rest."""
MAX_PARTS: Final = 1000
"""A list in more parts, because it grew so often by what is not a message, is read again from the store."""
MAX_SET: Final = 100
"""A longer list that is saved anew, because it did not only grow, is read again from the store."""
_MESSAGE_BYTES: Final = 1000
"""About what a message takes beside its texts."""

_SLOTS: Final = [
    vars(BaseModel)[name]
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
]
"""All that an object of pydantic's has."""
_SHARED: Final = frozenset({str, int, float, bool, type(None), bytes})
"""The types of what nobody can change."""
_FIELDS: Final[Mapping[type, frozenset[str]]] = {
    cls: frozenset(cls.model_fields)
    for cls in MESSAGES
    if cls.__new__ is object.__new__ and not cls.__private_attributes__ and not cls.__pydantic_post_init__
}
"""Those messages that are their fields and nothing more."""


_kinds: dict[frozenset[str], frozenset[str]] = {}


def one_of_its_kind(names: Iterable[str]) -> frozenset[str]:
    """A set of names, the same one for the same names: of thousands of messages most were given the same few fields."""
    made = frozenset(names)
    return _kinds.setdefault(made, made) if len(_kinds) < 1000 else _kinds.get(made, made)


class Part(Protocol):
    """A value, or some elements of a list."""

    @property
    def weight(self) -> int: ...

    def fresh(self, packer: Packer) -> Any:
        """The value, equal each time, and shared with nobody."""


@dataclass(frozen=True, slots=True)
class Constant:
    """What nobody can change."""

    value: Any

    @property
    def weight(self) -> int:
        return 50 + (len(self.value) if isinstance(self.value, str | bytes) else 0)

    def fresh(self, packer: Packer) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Packed:
    """Anything, as the codec packs it."""

    data: bytes

    @property
    def weight(self) -> int:
        return 50 + len(self.data)

    def fresh(self, packer: Packer) -> Any:
        return packer.unpack(self.data)


@dataclass(frozen=True, slots=True)
class Messages:
    """Some messages, taken apart: what they have in common is done in C, for all of them at once.

    In `fields`, whatever can be changed is left open: an empty dict or list, or something `packed`, goes there.
    """

    classes: list[type]
    fields: list[dict[str, Any]]
    given: list[frozenset[str]]
    """Which of the fields were not left at their defaults."""
    dicts: dict[str, list[int]]
    lists: dict[str, list[int]]
    packed: list[tuple[int, str, bytes]]
    weight: int

    @classmethod
    def of(cls, messages: list[Any], packer: Packer) -> Self | None:
        """`messages` taken apart; `None` if some are no messages, or have more to them than their fields."""
        made = cls([], [], [], {}, {}, [], 0)
        weight = _MESSAGE_BYTES * len(messages)
        for at, message in enumerate(messages):
            known = _FIELDS.get(type(message))
            if known is None or message.__pydantic_extra__ or message.__pydantic_private__:
                return None
            fields, given = message.__dict__.copy(), one_of_its_kind(message.__pydantic_fields_set__)
            if fields.keys() != known or not given <= known:
                return None
            for name, value in fields.items():
                if type(value) is str:
                    weight += len(value)
                elif type(value) not in _SHARED:
                    weight += made._leave_open(at, name, value, packer)
                    fields[name] = None
            made.classes.append(type(message))
            made.fields.append(fields)
            made.given.append(given)
        return replace(made, weight=weight)

    def _leave_open(self, at: int, name: str, value: Any, packer: Packer) -> int:
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
        """These and the others after them, if they are few enough; both stay what they are."""
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
    """A list in several parts: one that grew, or a long one."""

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
    """What is kept of `value`, of which nothing is shared that can be changed."""
    if type(value) in _SHARED:
        return Constant(value)
    if type(value) is not list:
        return Packed(packer.pack(value))
    parts: list[Part] = []
    for first in range(0, len(value) or 1, AT_ONCE):
        taken_apart = Messages.of(value[first : first + AT_ONCE], packer)
        if taken_apart is None:
            return Packed(packer.pack(value))
        parts.append(taken_apart)
    return parts[0] if len(parts) == 1 else Elements(tuple(parts))


def appended(part: Part, elements: Part) -> Part | None:
    """What is kept of a list that `elements` were added to; `None` if that is not worth it."""
    *parts, last = part.parts if isinstance(part, Elements) else (part,)
    joined = last.followed_by(elements) if isinstance(last, Messages) and isinstance(elements, Messages) else None
    if joined is not None:
        return Elements((*parts, joined)) if parts else joined
    parts += [last, *(elements.parts if isinstance(elements, Elements) else (elements,))]
    return Elements(tuple(parts)) if len(parts) <= MAX_PARTS else None


class Kept:
    """The fields of a state."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = parts
        self.weight = sum([len(name) + part.weight for name, part in parts.items()])

    @classmethod
    def of(cls, state: Mapping[str, Any], packer: Packer) -> Kept | None:
        """What is kept of a state that was just loaded; `None` if it holds what can't be packed again."""
        try:
            return cls({name: part_of(value, packer) for name, value in state.items()})
        except UnsupportedTypeError:
            return None

    def with_changes(self, set: Mapping[str, Part], append: Mapping[str, Part], remove: Sequence[str]) -> Kept | None:
        """What is kept of a state that was made out of this one; `None` if that is not worth it."""
        parts = {**{name: part for name, part in self._parts.items() if name not in remove}, **set}
        for name, elements in append.items():
            grown = appended(parts[name], elements)
            if grown is None:
                return None
            parts[name] = grown
        return Kept(parts)

    def fresh(self, packer: Packer) -> dict[str, Any]:
        """The state, as loading it from the store would give it."""
        with collecting_later():
            return {name: part.fresh(packer) for name, part in self._parts.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """What to change in a state, and what is kept of the state that this makes, if it is worth it."""

    set: Mapping[str, Any]
    append: Mapping[str, list[Any]]
    remove: Sequence[str]
    kept: Kept | None


def changed(
    before: Kept | None, set: Mapping[str, Any], append: Mapping[str, list[Any]], remove: Sequence[str], packer: Packer
) -> Change:
    """The change of a state of which `before` is kept.

    If something is kept after it, too, what is to be saved is taken from there: the graph goes on while it is saved, and may
    change its objects.
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
