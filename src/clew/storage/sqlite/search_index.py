"""The index for searches across threads, in the file: created on demand, filled a step at a time.

Triggers note each message that is new or changed in `search_waiting`. A step moves the oldest of them
into a segment. A search also reads the waiting messages, so its result never depends on the progress of the
index. Entries of deleted messages stay until the index is rebuilt; they only lead to messages that are gone.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from typing import Final

from clew.storage.search_filter import CHUNK, CHUNKS, DamagedFilterError, Table, sealed, unsealed
from clew.storage.search_plan import AT_ONCE, Segment
from clew.storage.sqlite.schema import named

_CREATE: Final = named("search_index.sql")
_READS, _WRITES = named("search.sql"), named("writes.sql")
_TABLES: Final = ("search_waiting", "search_chunks", "search_cells", "search_segments")
PART_BITS: Final = 8


def has_search_index(connection: sqlite3.Connection) -> bool:
    """Return whether the index exists. Its last table and triggers are created in one transaction with the first."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search_replaced'").fetchone())


def create_search_index(connection: sqlite3.Connection) -> None:
    """Create the index, with all messages waiting. Idempotent."""
    if has_search_index(connection):
        return
    for statement in _CREATE.values():
        connection.execute(statement)
    connection.execute(_WRITES["all_messages_wait"])


def drop_search_index(connection: sqlite3.Connection) -> None:
    """Drop a damaged index. Searches read all messages until there is a new index."""
    for trigger in ("search_added", "search_replaced"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    for table in _TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def waiting(connection: sqlite3.Connection, most: int) -> int:
    """Return how many messages wait, at most `most`."""
    return int(connection.execute(_READS["search_waiting"], (most,)).fetchone()[0])


def index_messages(connection: sqlite3.Connection, at_once: int = AT_ONCE) -> bool:
    """Move up to `at_once` waiting messages into segments, inside a transaction. Returns whether there may be more.

    Raises DamagedFilterError.
    """
    last = connection.execute(_WRITES["last_segment"]).fetchone()
    segment = segment_of(last) if last else Segment(0, 0, 0, 0)
    if segment.chunks == CHUNKS:
        segment = Segment(segment.number + 1, 0, 0, 0)
    room = (CHUNKS - segment.chunks) * CHUNK
    rows = connection.execute(_WRITES["next_messages"], (min(at_once, room),)).fetchall()
    if not rows:
        return False
    known = [row for row in rows if row[1] is not None]
    if known:
        _add(connection, segment, known)
    connection.execute(_WRITES["messages_indexed"], (rows[-1][0],))
    return len(rows) == min(at_once, room)


def _add(connection: sqlite3.Connection, segment: Segment, rows: list[tuple[int, int, int, bytes]]) -> None:
    """Add messages (serial, number, time, text) to `segment`, which has room for them."""
    first = segment.number << PART_BITS
    stored = connection.execute(_READS["search_table"], (first, first | (1 << PART_BITS) - 1)) if segment.chunks else ()
    table = Table((place & (1 << PART_BITS) - 1, cells) for place, cells in stored)
    chunk = segment.chunks
    for at in range(0, len(rows), CHUNK):
        some = rows[at : at + CHUNK]
        table.add(chunk, [text for _, _, _, text in some])
        members = struct.pack(f"<{len(some)}q", *(number for _, number, _, _ in some))
        connection.execute(_WRITES["add_chunk"], (segment.number * CHUNKS + chunk, sealed(members)))
        chunk += 1
    times = [at for _, _, at, _ in rows]
    if segment.chunks:
        times += (segment.oldest, segment.newest)
    connection.executemany(_WRITES["put_cells"], [(first | part, cells) for part, cells in table.parts()])
    grown = Segment(segment.number, chunk, min(times), max(times))
    connection.execute(_WRITES["put_segment"], (*grown, _checksum(grown)))


def segment_of(row: tuple[int, ...]) -> Segment:
    """Return the segment in a row. Raises DamagedFilterError."""
    *columns, checksum = row
    segment = Segment(*columns)
    if checksum != _checksum(segment):
        raise DamagedFilterError("a segment of the search index is damaged")
    return segment


def _checksum(segment: Segment) -> int:
    return zlib.crc32(repr(tuple(segment)).encode())


def members_of(stored: bytes) -> tuple[int, ...]:
    """Return the numbers of a chunk's messages. Raises DamagedFilterError."""
    members = unsealed(stored)
    return struct.unpack(f"<{len(members) // 8}q", members)
