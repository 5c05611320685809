"""The type registry: the only classes that stored data can be loaded as.

Stored data holds names, never code. An unregistered name loads as a `Record`.
"""

from __future__ import annotations

import enum
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import ormsgpack

from clew.codec.classes import Entry, custom_entry, entry_of, is_saveable_class, is_typed_dict
from clew.codec.tags import PLAIN_TYPES
from clew.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Record(Mapping[str, Any]):
    """An object whose class is not registered in this process: the class's name and the fields.

    It is a mapping of the fields. `fields` also has what Clew noted about them, under names that begin
    with a NUL character. Saving it stores exactly what was loaded.
    """

    type_name: str
    fields: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self.type_name == other.type_name and self.fields == other.fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.fields if not (isinstance(name, str) and name.startswith("\0")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(type_name={self.type_name!r}, fields={dict(self)!r})"

    def __hash__(self) -> int:
        # Field values may be unhashable.
        return hash((self.type_name, *sorted(self.fields)))


class Registry:
    """Classes by name. A registry with a `parent` extends it without changing it."""

    def __init__(self, parent: Registry | None = None) -> None:
        self.parent: Final = parent
        self._by_class: dict[type, Entry] = {}
        self._by_name: dict[str, Entry] = {}
        self._by_packed_name: dict[bytes, Entry] = {}

    def register(
        self,
        cls: type[T],
        *,
        name: str | None = None,
        aliases: tuple[str, ...] = (),
        encode: Callable[[T], Any] | None = None,
        decode: Callable[[Any], T] | None = None,
    ) -> type[T]:
        """Allow objects of `cls` to be saved and loaded. Returns `cls`, so
        it also works as a decorator.

        Dataclasses, pydantic models, msgspec structs, attrs classes, named tuples and enums need
        nothing more, and the classes in their annotations are registered too. Other classes need
        `encode` (to plain data) and `decode` (back). Data that was stored without an `encode` is
        passed to `decode` as a dict of its fields. `name` is the stored name, by default that of
        the class. `aliases` are earlier names that can still be read.
        """
        if is_typed_dict(cls):
            return cls
        if (encode is None) is not (decode is None):
            raise ConfigError(f"register({cls.__name__}) needs both encode and decode, or neither")
        label = name or cls.__qualname__.rpartition("<locals>.")[2]
        if encode is not None and decode is not None:
            entry = custom_entry(label, cls, encode, decode)
        else:
            entry = entry_of(label, cls, self.saves)
        for each in (label, *aliases):
            known = self.by_name(each)
            if known is not None and not _same_class(known.cls, cls):
                raise ConfigError(
                    f"the name {each!r} is already registered for {known.cls.__module__}.{known.cls.__qualname__}; "
                    f"register {cls.__module__}.{cls.__qualname__} with another name="
                )
            self._by_name[each] = self._by_packed_name[ormsgpack.packb(each)] = entry
        self._by_class[cls] = entry
        if encode is None:
            for mentioned in _mentioned_classes(cls):
                if self.by_class(mentioned) is None:
                    self.register(mentioned)
        return cls

    def forget(self, cls: type) -> None:
        """Remove a class of this registry with all its names. Parents keep theirs."""
        del self._by_class[cls]
        for name in [name for name, entry in self._by_name.items() if entry.cls is cls]:
            del self._by_name[name], self._by_packed_name[ormsgpack.packb(name)]

    @property
    def own(self) -> Set[type]:
        """The classes of this registry, without those of its parents."""
        return self._by_class.keys()

    def by_class(self, cls: type) -> Entry | None:
        entry = self._by_class.get(cls)
        return entry if entry is not None or self.parent is None else self.parent.by_class(cls)

    def saves(self, cls: type) -> bool:
        """Return whether objects of `cls` can be saved, if their contents can."""
        return cls in PLAIN_TYPES or cls is Record or self.by_class(cls) is not None

    def by_name(self, name: str) -> Entry | None:
        entry = self._by_name.get(name)
        return entry if entry is not None or self.parent is None else self.parent.by_name(name)

    def by_packed_name(self, name: bytes) -> Entry | None:
        """Like `by_name` for a packed name: faster, because each object of a list names its class."""
        entry = self._by_packed_name.get(name)
        return entry if entry is not None or self.parent is None else self.parent.by_packed_name(name)


DEFAULT_REGISTRY = Registry()
register = DEFAULT_REGISTRY.register


def _same_class(one: type, other: type) -> bool:
    # A class is redefined when its module is reloaded or its notebook cell runs again.
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _mentioned_classes(cls: type) -> Iterator[type]:
    """Yield the saveable classes in the annotations of `cls`, also inside `list[…]` and the like."""
    if issubclass(cls, enum.Enum):
        return
    try:
        hints = typing.get_type_hints(cls, vars(sys.modules.get(cls.__module__, typing)))
    except (NameError, TypeError, AttributeError):
        # An annotation can't be resolved here, so the user has to register those classes.
        return
    pending = list(hints.values())
    while pending:
        hint = pending.pop()
        pending.extend(typing.get_args(hint))
        if isinstance(hint, type) and hint is not cls and typing.get_origin(hint) is None and is_saveable_class(hint):
            yield hint
