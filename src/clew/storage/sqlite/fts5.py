"""FTS5, which both substring indexes are made of: availability, damage, and merging.

An index only saves time. Where it is damaged or FTS5 is missing, readers scan instead, and the
writer rebuilds a damaged one.
"""

from __future__ import annotations

import sqlite3

from clew.storage.conversions import bytes_text
from clew.storage.sqlite.schema import named

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT_VTAB, sqlite3.SQLITE_CONSTRAINT})
"""FTS5's codes for inconsistent contents. Constraints of tables have extended codes instead."""
_RESET = named("reset_indexes.sql")
_MERGE = "INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)"
MERGED_AT_ONCE = 500
"""How many index pages one merge step writes."""


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Return whether SQLite was built with FTS5."""
    options = {option for (option,) in connection.execute("PRAGMA compile_options")}
    if "ENABLE_FTS5" in options:
        return True
    return bool(connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone())


def is_index_damaged(error: BaseException) -> bool:
    """Return whether SQLite reported damage to an index, not to a record."""
    return getattr(error, "sqlite_errorcode", None) in _DAMAGED


def is_index_unusable(error: BaseException) -> bool:
    """Return whether a search must do without its index: it is damaged, or this SQLite has no FTS5."""
    return is_index_damaged(error) or "no such module" in str(error)


def reset_indexes(connection: sqlite3.Connection) -> None:
    """Drop the indexes, and queue everything that was in them to be indexed again."""
    for statement in _RESET.values():
        connection.execute(statement)


def existing_indexes(connection: sqlite3.Connection) -> list[str]:
    """The indexes that exist. Each is created when there is enough to index."""
    made = "SELECT name FROM sqlite_schema WHERE name IN ('message_index', 'thread_index')"
    return [name for (name,) in connection.execute(made)]


def begin_merge(connection: sqlite3.Connection, index: str) -> None:
    """Start to merge the whole index. Only a merge erases the text of removed entries."""
    connection.execute(_MERGE.format(index=index), (-MERGED_AT_ONCE,))


def continue_merge(connection: sqlite3.Connection, index: str) -> bool:
    """Merge one more step. Returns whether there may be more to do."""
    before = connection.total_changes
    connection.execute(_MERGE.format(index=index), (MERGED_AT_ONCE,))
    return connection.total_changes - before >= 2


def indexable(text: bytes) -> str:
    """`text` without NULs, at which the tokenizer would stop."""
    return bytes_text(text.replace(b"\0", b"\1")).encode("utf-8", "replace").decode()
