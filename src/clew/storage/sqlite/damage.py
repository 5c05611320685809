"""A substring index that can't be used costs time and nothing else: readers do without, and the writer makes it again."""

from __future__ import annotations

import sqlite3

from clew.storage.sqlite.schema import named

_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT_VTAB, sqlite3.SQLITE_CONSTRAINT})
"""FTS5's codes for contents that contradict each other. A constraint of a table has a code that says which kind it is."""

_START_OVER = named("start_over.sql")


def breaks_index(error: BaseException) -> bool:
    """Whether what SQLite found damaged is an index, and no record."""
    return getattr(error, "sqlite_errorcode", None) in _BROKEN


def lacks_index(error: BaseException) -> bool:
    """Whether a search can go on without the index that it asked: it is damaged, or made by an SQLite with FTS5 and read
    by one without."""
    return breaks_index(error) or "no such module" in str(error)


def start_over(connection: sqlite3.Connection) -> None:
    """Drop the indexes, and have everything that was in them wait to be put in again."""
    for statement in _START_OVER.values():
        connection.execute(statement)
