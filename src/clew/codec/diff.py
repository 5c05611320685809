"""Differences between two states, compared as objects.

Lists are aligned, so that an appended message, a sliding window and an edit in the middle are shown as
such. Elements with an `id` or `message_id` are matched by it. Other changed elements are matched by
position, if a stretch was replaced by one of the same length.
"""

from __future__ import annotations

import enum
import marshal
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from clew.codec.alignment import aligned
from clew.codec.classes import fields_of
from clew.codec.registry import Record
from clew.model.diff import Change, Diff, Kind, safe_repr

MAX_DEPTH: Final = 250
"""Maximum depth, about as deep as a state may nest. Below it, values are compared with `==`."""

_Path = tuple[Any, ...]
_ABSENT: Final = object()


def diff(before: Any, after: Any) -> Diff:
    """Return the changes from `before` to `after`. Never raises."""
    return Diff(changes=tuple(_changes((), before, after, 0)))


class _Shape(enum.Enum):
    """The way objects of a class are compared."""

    PLAIN = "by =="
    SPELLED = "by repr, which is exact where == is not: NaN, -0.0, 1.50, the zone of a time"
    FIELDS = "field by field"
    MAPPING = "key by key"
    SEQUENCE = "aligned"
    SET = "member by member"


def _shape_of(cls: type) -> _Shape:
    if issubclass(cls, enum.Enum | str | bytes | int):
        return _Shape.PLAIN
    if issubclass(cls, float | complex | Decimal | datetime | time):
        return _Shape.SPELLED
    if issubclass(cls, Mapping):
        return _Shape.MAPPING
    if _field_names_of(cls) is not None:
        return _Shape.FIELDS
    if issubclass(cls, list | tuple | deque):
        return _Shape.SEQUENCE
    if issubclass(cls, set | frozenset):
        return _Shape.SET
    return _Shape.PLAIN


def _field_names_of(cls: type) -> tuple[str, ...] | None:
    """Return the names of the declared fields of a class, if it has any."""
    fields = fields_of(cls)
    return None if fields is None else tuple(fields)


_shape: Final[Callable[[type], _Shape]] = lru_cache(maxsize=1024)(_shape_of)
_field_names: Final[Callable[[type], tuple[str, ...] | None]] = lru_cache(maxsize=1024)(_field_names_of)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of `value`, including extra fields of a pydantic model."""
    found = {name: getattr(value, name, _ABSENT) for name in _field_names(type(value)) or ()}
    extra = getattr(value, "__pydantic_extra__", None) or {}
    return {name: item for name, item in found.items() if item is not _ABSENT} | extra


# --- Sameness


def _same(before: Any, after: Any, depth: int) -> bool:
    """Return whether `_changes` would find nothing, but faster."""
    cls = type(before)
    if cls is not type(after):
        return False
    if before is after:
        return True
    if cls is str:
        return bool(before == after)
    shape = _shape(cls)
    if depth >= MAX_DEPTH or shape is _Shape.PLAIN:
        return _equal(before, after)
    if shape is _Shape.MAPPING:
        return _same_mapping(before, after, depth + 1)
    if shape is _Shape.SEQUENCE:
        if len(before) != len(after):
            return False
        # A loop, because a generator would add a stack frame at each level.
        for old, new in zip(before, after, strict=True):
            if not _same(old, new, depth + 1):
                return False
        return True
    if shape is _Shape.FIELDS:
        return _same_mapping(_fields(before), _fields(after), depth + 1)
    if shape is _Shape.SET:
        return len(before) == len(after) and {_exact(old) for old in before} == {_exact(new) for new in after}
    return safe_repr(before) == safe_repr(after)


def _same_mapping(before: Mapping[Any, Any], after: Mapping[Any, Any], depth: int) -> bool:
    if len(before) != len(after) or _label(before) != _label(after):
        return False
    for (old_key, old), (new_key, new) in zip(before.items(), after.items(), strict=True):
        if not (old_key is new_key or (type(old_key) is str is type(new_key) and old_key == new_key)):
            break
        if type(old) is str is type(new):
            if old != new:
                return False
        elif not _same(old, new, depth):
            return False
    else:
        return True
    if type(before) is OrderedDict and [*map(_exact, before)] != [*map(_exact, after)]:
        return False
    entries = _entries(after)
    for key, (_, old) in _entries(before).items():
        if key not in entries or not _same(old, entries[key][1], depth):
            return False
    return True


def _label(mapping: Mapping[Any, Any]) -> str | None:
    return mapping.type_name if type(mapping) is Record else None


def _equal(before: Any, after: Any) -> bool:
    """Return whether the values are equal by `==`. Values that can't be compared count as changed."""
    try:
        cls: Any = type(before)
        if cls.__eq__ is object.__eq__ and hasattr(before, "__dict__"):
            # The class compares by identity, so two loaded copies would never be equal.
            return bool(vars(before) == vars(after))
        answer: Any = before == after
        # Arrays compare element by element.
        return bool(answer.all() if hasattr(answer, "all") else answer)
    except Exception:  # a user's __eq__ may raise anything
        return False


def _exact(value: Any) -> Hashable:
    """Return a stand-in for a key or set member that is equal only for the same type."""
    cls = type(value)
    if cls is tuple or cls is frozenset:
        return cls, cls(map(_exact, value))
    if _shape(cls) is _Shape.SPELLED:
        return cls, repr(value)
    return cls, value


def _entries(mapping: Mapping[Any, Any]) -> dict[Hashable, tuple[Any, Any]]:
    return {_exact(key): (key, value) for key, value in mapping.items()}


