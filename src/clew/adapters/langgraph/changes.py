"""Changes of a checkpoint since its parent. Only these are serialized and stored.

LangGraph names the channels that have a new version. Most lists among them have only grown. To
prove it, the whole list is dumped with the fields of its objects and compared with the last dump;
objects that were changed in place differ there. Dumping happens in C and takes a tenth of the time
of serializing. LangChain's messages are dumped as a list of their fields, in one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import ormsgpack

from clew.adapters.fingerprint import new_places
from clew.adapters.langgraph.snapshots import Snapshot, interned
from clew.adapters.langgraph.values import MESSAGES
from clew.bounded import BoundedMap
from clew.codec.chunks import NO_ITEMS, Chunks, packed_list
from clew.model.checkpoint import Checkpoint

MAX_BYTES: Final = 64 << 20
"""Memory for the dumps and snapshots of all threads. The least recently used are evicted first."""

_OPTIONS: Final = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_TUPLE, _OBJECT = 1, 2
_DICT, _EXTRA, _GIVEN = map(attrgetter, ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__"))


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump of a list: two dumps differ if the stored lists would differ.

    For messages: their classes, their fields (`packed`, a list of maps) and the names of the fields
    that were `given`. For anything else, `packed` holds everything.
    """

    packed: Chunks
    classes: tuple[type, ...] = ()
    given: tuple[frozenset[str], ...] = ()

    @property
    def count(self) -> int:
        return self.packed.count

    def begins_with(self, other: Dump) -> bool:
        """Return whether this list begins with the elements of `other`."""
        if not other.count:
            return True
        return (
            bool(self.classes) == bool(other.classes)
            and self.classes[: len(other.classes)] == other.classes
            and self.given[: len(other.given)] == other.given
            and self.packed.added_to(other.packed, other.packed.start, other.count) is not None
        )

    def elements(self) -> list[Any]:
        """Return one value for each element. Two values differ if the elements differ."""
        items = self.packed.items()
        return list(zip(items, self.classes, self.given, strict=True)) if self.classes else [*items]

    @property
    def weight(self) -> int:
        return len(self.packed) + 100 * len(self.given)


_NOTHING: Final = Dump(NO_ITEMS)


def dump(value: list[Any], before: Dump = _NOTHING) -> Dump | None:
    """Return the dump of a list; `None` if it can't be dumped cheaply.

    It shares memory with the dump `before`.
    """
    classes = tuple(map(type, value))
    try:
        if value and MESSAGES.issuperset(classes) and not any(map(_EXTRA, value)):
            packed = packed_list(list(map(_DICT, value)), _packed, before.packed.parts)
            return Dump(packed, classes, _frozen(list(map(_GIVEN, value)), before.given))
        return Dump(packed_list(value, _packed, before.packed.parts))
    except (TypeError, RecursionError):
        return None


def _packed(value: list[Any]) -> bytes:
    return ormsgpack.packb(value, _fields, _OPTIONS)


def _frozen(given: list[set[str]], before: tuple[frozenset[str], ...]) -> tuple[frozenset[str], ...]:
    """Freeze the sets in `given`, reusing those of `before` that are equal."""
    if tuple(given[: len(before)]) != before:
        before = ()
    return before + tuple(map(interned, given[len(before) :]))


def _fields(obj: Any) -> ormsgpack.Ext:
    cls = type(obj)
    if cls is tuple:
        return ormsgpack.Ext(_TUPLE, _packed(list(obj)))
    if hasattr(cls, "__pydantic_fields__"):
        content = [cls.__module__, cls.__qualname__, obj.__dict__, obj.__pydantic_extra__]
    elif dataclasses.is_dataclass(cls) and hasattr(obj, "__dict__"):
        content = [cls.__module__, cls.__qualname__, obj.__dict__]
    else:
        raise TypeError
    return ormsgpack.Ext(_OBJECT, _packed(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A checkpoint that this process saved or loaded, with dumps of its lists.

    `doubtful`: at the next save, a list did not begin with its dump. Usually it was edited. But
    some objects are also dumped differently after they were stored and loaded, so the next load
    dumps them again.
    """

    checkpoint_id: str
    channels: frozenset[str]
    dumps: Mapping[str, Dump]
    saved: Checkpoint
    snapshot: Snapshot | None
    doubtful: bool = False

    @property
    def weight(self) -> int:
        snapshot = self.snapshot.weight if self.snapshot is not None else 0
        return 500 + snapshot + sum([dump.weight for dump in self.dumps.values()])


@dataclass(slots=True, kw_only=True)
class Changes:
    """The difference between a checkpoint's channels and its parent's."""

    set: dict[str, Any] = field(default_factory=dict)
    append: dict[str, list[Any]] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    """For each list that grew: how many elements it had before."""
    dumps: dict[str, Dump] = field(default_factory=dict)
    surprising: bool = False
    """Whether a list changed in another way than growing at its end."""


def changes(
    parent: Known | None, values: Mapping[str, Any], new_versions: Collection[str], store: Callable[[Any, str], Any]
) -> Changes:
    """Return how `values` differ from `parent`. `store` converts a value to its stored form."""
    found = Changes(remove=[name for name in parent.channels if name not in values] if parent else [])
    for name, value in values.items():
        before = parent.dumps.get(name) if parent else None
        if parent and name in parent.channels and name not in new_versions:
            if before is not None:
                found.dumps[name] = before
            continue
        now = dump(value, before or _NOTHING) if type(value) is list else None
        if now is not None:
            found.dumps[name] = now
        if now is None or before is None or not now.begins_with(before):
            found.surprising = found.surprising or (before is not None and now is not None)
            found.set[name] = store(value, name)
        elif before.count < now.count:
            found.append[name] = store(value[before.count :], name)
            found.kept[name] = before.count
    return found


def added_places(parent: Known | None, found: Changes, name: str, value: list[Any]) -> list[int] | None:
    """Return the places of the elements that the parent's list lacks; `None` if memory can't tell."""
    if name not in found.set and name not in found.append:
        return []
    if kept := found.kept.get(name):
        return list(range(kept, len(value)))
    if parent is None or name not in found.dumps:
        return None
    before = parent.dumps.get(name)
    if before is None:
        return list(range(len(value))) if name not in parent.channels else None
    return new_places(before.elements(), found.dumps[name].elements())


class Memory:
    """LRU cache of the last checkpoint of each thread and namespace, bounded in bytes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._known: BoundedMap[tuple[str, str], Known] = BoundedMap(max_weight=max_bytes)

    def get(self, key: tuple[str, str], checkpoint_id: str | None) -> Known | None:
        """Return the last checkpoint of the namespace if it is `checkpoint_id`."""
        known = self.last(key)
        return known if known is not None and known.checkpoint_id == checkpoint_id else None

    def last(self, key: tuple[str, str]) -> Known | None:
        """Return the checkpoint that this process saved or loaded last, the head or not."""
        return self._known.get(key)

    def put(self, key: tuple[str, str], known: Known) -> None:
        self._known.put(key, known, known.weight)

    def __len__(self) -> int:
        return len(self._known)
