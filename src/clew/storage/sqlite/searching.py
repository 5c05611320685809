"""Finding messages by a part of their text: through the index where a thread has one, else by looking at each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from clew.storage.packing import text_bytes
from clew.storage.sqlite.indexing import candidates
from clew.storage.sqlite.schema import named

_SQL = named("reads.sql")


def found_messages(
    connection: sqlite3.Connection, thread_no: int, indexed: int, needle: str
) -> Iterator[tuple[Any, ...]]:
    """The rows of the messages with `needle` in their text, in order. Positions under `indexed` are in the index."""
    first, wanted = thread_no << 32, text_bytes(needle)
    tail = first
    match = candidates(needle) if indexed else None
    if match is not None:
        try:
            rows = connection.execute(_SQL["indexed_messages"], (match, first, first + indexed - 1, wanted))
        except sqlite3.OperationalError as error:
            if "no such module" not in str(error):
                raise
            # Written by an SQLite with FTS5, read by one without.
        else:
            yield from rows
            tail = first + indexed
    yield from connection.execute(_SQL["scanned_messages"], (tail, first | 0xFFFFFFFF, wanted))
