"""What changed in a checkpoint since its parent, so that the rest is neither serialized nor stored again.

LangGraph names the channels that have a new version. Of those that are lists, most have only grown, and that is proved, not
believed: the whole list is dumped with the fields of its objects, in C and a tenth of the time that serializing it takes, and
compared with the last dump. Objects that were changed in place differ there.

A list of LangChain's messages is dumped as a list of their fields, with one call into C for all of them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import ormsgpack

from clew.adapters.fingerprint import unsaid
from clew.adapters.langgraph.keeping import Kept, one_of_its_kind
from clew.adapters.langgraph.values import MESSAGES
from clew.codec.chunks import NO_ITEMS, Chunks, packed_list
from clew.model.checkpoint import Checkpoint

MAX_BYTES: Final = 64 << 20
"""How much memory the dumps of all threads may take together; the least recently used go first."""

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
    """What differs if what would be stored of a list differs.

    Of messages: their classes, their fields, `packed` as a list of maps, and which fields were given. Of anything else, all of
    it is `packed`.
    """

    packed: Chunks
    classes: tuple[type, ...] = ()
    given: tuple[frozenset[str], ...] = ()

    @property
    def count(self) -> int:
        return self.packed.count

    def begins_with(self, other: Dump) -> bool:
        """Whether the first elements are all those of the other."""
        if not other.count:
            return True
        return (
            bool(self.classes) == bool(other.classes)
            and self.classes[: len(other.classes)] == other.classes
            and self.given[: len(other.given)] == other.given
            and self.packed.added_to(other.packed, other.packed.start, other.count) is not None
        )

    def elements(self) -> list[Any]:
        """One thing for each element, which differs if the element differs."""
        items = self.packed.items()
        return list(zip(items, self.classes, self.given, strict=True)) if self.classes else [*items]

    @property
    def weight(self) -> int:
        return len(self.packed) + 100 * len(self.given)


_NOTHING: Final = Dump(NO_ITEMS)


def dump(value: list[Any], before: Dump = _NOTHING) -> Dump | None:
    """The dump of a list, made of what it was `before` as far as that is the same; `None` if it can't be dumped cheaply."""
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
    """What `given` is now, made of what it was `before` as far as that is the same."""
    if tuple(given[: len(before)]) != before:
        before = ()
    return before + tuple(map(one_of_its_kind, given[len(before) :]))


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
    """A checkpoint as it was last saved or loaded here: its channels, the dumps of those that are lists, and its state.

    `doubtful`: a list was not what its dump said when it came to the next save. Mostly it was edited; but it may also be
    that its objects are dumped differently once they were stored and loaded, so the next load dumps them anew.
    """

    checkpoint_id: str
    channels: frozenset[str]
    dumps: Mapping[str, Dump]
    saved: Checkpoint
    kept: Kept | None
    doubtful: bool = False

    @property
    def weight(self) -> int:
        kept = self.kept.weight if self.kept is not None else 0
        return 500 + kept + sum([dump.weight for dump in self.dumps.values()])


@dataclass(slots=True, kw_only=True)
class Changes:
    """How to make a checkpoint's channels out of its parent's."""

    set: dict[str, Any] = field(default_factory=dict)
    append: dict[str, list[Any]] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    """How many elements at the beginning of a list that was changed are as they were."""
    dumps: dict[str, Dump] = field(default_factory=dict)
    surprising: bool = False
    """Whether a list is not the one of before with more at its end."""


def changes(
    parent: Known | None, values: Mapping[str, Any], new_versions: Collection[str], store: Callable[[Any, str], Any]
) -> Changes:
    """What to change in `parent` to get `values`; `store` gives what is stored of a value."""
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


def new_places(parent: Known | None, found: Changes, name: str, value: list[Any]) -> list[int] | None:
    """The places of what a list has that its parent's has not; `None` if that can't be told from what is known."""
    if name not in found.set and name not in found.append:
        return []
    if kept := found.kept.get(name):
        return list(range(kept, len(value)))
    if parent is None or name not in found.dumps:
        return None
    before = parent.dumps.get(name)
    if before is None:
        return list(range(len(value))) if name not in parent.channels else None
    return unsaid(before.elements(), found.dumps[name].elements())


class Memory:
    """What is known of the last checkpoint of each thread and namespace, within a bound."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str], checkpoint_id: str | None) -> Known | None:
        """What is known of this checkpoint, if it is the last one of its namespace here."""
        known = self.last(key)
        return known if known is not None and known.checkpoint_id == checkpoint_id else None

    def last(self, key: tuple[str, str]) -> Known | None:
        """What is known of the last checkpoint of its namespace here, whether or not it still is the head."""
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def put(self, key: tuple[str, str], known: Known) -> None:
        with self._lock:
            old = self._known.pop(key, None)
            self._known[key] = known
            self._bytes += known.weight - (old.weight if old else 0)
            while self._bytes > self._max_bytes and self._known:
                self._bytes -= self._known.popitem(last=False)[1].weight
