"""The index for searches across threads: filled a step at a time, each in a transaction of its own.

A step moves the messages that have waited longest into a segment. A search also reads the waiting messages,
so its result never depends on the progress of the index. Entries of deleted messages only lead to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.storage.search_filter import CHUNK, CHUNKS, DamagedFilterError, Table
from clew.storage.search_plan import AT_ONCE, Segment

_MAINTENANCE = 60.0
"""Seconds that a statement of a step may take."""


async def index_messages(connection: Any, sql: Mapping[str, str], schema: str) -> bool:
    """Move some waiting messages into a segment. Returns whether there may be more.

    Does nothing while another process does this.
    """
    async with connection.transaction(isolation="read_committed"):
        if not await connection.fetchval(sql["search_lock"], schema):
            return False
        last = await connection.fetchrow(sql["search_last"])
        segment = Segment(*last) if last else Segment(0, 0, 0, 0)
        if segment.chunks >= CHUNKS:
            segment = Segment(segment.number + 1, 0, 0, 0)
        limit = min(AT_ONCE, (CHUNKS - segment.chunks) * CHUNK)
        rows = await connection.fetch(sql["search_next"], limit, timeout=_MAINTENANCE)
        there = [row for row in rows if row["text"] is not None]
        if there:
            await _add(connection, sql, segment, there)
        return len(rows) == limit


async def _add(connection: Any, sql: Mapping[str, str], segment: Segment, rows: Sequence[Any]) -> None:
    """Add messages to `segment`, which has room for them."""
    table = await _table(connection, sql, segment)
    chunks: list[tuple[int, list[str], list[int]]] = []
    for at in range(0, len(rows), CHUNK):
        some = rows[at : at + CHUNK]
        chunk = segment.chunks + len(chunks)
        table.add(chunk, [row["text"].encode() for row in some])
        threads, positions = [row["thread_id"] for row in some], [row["position"] for row in some]
        chunks.append((segment.number * CHUNKS + chunk, threads, positions))
    times = [row["created_at"] for row in rows]
    if segment.chunks:
        times += (segment.oldest, segment.newest)
    await connection.executemany(sql["search_put_chunk"], chunks, timeout=_MAINTENANCE)
    parts, cells = zip(*table.parts(), strict=True)
    await connection.execute(sql["search_put_cells"], segment.number, parts, cells, timeout=_MAINTENANCE)
    count = segment.chunks + len(chunks)
    await connection.execute(sql["search_put_segment"], segment.number, count, min(times), max(times))


async def _table(connection: Any, sql: Mapping[str, str], segment: Segment) -> Table:
    """Return the segment's cells so far. All bits are set if they are damaged."""
    if not segment.chunks:
        return Table()
    stored = await connection.fetch(sql["search_table"], segment.number)
    try:
        return Table((row["part"], row["cells"]) for row in stored)
    except DamagedFilterError:
        return Table.unknown()
