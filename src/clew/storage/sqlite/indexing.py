"""The substring index over the messages of large threads, kept in step with them a bounded amount at a time.

It is an FTS5 table of trigrams without content or positions: it names candidates, and readers verify each. A thread
enters it once it has more than `INDEX_FROM` messages; those at positions under `indexed_messages` are in it.
"""

from __future__ import annotations

import sqlite3

from clew.storage.packing import bytes_text, text_bytes
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

INDEX_FROM = 4_000
INDEX_STEP = 32
"""How many older messages a commit adds to the index, besides as many as it brings itself."""

_SQL = named("writes.sql")
_CREATE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING fts5"
    "(text, content='', columnsize=0, detail=none, tokenize='trigram case_sensitive 1')"
)
_ADD = "INSERT INTO message_index (rowid, text) VALUES (?, ?)"
_DROP = "INSERT INTO message_index (message_index, rowid, text) VALUES ('delete', ?, ?)"
_MERGE = "INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)"
MERGED_AT_ONCE = 500
"""How many pages of the index are written in one go when it is tidied."""


class MessageIndex:
    """The writer's hand on the index. Where SQLite was built without FTS5 it does nothing, and readers scan."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._works = has_fts5(connection)

    def advance(self, thread: Thread, new: int) -> None:
        """Put the next few messages of a large thread in."""
        if thread.message_count <= INDEX_FROM or not self._works:
            return
        self._execute(_CREATE)
        first = thread.first_message_no
        limit = INDEX_STEP + 2 * new
        rows = self._execute(
            _SQL["message_texts"], (first + thread.indexed_messages, first + thread.next_message - 1, limit)
        ).fetchall()
        for message_no, text in rows:
            self._execute(_ADD, (message_no, indexable(text)))
        full = len(rows) == limit
        thread.indexed_messages = rows[-1][0] - first + 1 if full else thread.next_message

    def forget(self, thread: Thread, message_no: int, text: bytes) -> bool:
        """Take the message out before its text changes; whether it was in."""
        if message_no - thread.first_message_no >= thread.indexed_messages:
            return False
        if not self._works:
            # The index can't follow: from now on this thread is scanned, which is always right.
            thread.indexed_messages = 0
            return False
        self._execute(_DROP, (message_no, indexable(text)))
        return True

    def restore(self, message_no: int, text: bytes) -> None:
        """Put a message back with its new text."""
        self._execute(_ADD, (message_no, indexable(text)))

    def forget_all(self, thread: Thread) -> None:
        """Take out all of a thread that is about to go."""
        if thread.indexed_messages and self._works:
            first = thread.first_message_no
            rows = self._execute(_SQL["message_texts"], (first, first + thread.indexed_messages - 1, -1))
            for message_no, text in rows.fetchall():
                self._execute(_DROP, (message_no, indexable(text)))
        thread.indexed_messages = 0


def indexes(connection: sqlite3.Connection) -> list[str]:
    """The substring indexes that were made: there may never have been enough for one."""
    made = "SELECT name FROM sqlite_schema WHERE name IN ('message_index', 'thread_index')"
    return [name for (name,) in connection.execute(made)]


def begin_tidying(connection: sqlite3.Connection, index: str) -> None:
    """Start to merge the whole index, which is how it forgets the text of what was removed."""
    connection.execute(_MERGE.format(index=index), (-MERGED_AT_ONCE,))


def go_on_tidying(connection: sqlite3.Connection, index: str) -> bool:
    """Merge some more of it; whether there may be more to do."""
    before = connection.total_changes
    connection.execute(_MERGE.format(index=index), (MERGED_AT_ONCE,))
    return connection.total_changes - before >= 2


def indexable(text: bytes) -> bytes | str:
    """`text` as the index takes it: the tokenizer stops at a NUL, so that becomes another control character."""
    return bytes_text(text.replace(b"\0", b"\1")).encode("utf-8", "replace").decode()


def candidates(needle: str) -> str | None:
    """The index query that finds at least every text with `needle` in it; None if it is too short for one."""
    text = str(indexable(text_bytes(needle)))
    trigrams = list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))
    # Each further trigram narrows the candidates less and costs a lookup.
    step = max(1, len(trigrams) // 16)
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams[::step]) or None


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Whether SQLite was built with what both indexes are made of."""
    options = {option for (option,) in connection.execute("PRAGMA compile_options")}
    if "ENABLE_FTS5" in options:
        return True
    return bool(connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone())
