"""The plan of a search across threads: what to read next, until the page is complete.

A plan is a generator of requests; a storage answers each from one snapshot. It goes through the
segments (`storage.search_filter`) from the newest on, and stops when no other segment can have a
newer match. So a common text is found in the newest segments, and a rare one in the few chunks that
the filters let through. What is not in a segment yet is read first.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

from clew.model.config import ANY_USER
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage
from clew.storage.conversions import micros
from clew.storage.found import newest
from clew.storage.search_filter import CHUNK, CHUNKS, cells_of, chunks_in

DIRECT: Final = 4_000
"""A user with at most so many messages is searched without the index."""
DIRECT_THREADS: Final = 500
"""A user with at most so many threads is searched without the index."""
WORTH: Final = 1_024
"""So many messages wait before a search adds them to the index."""
MANY_WAITING: Final = 20_000
"""If more wait, the index is of no use yet."""
AT_ONCE: Final = 2_048
"""How many messages one step adds to the index."""
_SEGMENTS_AT_ONCE: Final = 256
"""How many segments are looked up at a time, at most."""
ENOUGH: Final = 30_000
"""After so many messages, a plan finds out whether the user has fewer."""
_CHUNKS_AT_ONCE: Final = 128
"""How many chunks are read at a time: 8,192 messages."""


class Segment(NamedTuple):
    """A segment: its number, its count of chunks, and the times of its oldest and newest message."""

    number: int
    chunks: int
    oldest: int
    newest: int


class Scan(NamedTuple):
    """A request for the page from all messages of the user. The answer is a list of FoundMessage."""


class Waiting(NamedTuple):
    """A request for the page from the messages that no segment has. The answer as for `Scan`."""


class Segments(NamedTuple):
    """A request for all segments. The answer is a list of Segment."""


class Own(NamedTuple):
    """A request for the number of the user's messages, as a list with one number."""


class Cells(NamedTuple):
    """A request for stored parts of some segments. The answer has segment, number and part of each."""

    segments: tuple[int, ...]
    parts: tuple[int, ...]


class Chunks(NamedTuple):
    """A request for the page from these chunks. The answer as for `Scan`."""

    numbers: tuple[int, ...]


Request = Scan | Waiting | Segments | Own | Cells | Chunks
Plan = Generator[Request, Any, list[FoundMessage]]


def search_plan(query: SearchQuery, needle: bytes, own: int | None, waiting: int) -> Plan:
    """Plan `query` for a user with `own` messages (`None`: many), while `waiting` are in no segment.

    `needle` is the text as the store has it. Raises DamagedFilterError.
    """
    if query.limit == 0:
        return []
    found: list[FoundMessage]
    if is_direct(own) or waiting > MANY_WAITING:
        found = yield Scan()
        return found
    cells = cells_of(needle)
    page = newest((yield Waiting()), query)
    segments: list[Segment] = yield Segments()
    if query.before is not None:
        bound = micros(query.before[0])
        segments = [each for each in segments if each.oldest <= bound]
    segments.sort(key=lambda each: each.newest, reverse=True)
    begin, step, read = 0, 1, 0
    while begin < len(segments) and not _is_complete(page, query, segments[begin].newest):
        batch = segments[begin : begin + step]
        chunks = (yield from _chunks(batch, cells)) if cells else _all_chunks(batch)
        for at in range(0, len(chunks), _CHUNKS_AT_ONCE):
            some = chunks[at : at + _CHUNKS_AT_ONCE]
            if _is_complete(page, query, some[0].newest):
                return page
            if read > ENOUGH and query.user is not ANY_USER:
                # If the text is common among other users and rare here, reading the user's own messages is faster.
                if own is None:
                    (own,) = yield Own()
                if read > own:
                    found = yield Scan()
                    return found
            found = yield Chunks(tuple([each.number for each in some]))
            page = _merged(page, found, query)
            read += CHUNK * len(some)
        begin, step = begin + step, min(4 * step, _SEGMENTS_AT_ONCE)
    return page


def is_direct(own: int | None) -> bool:
    """Return whether a user with `own` messages is searched without the index."""
    return own is not None and own <= DIRECT


def is_due(waiting: int) -> bool:
    """Return whether so many messages wait that a search adds some to the index."""
    return waiting >= WORTH


class _Chunk(NamedTuple):
    """A chunk: its number, and the time of the newest message in its segment."""

    number: int
    newest: int


def _chunks(batch: Sequence[Segment], cells: Sequence[tuple[int, int]]) -> Generator[Request, Any, list[_Chunk]]:
    """Return the chunks of the segments that may contain the text, in the order of the segments."""
    parts: dict[int, dict[int, bytes]] = {each.number: {} for each in batch}
    for number, part, stored in (yield Cells(tuple(parts), tuple(sorted({part for part, _ in cells})))):
        parts[number][part] = stored
    return [
        _Chunk(CHUNKS * each.number + chunk, each.newest)
        for each in batch
        for chunk in chunks_in(parts[each.number], cells, each.chunks)
    ]


def _all_chunks(batch: Sequence[Segment]) -> list[_Chunk]:
    return [_Chunk(CHUNKS * each.number + chunk, each.newest) for each in batch for chunk in range(each.chunks)]


def _is_complete(page: Sequence[FoundMessage], query: SearchQuery, next_newest: int) -> bool:
    """Return whether nothing from `next_newest` on can be on the page."""
    return (
        query.limit is not None
        and len(page) == query.limit
        and (not page or micros(page[-1].message.created_at) > next_newest)
    )


def _merged(page: list[FoundMessage], found: list[FoundMessage], query: SearchQuery) -> list[FoundMessage]:
    # A message that was replaced is in two chunks, or in a chunk and waiting.
    known = {each.place for each in page}
    return newest([*page, *(each for each in found if each.place not in known)], query)
