"""The message index: finds messages by a substring of their text.

It is an FTS5 table of trigrams without content or positions: it names candidates, and readers verify
each. A thread enters it once it has more than `INDEX_FROM` messages, a bounded number per commit;
those at positions under `indexed_messages` are in it. Other messages are scanned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from clew.storage.conversions import text_bytes
from clew.storage.sqlite.fts5 import has_fts5, indexable, is_index_unusable
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

INDEX_FROM = 4_000
INDEX_STEP = 32
"""How many older messages a commit adds to the index, in addition to twice as many as it brings."""

_WRITES, _READS = named("writes.sql"), named("reads.sql")
_CREATE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING fts5"
    "(text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1')"
)
_ADD = "INSERT INTO message_index (rowid, text) VALUES (?, ?)"
_DROP = "INSERT INTO message_index (message_index, rowid, text) VALUES ('delete', ?, ?)"


class MessageIndex:
    """The writer's access to the index. Without FTS5 it does nothing, and readers scan."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._works = has_fts5(connection)

    def advance(self, thread: Thread, new: int) -> None:
        """Index the next few messages of a large thread, to which `new` messages were added."""
        if thread.message_count <= INDEX_FROM or not self._works:
            return
        self._execute(_CREATE)
        first = thread.first_message_no
        limit = INDEX_STEP + 2 * new
        rows = self._execute(
            _WRITES["message_texts"], (first + thread.indexed_messages, first + thread.next_message - 1, limit)
        ).fetchall()
        for message_no, text in rows:
            self._execute(_ADD, (message_no, indexable(text)))
        full = len(rows) == limit
        thread.indexed_messages = rows[-1][0] - first + 1 if full else thread.next_message

    def remove(self, thread: Thread, message_no: int, text: bytes) -> bool:
        """Remove a message before its text changes. Returns whether it was in the index."""
        if message_no - thread.first_message_no >= thread.indexed_messages:
            return False
        if not self._works:
            # The index can't be updated: from now on this thread is scanned.
            thread.indexed_messages = 0
            return False
        self._execute(_CREATE)
        self._execute(_DROP, (message_no, indexable(text)))
        return True

    def restore(self, message_no: int, text: bytes) -> None:
        """Add a removed message again, with its new text."""
        self._execute(_ADD, (message_no, indexable(text)))

    def remove_all(self, thread: Thread) -> None:
        """Remove all messages of a thread that is about to be deleted."""
        if thread.indexed_messages and self._works:
            # It is missing only if the number is damaged.
            self._execute(_CREATE)
            first = thread.first_message_no
            rows = self._execute(_WRITES["message_texts"], (first, first + thread.indexed_messages - 1, -1))
            for message_no, text in rows.fetchall():
                self._execute(_DROP, (message_no, indexable(text)))
        thread.indexed_messages = 0


def found_messages(
    connection: sqlite3.Connection, first: int, last: int, index_end: int, needle: str
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows with `needle` of the messages `first` to `last`, in order. Numbers under
    `index_end` are indexed."""
    wanted = text_bytes(needle)
    tail = first
    match = candidates(needle) if index_end > first else None
    if match is not None:
        try:
            for *row, message_no in connection.execute(
                _READS["indexed_messages"], (match, first, min(index_end - 1, last), wanted)
            ):
                tail = message_no + 1
                yield tuple(row)
            tail = index_end
        except sqlite3.DatabaseError as error:
            if not is_index_unusable(error):
                raise
    yield from connection.execute(_READS["scanned_messages"], (tail, last, wanted))


def candidates(needle: str) -> str | None:
    """The FTS5 query for at least all texts with `needle`; `None` if it is too short."""
    text = indexable(text_bytes(needle))
    trigrams = list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))
    # Each further trigram costs a lookup and narrows the candidates less.
    step = max(1, len(trigrams) // 16)
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams[::step]) or None
