"""Chunks: long lists packed as arrays of `CHUNK` items.

Packing a megabyte in one call takes three times as long as in parts that fit the CPU's cache, and
allocates new memory each time. Chunks that are equal to the last save's are shared with it, so most
of a long list is neither copied nor held twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from clew.codec.nodes import ARRAY, header, split_items

CHUNK: Final = 256
"""Number of items in each chunk but the last. Lists up to this length are packed as one array."""
_HEADER: Final = len(header(ARRAY, CHUNK))


class Chunks(Struct, frozen=True):
    """A list as the msgpack arrays of its chunks; `length` is its length as one array."""

    parts: tuple[bytes, ...]
    count: int
    length: int

    def __len__(self) -> int:
        return self.length

    @property
    def start(self) -> int:
        """The start of the items in one array."""
        return len(header(ARRAY, self.count))

    def whole(self) -> bytes:
        """Return the list as one array."""
        contents = [memoryview(part)[_start(part) :] for part in self.parts]
        return b"".join([header(ARRAY, self.count), *contents])

    def items(self) -> list[bytes]:
        """Return the packed items."""
        return self._items_from(0, 0)

    def added_to(self, old: bytes | Chunks, start: int, before: int) -> list[bytes] | None:
        """Return the items after the first `before`, if those equal the items of `old`
        from `start` on; else `None`."""
        if before > self.count:
            return None
        full, extent = before // CHUNK, 0
        if isinstance(old, Chunks):
            if self.parts[:full] != old.parts[:full]:
                return None
            rest, start = (old.parts[full], _start(old.parts[full])) if full < len(old.parts) else (b"", 0)
        else:
            for part in self.parts[:full]:
                if not old.startswith(memoryview(part)[_HEADER:], start):
                    return None
                start += len(part) - _HEADER
            rest = old
        if full < len(self.parts):
            known, part = memoryview(rest)[start:], self.parts[full]
            if not part.startswith(known, _start(part)):
                return None
            extent = len(known)
        return self._items_from(before, extent)

    def _items_from(self, before: int, extent: int) -> list[bytes]:
        """Return the items after the first `before`, which take `extent` bytes of the chunk
        that they share with others."""
        items: list[bytes] = []
        for number, part in enumerate(self.parts[before // CHUNK :], before // CHUNK):
            count = min(CHUNK, self.count - number * CHUNK) - before % CHUNK
            items += split_items(part[_start(part) + extent :], count)
            before = extent = 0
        return items


def packed_list(items: list[Any], pack: Callable[[list[Any]], bytes], before: Sequence[bytes]) -> Chunks:
    """Pack `items` in chunks, sharing those of the list `before` that are equal."""
    parts: list[bytes] = []
    count, length = 0, 0
    for at in range(0, len(items), CHUNK):
        chunk = items[at : at + CHUNK]
        part = pack(chunk)
        number = len(parts)
        if number < len(before) and before[number] == part:
            part = before[number]
        parts.append(part)
        count += len(chunk)
        length += len(part) - _start(part)
    return Chunks(tuple(parts), count, len(header(ARRAY, count)) + length)


def _start(part: bytes) -> int:
    """Return the start of a chunk's items."""
    return 1 if part[0] & 0xF0 == ARRAY else _HEADER


NO_ITEMS: Final = Chunks((), 0, len(header(ARRAY, 0)))
"""An empty list."""
