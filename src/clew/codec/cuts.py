"""Content-defined cuts of large parts: an insertion moves one cut, not all later ones."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from clew.codec.nodes import (
    ARRAY,
    DICT,
    LIST,
    Container,
    Run,
    extension,
    extension_overhead,
    header,
    read_extension,
    read_header,
    split_items,
)
from clew.codec.packer import name_length
from clew.codec.tags import CONTAINER_TAGS, Tag

INLINE: Final = 256
"""Parts up to this many bytes stay in the body."""
LARGE: Final = 4096
"""Larger parts are cut."""
SPLIT: Final = 1024
"""A cut map with more bytes of references moves into values itself."""
RUNS_INLINE: Final = 256
"""More bytes of runs move into a spine."""

_PIECE: Final = re.compile(rb"(?s).{1024,4096}?(?<=[\x00-\x1f -/:-@eE][aeioAEIO\x80-\x9f0-3].)(?=[^\x00])|.{1,4096}")


def pieces(data: bytes) -> list[bytes]:
    """Cut `data` into pieces of one to four kilobytes."""
    return _PIECE.findall(data)


def opened(item: bytes) -> tuple[Container, int, int] | None:
    """Return container, item or pair count, and start of the content; `None` for other items."""
    shaped = read_header(item)
    if shaped is not None:
        shape, count, start = shaped
        return (LIST if shape == ARRAY else DICT), count, start
    extended = read_extension(item)
    if extended is None or extended[0] not in CONTAINER_TAGS:
        return None
    tag, at = extended
    start = at + name_length(item, at) if tag == Tag.RECORD else at
    shaped = read_header(item, start)
    if shaped is None:
        return None
    shape, count, content = shaped
    return Container(shape, tag, bytes(item[at:start])), count, content


def closed(container: Container, count: int, content: bytes) -> bytes:
    """Return the item with this container, count and content: the inverse of `opened`."""
    inner = container.prefix + header(container.shape, count) + content
    return extension(container.tag, inner) if container.tag else inner


def written_length(container: Container, count: int, content: int) -> int:
    """Return the length of a map with `count` entries, whose keys and values take `content` bytes."""
    inner = len(container.prefix) + len(header(container.shape, count)) + content
    return inner + extension_overhead(inner) if container.tag else inner


def split_pairs(content: bytes | memoryview, count: int) -> dict[bytes, bytes]:
    """Return the `count` pairs of a map, packed key to packed value, in order."""
    items = split_items(content, 2 * count)
    return dict(zip(items[::2], items[1::2], strict=True))


def ends_group(item: bytes, size: int) -> bool:
    """Return whether a group of small items with `size` bytes ends after `item`."""
    return size >= LARGE or zlib.crc32(item) & 15 == 0


def run_groups(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Yield groups of runs for a spine, with content-defined cuts. The last group is still open."""
    group: list[Run] = []
    for first, count in runs:
        group.append((first, count))
        if (first * 2654435761 + count * 40503 & 0xFFFFFFFF) >> 26 == 0 or len(group) >= 256:
            yield group
            group = []
    yield group
