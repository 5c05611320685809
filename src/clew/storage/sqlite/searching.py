"""Finding messages by a part of their text: through the index where a thread has one, else by looking at each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from clew.storage.packing import text_bytes
from clew.storage.sqlite.damage import lacks_index
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
            for *row, message_no in connection.execute(
                _SQL["indexed_messages"], (match, first, first + indexed - 1, wanted)
            ):
                tail = message_no + 1
                yield tuple(row)
            tail = first + indexed
        except sqlite3.DatabaseError as error:
            if not lacks_index(error):
                raise
    yield from connection.execute(_SQL["scanned_messages"], (tail, first | 0xFFFFFFFF, wanted))
