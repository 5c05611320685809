"""Edits: change a state through its body alone, at the cost of the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from clew.codec.classes import SET_SINCE, UNSET
from clew.codec.cuts import closed, opened, split_pairs
from clew.codec.decode import Decoding
from clew.codec.encode import Covers, Encoding
from clew.codec.index import Entries, Part, joined
from clew.codec.nodes import (
    DICT,
    LIST,
    MAP,
    Container,
    NodeTag,
    Sequence,
    ranges_of,
    read_extension,
    read_pieces,
    read_sequence,
    read_value,
    split_items,
)
from clew.codec.packer import Packer
from clew.errors import ConfigError, shown
from clew.model.records import Range

NO_ENTRIES: Final = Entries(DICT, {})
_NONE: Final = b"\xc0"
"""The entries that an edit of an empty thread starts from."""


def needed_to_edit(item: bytes) -> tuple[Range, ...]:
    """Return the values needed to edit `item`: none, except for a state with very many keys."""
    node = _sequence(item)
    return () if node is None else joined(ranges_of((*node.runs, *node.spine, *node.reach)))


class Edit:
    """Changes the entries of a state: sets fields, appends to lists, removes fields."""

    def __init__(self, packer: Packer, encoding: Encoding) -> None:
        self._packer = packer
        self._encoding = encoding

    def apply(
        self,
        before: Entries,
        *,
        set: Mapping[str, Any],
        append: Mapping[str, Iterable[Any]],
        remove: Iterable[str],
    ) -> Entries:
        """Return the entries of the changed state."""
        remove = tuple(remove)
        self._check_fields(before.container, (*set, *append))
        parts = dict(before.parts)
        self._check_removed(before, [name for name in remove if name not in set and name not in append])
        some_unset = before.container.tag and self._key(UNSET) in parts
        for name in remove:
            parts.pop(self._key(name), None)
            if some_unset:
                parts.pop(self._key(SET_SINCE + name), None)
        for name, value in set.items():
            parts[self._key(name)] = self._encoding.part(self._packer.pack(value, name=f"set[{name!r}]"), None)
        for name, added in append.items():
            key = self._key(name)
            parts[key] = self._appended(name, parts.get(key), added)
        if some_unset:
            for name in (*set, *append):
                parts[self._key(SET_SINCE + name)] = self._encoding.part(self._packer.pack(None), None)
        return Entries(before.container, parts)

    def _check_fields(self, container: Container, names: Iterable[str]) -> None:
        entry = self._packer.entry(container.prefix) if container.tag else None
        unknown = [name for name in names if entry is not None and entry.only_fields and name not in entry.only_fields]
        if entry is not None and unknown:
            raise ConfigError(f"{entry.name} has no field {', '.join(map(repr, unknown))}")

    def _check_removed(self, before: Entries, names: Iterable[str]) -> None:
        entry = self._packer.entry(before.container.prefix) if before.container.tag else None
        needed = [each for each in names if entry and each in entry.required and self._key(each) in before.parts]
        if entry is not None and needed:
            raise ConfigError(
                f"{entry.name} needs its field {', '.join(map(repr, needed))}, which has no default; set another value "
                f"instead of removing it"
            )

    def _key(self, name: Any) -> bytes:
        if not isinstance(name, str):
            raise ConfigError(f"a state's field name must be a str, not {type(name).__name__}: {shown(name)}")
        return self._packer.pack(name)

    def _appended(self, name: str, part: Part | None, added: Iterable[Any]) -> Part:
        packed = self._packer.pack(list(added), name=f"append[{name!r}]")
        if part is None:
            return self._encoding.part(packed, None)
        _, count, start = _list(packed)
        node = part.sequence or _sequence(part.node)
        if node is not None and node.container == LIST:
            return self._encoding.append(node, split_items(packed[start:], count))
        found = opened(part.node)
        if found is None or found[0] != LIST:
            raise ConfigError(f"can't append to {name!r}: it is not a list; replace it with set={{{name!r}: …}}")
        _, before, content = found
        return self._encoding.part(closed(LIST, before + count, part.node[content:] + packed[start:]), None)


def entries_of(item: bytes, decoding: Decoding) -> Entries:
    """Return the entries of the state that `item` encodes. Raises ConfigError if it has no fields."""
    if item == _NONE:
        # The state None (after going back to before the first state) counts as no state.
        return NO_ENTRIES
    node = _sequence(item)
    if node is not None and node.container.shape == MAP:
        content = decoding.content(node)
        container, count = node.container, node.count
    elif (found := opened(item)) is not None and found[0].shape == MAP:
        container, count, start = found
        content = item[start:]
    else:
        raise ConfigError(
            "update_state needs a state that is a dict or an object with fields; save the whole state with put_state"
        )
    pairs = split_pairs(content, count)
    return Entries(container, {key: Part(node, _length(node), covers_of(node)) for key, node in pairs.items()})


def covers_of(item: bytes) -> Covers:
    """Return the ranges of values that `item` needs."""
    extended = read_extension(item)
    if extended is not None and extended[0] >= NodeTag.VALUE:
        tag, at = extended
        data = memoryview(item)[at:]
        if tag == NodeTag.VALUE:
            number, _ = read_value(data)
            return ((number, number + 1),)
        if tag == NodeTag.PIECES:
            return joined(ranges_of(read_pieces(data)[1]))
        node = _read(item, at)
        return joined(ranges_of((*node.runs, *node.reach)))
    pairs = _inner_pairs(item)
    return joined([each for packed in pairs.values() for each in covers_of(packed)]) if pairs else ()


def _length(item: bytes) -> int:
    """Return the length of `item` with its values written out."""
    extended = read_extension(item)
    if extended is not None and extended[0] >= NodeTag.VALUE:
        tag, at = extended
        data = memoryview(item)[at:]
        if tag == NodeTag.VALUE:
            return read_value(data)[1]
        return read_pieces(data)[0] if tag == NodeTag.PIECES else _read(item, at).length
    pairs = _inner_pairs(item)
    return len(item) + sum(_length(packed) - len(packed) for packed in pairs.values()) if pairs else len(item)


def _inner_pairs(item: bytes) -> Mapping[bytes, bytes]:
    """Return the pairs of a map, which is the only inline container that can hold nodes."""
    found = opened(item)
    return split_pairs(item[found[2] :], found[1]) if found is not None and found[0].shape == MAP else {}


def _sequence(item: bytes) -> Sequence | None:
    extended = read_extension(item)
    if extended is None or extended[0] != NodeTag.SEQUENCE:
        return None
    return _read(item, extended[1])


@lru_cache(maxsize=256)
def _read(item: bytes, at: int) -> Sequence:
    """Parse a sequence's node, whose content starts at `at`. An edit needs it three times."""
    return read_sequence(memoryview(item)[at:])


def _list(packed: bytes) -> tuple[Container, int, int]:
    found = opened(packed)
    assert found is not None  # a list was packed just now
    return found
