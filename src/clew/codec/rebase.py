"""Rebasing: moves a checkpoint to another value log, with other value numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from clew.codec.index import ThreadIndex
from clew.codec.registry import Registry
from clew.codec.rows import OpenRows
from clew.codec.state import StateCodec
from clew.model.records import Basis, Range, ValueRow

# An empty registry: objects are read as Records, which are written back unchanged.
_codec: Final = StateCodec(Registry(), max_state_bytes=1 << 30)


class Rebased(Struct, frozen=True, kw_only=True):
    """A state for the other log: its body, the values it needs, and those new to the log."""

    body: bytes
    covers: tuple[Range, ...]
    row: ValueRow | None


def rebase(body: bytes, rows: Iterable[ValueRow], known: Mapping[bytes, int], first: int) -> Rebased:
    """Encode the state of `body` and `rows` for a log with the values `known` (by digest),
    whose next number is `first`.

    Raises CorruptRecordError if the body or a row is damaged.
    """
    # Renumbering in place is impossible: values contain references too, which their digests depend on.
    state = _codec.decode(body, OpenRows(rows))
    index = ThreadIndex(Basis(incarnation="", epoch=0, next_value=first), known)
    encoded = _codec.encode(state, index, "")
    return Rebased(body=encoded.body, covers=encoded.covers, row=encoded.row)
