"""The substring index over what a search of threads looks at, kept in step many threads at a time.

Triggers gather the numbers of the threads that are new, renamed or gone in `threads_to_index` (`threads.sql`), so a save
touches no index; here their entries are made. The index is an FTS5 table without content or positions whose words are
written in hex: the `GRAM` bytes from each byte of a text on, fewer at its end. So a needle of any length, and in any
language, is the beginning of a word. The index names candidates, and readers verify each.
"""

from __future__ import annotations

import sqlite3

from clew.storage.sqlite.indexing import has_fts5
from clew.storage.sqlite.schema import named

GRAM = 5
"""At three, among 100,000 ids of random hex digits 450 have any given three of them next to each other; at five, two."""
WAITING = 64
"""How many threads may wait for their entries: readers look at each of those."""
AT_ONCE = 128
_CAUGHT_UP_AT_ONCE = 4_096

_SQL = named("writes.sql")
_CREATE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS thread_index USING fts5"
    "(grams, content='', columnsize=0, detail=none, tokenize='ascii')"
)
_CREATE_VIEW = "CREATE VIRTUAL TABLE IF NOT EXISTS thread_grams USING fts5vocab(thread_index, instance)"
_ADD = "INSERT INTO thread_index (rowid, grams) VALUES (?, ?)"
_DROP = "INSERT INTO thread_index (thread_index, rowid, grams) VALUES ('delete', ?, ?)"
_BETWEEN = b"\xff"
"""Between the parts of a text; no text has it."""


class ThreadIndex:
    """The writer's hand on the index. Where SQLite was built without FTS5 it does nothing, and readers go by time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._works = has_fts5(connection)

    def waiting(self) -> int:
        """How many threads wait for their entries, as far as that matters."""
        return int(self._execute(_SQL["threads_waiting"], (WAITING + 1,)).fetchone()[0]) if self._works else 0

    def advance(self, limit: int) -> None:
        """Bring the entries of the first `limit` of them in step with the threads."""
        if not self._works:
            return
        self._execute(_CREATE)
        self._execute(_CREATE_VIEW)
        rows = self._execute(_SQL["threads_to_index"], (limit,)).fetchall()
        for number, indexed, thread_id, text in rows:
            now = None if thread_id is None else thread_id + _BETWEEN + text
            if now == indexed:
                continue
            if indexed is not None:
                self._execute(_DROP, (number, grams(indexed)))
                self._execute(_SQL["forget_indexed"], (number,))
            if now is not None:
                self._execute(_ADD, (number, grams(now)))
                self._execute(_SQL["remember_indexed"], (number, now))
        if rows:
            self._execute(_SQL["no_longer_waiting"], (rows[-1][0],))


def grams(text: bytes) -> str:
    """The words of the index for `text`."""
    words: list[str] = []
    for part in text.split(_BETWEEN):
        written = part.hex()
        words += [written[at : at + 2 * GRAM] for at in range(0, len(written), 2)]
    return " ".join(words)


def catch_up(connection: sqlite3.Connection) -> None:
    """Make the entries of all who wait, if they are many: what a file has that comes from before there was the index.

    Whoever is stopped here leaves the rest to the writers.
    """
    index = ThreadIndex(connection)
    while index.waiting() > WAITING:
        _advance(connection, index, _CAUGHT_UP_AT_ONCE)


def settle(connection: sqlite3.Connection) -> bool:
    """Have the index, if there is one, forget some of what is gone; whether there may be more."""
    if not has_thread_index(connection):
        return False
    index = ThreadIndex(connection)
    _advance(connection, index, AT_ONCE)
    return index.waiting() > 0


def _advance(connection: sqlite3.Connection, index: ThreadIndex, limit: int) -> None:
    """Some of it in a transaction of its own."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        index.advance(limit)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def has_thread_index(connection: sqlite3.Connection) -> bool:
    """Whether there were ever enough threads for the index to be made."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'thread_grams'").fetchone())