# --- Changes


def _changes(path: _Path, before: Any, after: Any, depth: int) -> Iterator[Change]:
    if before is after:
        return
    cls = type(before)
    if cls is type(after) and depth < MAX_DEPTH and (descend := _DESCENTS.get(_shape(cls))):
        yield from descend(path, before, after, depth + 1)
    elif not _same(before, after, depth):
        yield Change(path=path, kind="changed", before=before, after=after)


def _mapping_changes(path: _Path, before: Mapping[Any, Any], after: Mapping[Any, Any], depth: int) -> Iterator[Change]:
    olds, news = _entries(before), _entries(after)
    reordered = type(before) is OrderedDict and olds.keys() == news.keys() and [*olds] != [*news]
    if reordered or _label(before) != _label(after):
        yield Change(path=path, kind="changed", before=before, after=after)
        return
    for exact, (key, old) in olds.items():
        if exact in news:
            yield from _changes((*path, key), old, news[exact][1], depth)
        else:
            yield Change(path=(*path, key), kind="removed", before=old)
    for exact, (key, new) in news.items():
        if exact not in olds:
            yield Change(path=(*path, key), kind="added", after=new)


def _field_changes(path: _Path, before: Any, after: Any, depth: int) -> Iterator[Change]:
    return _mapping_changes(path, _fields(before), _fields(after), depth)


def _set_changes(path: _Path, before: Any, after: Any, _depth: int) -> Iterator[Change]:
    olds, news = {_exact(old): old for old in before}, {_exact(new): new for new in after}
    if removed := {old for exact, old in olds.items() if exact not in news}:
        yield Change(path=path, kind="removed", before=removed, count=len(removed))
    if added := {new for exact, new in news.items() if exact not in olds}:
        yield Change(path=path, kind="added", after=added, count=len(added))


def _sequence_changes(path: _Path, before: Any, after: Any, depth: int) -> Iterator[Change]:
    olds, news = list(before), list(after)
    shorter = min(len(olds), len(news))
    head = 0
    while head < shorter and _same(olds[head], news[head], depth):
        head += 1
    tail = 0
    while tail < shorter - head and _same(olds[-1 - tail], news[-1 - tail], depth):
        tail += 1
    olds, news = olds[head : len(olds) - tail], news[head : len(news) - tail]

    old_end, new_end = 0, 0
    for old, new in [*_matched(olds, news), (len(olds), len(news))]:
        if old_end < old or new_end < new:
            stretch = olds[old_end:old], news[new_end:new]
            yield from _stretch_changes(path, head + old_end, head + new_end, *stretch, depth)
        if old < len(olds) and not _same(olds[old], news[new], depth):
            yield from _changes((*path, head + new), olds[old], news[new], depth)
        old_end, new_end = old + 1, new + 1


def _stretch_changes(
    path: _Path, old_first: int, new_first: int, olds: list[Any], news: list[Any], depth: int
) -> Iterator[Change]:
    """Yield the changes of a stretch without matched elements."""
    if len(olds) == len(news) and all(map(_may_be_one, olds, news)):
        for index, (old, new) in enumerate(zip(olds, news, strict=True), new_first):
            yield from _changes((*path, index), old, new, depth)
        return
    if olds:
        yield _run(path, old_first, "removed", olds)
    if news:
        yield _run(path, new_first, "added", news)


def _run(path: _Path, first: int, kind: Kind, elements: list[Any]) -> Change:
    values = {"before" if kind == "removed" else "after": elements}
    return Change(path=(*path, first), kind=kind, count=len(elements), **values)


_DESCENTS: Final[Mapping[_Shape, Callable[[_Path, Any, Any, int], Iterator[Change]]]] = {
    _Shape.MAPPING: _mapping_changes,
    _Shape.FIELDS: _field_changes,
    _Shape.SEQUENCE: _sequence_changes,
    _Shape.SET: _set_changes,
}


# --- Matching of list elements


def _matched(olds: Sequence[Any], news: Sequence[Any]) -> list[tuple[int, int]]:
    if not olds or not news:
        return []
    old_ids, new_ids = [_identity(old) for old in olds], [_identity(new) for new in news]
    counts = Counter(old_ids) | Counter(new_ids)
    return aligned(_keys(olds, old_ids, counts), _keys(news, new_ids, counts))


def _keys(elements: Sequence[Any], ids: list[Hashable], counts: Mapping[Hashable, int]) -> list[Hashable]:
    # An id that several elements of a list share identifies none of them.
    return [
        _content(element) if identity is None or counts[identity] > 1 else ("id", identity)
        for element, identity in zip(elements, ids, strict=True)
    ]


def _identity(element: Any) -> Hashable:
    """Return the id by which a changed `element` is recognised, if it has one."""
    cls = type(element)
    shape = _shape(cls)
    for name in ("message_id", "id"):
        found = None
        if shape is _Shape.MAPPING:
            found = element.get(name)
        elif shape is _Shape.FIELDS and name in (_field_names(cls) or ()):
            found = getattr(element, name, None)
        if type(found) in (str, int, UUID):
            return found
    return None


def _content(element: Any) -> Hashable:
    """Return a key that equal elements share. Inexact, because matched elements are compared."""
    try:
        return marshal.dumps(element, 2)
    except ValueError:
        return safe_repr(element)


def _may_be_one(old: Any, new: Any) -> bool:
    identity = _identity(old)
    return identity is None or identity == _identity(new)
