"""The codec's front: states to bodies and values, and back. Pure: no I/O, no clock."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from clew.codec.chunks import Chunks
from clew.codec.cutting import written_length
from clew.codec.decode import Decoding
from clew.codec.edit import NO_ENTRIES, Edit, covers_of, entries_of, needed_to_edit
from clew.codec.encode import Encoding
from clew.codec.frame import seal, unseal
from clew.codec.index import Entries, Memo, Part, ThreadIndex, View
from clew.codec.nodes import Container
from clew.codec.packing import Packer, reading
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.stack import with_room
from clew.errors import ConfigError, StateTooLargeError
from clew.model.records import Basis, Range, ValueRow


@contextmanager
def collecting_later() -> Iterator[None]:
    """Put the garbage collector off: nothing of what is decoded is garbage, and its thousands of objects would set it going
    again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Encoded(Struct, frozen=True, kw_only=True):
    """A state ready to be committed: its body, what the body needs, and the values that the thread lacks."""

    body: bytes
    covers: tuple[Range, ...]
    size: int
    row: ValueRow | None
    digests: list[bytes]
    memo: Memo | None
    entries: Entries | None

    def remember(self, index: ThreadIndex, namespace: str, checkpoint_id: str, basis: Basis) -> None:
        """Take into `index` what was committed."""
        if self.row is not None:
            index.add(self.row.first, self.digests)
            index.loose = (*index.loose, self.row.first)
        index.basis = basis
        index.views[namespace] = View(
            checkpoint_id=checkpoint_id, body=self.body, size=self.size, memo=self.memo, entries=self.entries
        )


class Packed(Struct, frozen=True):
    """A state at one moment: its fields, each as msgpack, or the whole as one item; and how long it is."""

    fields: tuple[Container, dict[bytes, bytes | Chunks]] | None
    item: bytes | None
    size: int


class StateCodec:
    """Turns states into what a storage keeps, with the classes of one registry and a limit on size."""

    def __init__(self, registry: Registry, *, max_state_bytes: int) -> None:
        self.registry = registry
        self._packer = Packer(registry)
        self._max_state_bytes = max_state_bytes

    def encode(self, state: Any, index: ThreadIndex | None, namespace: str) -> Encoded:
        """`state` for a thread of which `index` is known (`None`: a new thread)."""
        memo = _memo(index, namespace)
        return self._encode(self.packed(state, memo), index, memo)

    def packed(self, state: Any, memo: Memo | None = None) -> Packed:
        """All of `state`, as it is now, in chunks of `memo` as far as it has the same. Raises UnsupportedTypeError and
        StateTooLargeError."""
        fields = self._packer.pack_fields(state, partial(_chunks, memo))
        if fields is None:
            item = self._packer.pack(state)
            size = len(item)
        else:
            item, size = None, written_length(fields[0], map(len, fields[1]), map(len, fields[1].values()))
        self._check_size(size)
        return Packed(fields, item, size)

    def encode_packed(self, packed: Packed, index: ThreadIndex | None, namespace: str) -> Encoded:
        """What was packed, for a thread of which `index` is known."""
        return self._encode(packed, index, _memo(index, namespace))

    def _encode(self, packed: Packed, index: ThreadIndex | None, memo: Memo | None) -> Encoded:
        return with_room(partial(self._cut, packed, index, memo))

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
    ) -> Encoded:
        """The state of `body` with some of its fields changed; `rows` has what `needed_to_edit` asked for. With its `entries`,
        if they are known, the body need not be read."""
        if entries is None and body is not None:
            item = unseal(body)
            entries = reading(lambda: entries_of(item, Decoding(self._packer, OpenRows(rows))))
        before = entries or NO_ENTRIES

        def edited() -> Encoded:
            encoding = Encoding(index)
            after = Edit(self._packer, encoding).apply(before, set=set, append=append, remove=remove)
            lengths = [part.length for part in after.parts.values()]
            size = written_length(after.container, map(len, after.parts), lengths)
            self._check_size(size)
            return self._encoded(encoding, encoding.map_of(after, size), after)

        return with_room(edited)

    def needed_to_edit(self, body: bytes) -> tuple[Range, ...]:
        """The values that `edit` has to read; nearly always none."""
        return reading(lambda: needed_to_edit(unseal(body)))

    def covers(self, body: bytes) -> tuple[Range, ...]:
        """The values that `body` refers to. Raises CorruptRecordError if it is damaged."""
        return reading(lambda: covers_of(unseal(body)))

    def decode(self, body: bytes, rows: OpenRows) -> Any:
        """The state that `body` and its values stand for. Raises CorruptRecordError if they are damaged."""
        with collecting_later():
            return reading(lambda: Decoding(self._packer, rows).decode(unseal(body)))

    def decode_with_memo(self, body: bytes, rows: OpenRows, known: Memo | None = None) -> tuple[Any, Memo | None]:
        """The same, and what makes the next save of this state cheap. What `known` remembers needs no rows."""
        with collecting_later():
            return reading(lambda: Decoding(self._packer, rows).decode_with_memo(unseal(body), known))

    def check(self, body: bytes, rows: OpenRows) -> None:
        """Raise CorruptRecordError if `body` or its values are damaged. A class that can't be built from them is no damage."""
        try:
            self.decode(body, rows)
        except ConfigError:
            reading(lambda: Decoding(Packer(Registry()), rows).decode(unseal(body)))

    def pack(self, obj: Any, *, name: str) -> bytes:
        """A small record, such as metadata, as one frame."""
        return seal(self._packer.pack(obj, name=name))

    def unpack(self, frame: bytes) -> Any:
        """What `pack` packed. Raises CorruptRecordError if it is damaged."""
        return self._packer.unpack(unseal(frame))

    def copy(self, obj: Any) -> Any:
        """A copy that shares nothing with `obj`, and is what loading it would give."""
        return self.snapshot(obj)[0]

    def snapshot(self, obj: Any) -> tuple[Any, int]:
        """The same, and how many bytes it takes."""
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

    def _check_size(self, size: int) -> None:
        if size > self._max_state_bytes:
            raise StateTooLargeError(
                f"the state takes {size:,} bytes, more than max_state_bytes={self._max_state_bytes:,}; "
                f"keep large documents elsewhere, or raise the limit",
                size=size,
                limit=self._max_state_bytes,
            )


def _memo(index: ThreadIndex | None, namespace: str) -> Memo | None:
    """How the last state in `namespace` was cut, if that is known."""
    view = index.views.get(namespace) if index is not None else None
    return view.memo if view is not None else None


def _chunks(memo: Memo | None, key: bytes) -> Sequence[bytes]:
    """The chunks of the list with that key, if it is known in chunks."""
    entry = memo.entries.get(key) if memo is not None else None
    return entry.packed.parts if entry is not None and isinstance(entry.packed, Chunks) else ()
