"""Long lists, packed in chunks: an array of `CHUNK` items each.

A megabyte that is packed in one call takes three times as long as in parts that stay in the processor's cache, and is new
memory each time. Chunks that are as they were at the last save are kept: most of a long list is neither copied nor held twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from clew.codec.nodes import ARRAY, header, split_items

CHUNK: Final = 256
"""How many items a chunk has, but for the last. A list that is no longer is packed as one."""
_HEADER: Final = len(header(ARRAY, CHUNK))


class Chunks(Struct, frozen=True):
    """A list as the msgpack arrays of its chunks; `length` is how long it would be as one array."""

    parts: tuple[bytes, ...]
    count: int
    length: int

    def __len__(self) -> int:
        return self.length

    @property
    def start(self) -> int:
        """Where the items would start in one array."""
        return len(header(ARRAY, self.count))

    def whole(self) -> bytes:
        """The list as one array."""
        contents = [memoryview(part)[_start(part) :] for part in self.parts]
        return b"".join([header(ARRAY, self.count), *contents])

    def items(self) -> list[bytes]:
        """Each item by itself."""
        return self._items_from(0, 0)

    def added_to(self, old: bytes | Chunks, start: int, before: int) -> list[bytes] | None:
        """The items after the first `before`, if those are the items of `old`, which start at `start` there; else `None`."""
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
        """The items after the first `before`, of which those in the chunk that goes on with them take `extent` bytes."""
        items: list[bytes] = []
        for number, part in enumerate(self.parts[before // CHUNK :], before // CHUNK):
            count = min(CHUNK, self.count - number * CHUNK) - before % CHUNK
            items += split_items(part[_start(part) + extent :], count)
            before = extent = 0
        return items


def packed_list(items: list[Any], pack: Callable[[list[Any]], bytes], before: Sequence[bytes]) -> Chunks:
    """`items` in chunks, those of the list `before` kept where they are the same."""
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
    """Where the items of a chunk start."""
    return 1 if part[0] & 0xF0 == ARRAY else _HEADER


NO_ITEMS: Final = Chunks((), 0, len(header(ARRAY, 0)))
"""An empty list."""
