"""Filters for searches across threads: which groups of messages may contain a text.

Messages are grouped in the order in which they were written: `CHUNK` messages are a chunk, and
`CHUNKS` chunks a segment. A segment has a table of cells, one for each value of a hash. Bit n of a
cell says that chunk n may contain a gram (`GRAM` bytes) with that hash. A text can only be in chunks
whose bit is set for all its grams, so a search reads a few cells of each segment and the messages of
a few chunks. A filter never hides a message. Its only error is to let too many through.

Tables are stored in parts, so that a search reads little. Numbers in cells are little-endian.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

GRAM: Final = 4
CHUNK: Final = 64
CHUNKS: Final = 64
CELLS: Final = 16_381
"""A prime, so that the hash of a gram, the remainder, depends on all its bytes."""
CELL: Final = 8
PART: Final = 128
"""How many cells a stored part has: 1 KB, which is stored in place."""
_GRAMS: Final = 6
"""How many grams of a text are looked up at most. More would hardly exclude more chunks."""
_BETWEEN: Final = b"\xff" * GRAM
"""Between texts. UTF-8 never contains it."""


class Table:
    """The cells of a segment, to add chunks to."""

    def __init__(self, parts: Iterable[tuple[int, bytes]] = ()) -> None:
        self._cells = array("Q", bytes(CELL * CELLS))
        for number, stored in parts:
            cells = array("Q", unsealed(stored))
            if sys.byteorder == "big":
                cells.byteswap()
            first = number * PART
            self._cells[first : first + len(cells)] = cells[: max(0, CELLS - first)]

    @classmethod
    def unknown(cls) -> Table:
        """Return a table that lets everything through."""
        table = cls()
        table._cells = array("Q", b"\xff" * (CELL * CELLS))
        return table

    def add(self, chunk: int, texts: Sequence[bytes]) -> None:
        """Add the chunk with this number, which has these texts."""
        cells, bit = self._cells, 1 << chunk
        for cell in {gram % CELLS for gram in _grams(texts)}:
            cells[cell] |= bit

    def parts(self) -> list[tuple[int, bytes]]:
        """Return the parts to store, with their numbers."""
        cells = self._cells
        if sys.byteorder == "big":
            cells = cells[:]
            cells.byteswap()
        stored = cells.tobytes()
        size = PART * CELL
        return [(at // size, sealed(stored[at : at + size])) for at in range(0, len(stored), size)]


def _grams(texts: Sequence[bytes]) -> set[int]:
    """Return the grams of `texts`, as little-endian numbers."""
    joined = _BETWEEN.join(texts)
    found: set[int] = set()
    for offset in range(GRAM):
        grams = array("I", joined[offset : offset + (len(joined) - offset) // GRAM * GRAM])
        if sys.byteorder == "big":
            grams.byteswap()
        found.update(grams)
    return found


def cells_of(needle: bytes) -> list[tuple[int, int]]:
    """Return where to look for `needle`: parts and the first byte of a cell in each. Empty if it is too short."""
    grams = [needle[at : at + GRAM] for at in range(len(needle) - GRAM + 1)]
    step = max(1, -(-len(grams) // _GRAMS))
    cells = {int.from_bytes(gram, "little") % CELLS for gram in grams[::step]}
    return sorted((cell // PART, cell % PART * CELL) for cell in cells)


def chunks_in(parts: Mapping[int, bytes], cells: Iterable[tuple[int, int]], count: int) -> list[int]:
    """Return the chunks, of `count`, whose bit all `cells` have. `parts` has the stored parts of a segment.

    Raises DamagedFilterError if a part is missing or damaged.
    """
    bits = (1 << count) - 1
    opened: dict[int, bytes] = {}
    for part, at in cells:
        if part not in opened:
            opened[part] = unsealed(parts.get(part, b""))
        bits &= int.from_bytes(opened[part][at : at + CELL], "little")
        if not bits:
            break
    chunks = []
    while bits:
        lowest = bits & -bits
        chunks.append(lowest.bit_length() - 1)
        bits ^= lowest
    return chunks


class DamagedFilterError(Exception):
    """Something stored for searches can't be trusted. The search has to do without it."""


def sealed(data: bytes) -> bytes:
    """Return `data` with a checksum: a flipped bit in a filter would hide messages."""
    return zlib.crc32(data).to_bytes(4, "little") + data


def unsealed(stored: bytes) -> bytes:
    """Return what was sealed. Raises DamagedFilterError if it has changed."""
    data = stored[4:]
    if len(stored) < 4 or zlib.crc32(data) != int.from_bytes(stored[:4], "little"):
        raise DamagedFilterError("the checksum of a part of the search index is wrong")
    return data
