"""The codec's entry point: turns states into bodies and values, and back. Pure: no I/O, no clock."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from msgspec import Struct

from clew.codec.chunks import Chunks
from clew.codec.cuts import written_length
from clew.codec.decode import Decoding
from clew.codec.edit import NO_ENTRIES, Edit, covers_of, entries_of, needed_to_edit
from clew.codec.encode import Encoding
from clew.codec.frame import seal, unseal
from clew.codec.index import Entries, Memo, Part, ThreadIndex, View
from clew.codec.nodes import DICT, Container
from clew.codec.packer import Packer, read_stored, with_room
from clew.codec.registry import Registry
from clew.codec.rows import LARGEST_MERGE, OpenRows
from clew.errors import ConfigError, StateTooLargeError
from clew.model.records import Basis, Range, ValueRow


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector: decoding makes thousands of objects, none of them
    garbage, which would trigger it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Encoded(Struct, frozen=True, kw_only=True):
    """A state ready to commit: its body, the values it needs, and those new to the thread."""

    body: bytes
    covers: tuple[Range, ...]
    size: int
    row: ValueRow | None
    digests: list[bytes]
    memo: Memo | None
    entries: Entries | None

    def remember(self, index: ThreadIndex, namespace: str, checkpoint_id: str, basis: Basis) -> None:
        """Update `index` after the commit."""
        if self.row is not None:
            index.add(self.row.first, self.digests)
            index.loose = (*index.loose, self.row.first)
        index.basis = basis
        index.views[namespace] = View(
            checkpoint_id=checkpoint_id, body=self.body, size=self.size, memo=self.memo, entries=self.entries
        )


class Packed(Struct, frozen=True):
    """A snapshot of a state as msgpack, by field or as one item, with its length."""

    fields: tuple[Container, dict[bytes, bytes | Chunks]] | None
    item: bytes | None
    size: int


_LEAST: Final = 1 << 20
"""Size that any record may have, however small `max_state_bytes` is."""


class StateCodec:
    """Encodes and decodes states, with the classes of one registry and a size limit."""

    def __init__(self, registry: Registry, *, max_state_bytes: int) -> None:
        self.registry = registry
        self._packer = Packer(registry)
        self._max_state_bytes = max_state_bytes
        # Stored records are larger than the state, because of references and
        # directories, and must stay readable.
        self._most = max(2 * max_state_bytes, _LEAST)
        self._most_in_row = max(2 * max_state_bytes, LARGEST_MERGE)

    def encode(self, state: Any, index: ThreadIndex | None, namespace: str) -> Encoded:
        """Encode `state` for a thread with this `index`, or for a new thread if it is `None`."""
        memo = _memo(index, namespace)
        return self._encode(self.packed(state, memo), index, memo)

    def packed(self, state: Any, memo: Memo | None = None) -> Packed:
        """Pack a snapshot of `state`, reusing equal chunks of `memo`.

        Raises UnsupportedTypeError and StateTooLargeError.
        """
        fields = self._packer.pack_fields(state, partial(_chunks, memo))
        if fields is None:
            item = self._packer.pack(state)
            size = len(item)
        else:
            container, parts = fields
            content = sum(map(len, parts)) + sum(map(len, parts.values()))
            item, size = None, written_length(container, len(parts), content)
        self._check_size(size)
        return Packed(fields, item, size)

    def encode_packed(self, packed: Packed, index: ThreadIndex | None, namespace: str) -> Encoded:
        """Encode a packed state for a thread with this `index`."""
        return self._encode(packed, index, _memo(index, namespace))

    def _encode(self, packed: Packed, index: ThreadIndex | None, memo: Memo | None) -> Encoded:
        return with_room(self._cut, packed, index, memo)

    def _cut(self, packed: Packed, index: ThreadIndex | None, memo: Memo | None) -> Encoded:
        encoding = Encoding(index)
        if packed.fields is None:
            assert packed.item is not None
            return self._encoded(encoding, encoding.part(packed.item, memo), None)
        entries = encoding.entries(*packed.fields, memo)
        return self._encoded(encoding, encoding.fields(entries, packed.size), entries)

    def edit(
        self,
        body: bytes | None,
        rows: Iterable[ValueRow],
        index: ThreadIndex | None,
        *,
        entries: Entries | None = None,
        set: Mapping[str, Any],
        append: Mapping[str, Iterable[Any]],
        remove: Iterable[str],
        fits: Callable[[Collection[str]], None] | None = None,
    ) -> Encoded:
        """Encode the state of `body` with some fields changed. `fits` raises if a dict may not have these fields.

        `rows` has the values that `needed_to_edit` named. If the `entries` are
        known, the body is not read.
        """
        if entries is None and body is not None:
            item = unseal(body, self._most)
            entries = read_stored(lambda: entries_of(item, self._decoding(self._packer, self.open_rows(rows))))
        before = entries or NO_ENTRIES

        def edited() -> Encoded:
            encoding = Encoding(index)
            after = Edit(self._packer, encoding).apply(before, set=set, append=append, remove=remove)
            if fits is not None and after.container == DICT:
                fits([self._packer.unpack(name) for name in after.parts])
            content = sum(map(len, after.parts)) + sum([part.length for part in after.parts.values()])
            size = written_length(after.container, len(after.parts), content)
            self._check_size(size)
            return self._encoded(encoding, encoding.map_of(after, size), after)

        return with_room(edited)

    def needed_to_edit(self, body: bytes) -> tuple[Range, ...]:
        """Return the values that `edit` has to read; nearly always none."""
        return read_stored(lambda: needed_to_edit(unseal(body, self._most)))

    def covers(self, body: bytes) -> tuple[Range, ...]:
        """Return the values that `body` refers to. Raises CorruptRecordError if it is damaged."""
        return read_stored(lambda: covers_of(unseal(body, self._most)))

    def decode(self, body: bytes, rows: OpenRows) -> Any:
        """Decode a state. Raises CorruptRecordError if `body` or its values are damaged."""
        with gc_paused():
            return read_stored(lambda: self._decoding(self._packer, rows).decode(unseal(body, self._most)))

    def decode_with_memo(self, body: bytes, rows: OpenRows, known: Memo | None = None) -> tuple[Any, Memo | None]:
        """Decode a state, with the memo for its next save. Parts in `known` need no rows."""
        with gc_paused():
            return read_stored(
                lambda: self._decoding(self._packer, rows).decode_with_memo(unseal(body, self._most), known)
            )

    def check(self, body: bytes, rows: OpenRows) -> None:
        """Raise CorruptRecordError if `body` or its values are damaged. A class that
        can't be built does not count."""
        try:
            self.decode(body, rows)
        except ConfigError:
            read_stored(lambda: self._decoding(Packer(Registry()), rows).decode(unseal(body, self._most)))

    def pack(self, obj: Any, *, name: str) -> bytes:
        """Pack a small record, such as metadata, in one frame. Raises StateTooLargeError
        over twice `max_state_bytes`."""
        packed = self._packer.pack(obj, name=name)
        if len(packed) > self._most:
            raise self._too_large(name, len(packed), self._most)
        return seal(packed)

    def unpack(self, frame: bytes) -> Any:
        """Return the object that `pack` packed. Raises CorruptRecordError if it is damaged."""
        return self._packer.unpack(unseal(frame, self._most))

    def copy(self, obj: Any) -> Any:
        """Return a deep copy of `obj`: the object that loading it would give."""
        return self.snapshot(obj)[0]

    def snapshot(self, obj: Any) -> tuple[Any, int]:
        """Return a deep copy of `obj` and its packed size in bytes."""
        packed = self._packer.pack(obj)
        return self._packer.unpack(packed), len(packed)

    def _encoded(self, encoding: Encoding, part: Part, entries: Entries | None) -> Encoded:
        return Encoded(
            body=seal(part.node),
            covers=part.covers,
            size=part.length,
            row=encoding.row(),
            digests=encoding.digests,
            memo=part.memo,
            entries=entries,
        )

    def open_rows(self, rows: Iterable[ValueRow]) -> OpenRows:
        """Return `rows` for decoding states."""
        return OpenRows(rows, self._most_in_row)

    def _decoding(self, packer: Packer, rows: OpenRows) -> Decoding:
        return Decoding(packer, rows, most=2 * self._most)

    def _check_size(self, size: int) -> None:
        if size > self._max_state_bytes:
            raise self._too_large("the state", size, self._max_state_bytes)

    def _too_large(self, what: str, size: int, limit: int) -> StateTooLargeError:
        return StateTooLargeError(
            f"{what} takes {size:,} bytes, more than {limit:,} (max_state_bytes={self._max_state_bytes:,}); "
            f"store large documents elsewhere, or raise the limit",
            size=size,
            limit=limit,
        )


def _memo(index: ThreadIndex | None, namespace: str) -> Memo | None:
    """Return the memo of the last state in `namespace`, if known."""
    view = index.views.get(namespace) if index is not None else None
    return view.memo if view is not None else None


def _chunks(memo: Memo | None, key: bytes) -> Sequence[bytes]:
    """Return the known chunks of the list with that key."""
    entry = memo.entries.get(key) if memo is not None else None
    return entry.packed.parts if entry is not None and isinstance(entry.packed, Chunks) else ()
