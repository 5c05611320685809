"""Taking a checkpoint over into another value log, in which the same numbers stand for other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from clew.codec.index import ThreadIndex
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.state import StateCodec
from clew.model.records import Basis, Range, ValueRow

# Without any class: objects are read as records, and records are written as what they were read from.
_codec: Final = StateCodec(Registry(), max_state_bytes=1 << 62)


class Rebased(Struct, frozen=True, kw_only=True):
    """The same state for the other log: its body, the values that the body needs, and those that the log lacks."""

    body: bytes
    covers: tuple[Range, ...]
    row: ValueRow | None


def rebase(body: bytes, rows: Iterable[ValueRow], known: Mapping[bytes, int], first: int) -> Rebased:
    """The state of `body`, which refers to `rows`, for a log that has the values `known` (by digest) and goes on with `first`.

    Raises CorruptRecordError if the body or a row is damaged.
    """
    # Not renumbered in place: references stand inside of values too, and are part of what digests are made from.
    state = _codec.decode(body, OpenRows(rows))
    index = ThreadIndex(Basis(incarnation="", epoch=0, next_value=first), known)
    encoded = _codec.encode(state, index, "")
    return Rebased(body=encoded.body, covers=encoded.covers, row=encoded.row)
