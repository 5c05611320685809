"""The thread index: finds threads by a substring of their text or id, the last active first.

Triggers record the numbers of threads that are new, renamed or deleted in `threads_to_index`, so a
save touches no index; the writer indexes many of them at a time. The index is an FTS5 table without
content or positions. Its words are grams in hex: the `GRAM` bytes from each byte of a text on, fewer
at its end. So a needle of any length, in any language, is a gram or the prefix of one. The index
names candidates, and readers verify each.

A search has two ways: the index, and the threads from the newest on. The index is cheaper for a rare
needle, the newest threads for a common one. It is not known in advance which way is cheaper. So both are
tried with a bound on the number of threads to read, and if neither completes, again with a larger bound. A
search costs a constant factor more than the cheaper way. The cost grows with the number of threads only for a
needle that is rare among the user's threads while all its grams are common in the store.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from clew.storage.sqlite.fts5 import has_fts5, is_index_unusable
from clew.storage.sqlite.schema import named

GRAM = 5
"""In bytes. Among 100,000 random hex ids, 450 share a given gram of three bytes, and two share one of five."""
WAITING = 64
"""How many threads may wait to be indexed. Readers look at each of them."""
AT_ONCE = 128
REACH = 256
"""How many threads each way of a search looks at first."""
_REACH_FACTOR = 8
_MOST_GRAMS = 8
"""How many grams of a needle are looked up at most."""
_FEW = 16
"""Verifying this many candidates takes less time than looking up another gram."""

_WRITES, _READS = named("writes.sql"), named("reads.sql")
_CREATE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS thread_index USING fts5"
    "(grams, content='', columnsize=0, detail=none, tokenize='ascii')"
)
_CREATE_VIEW = "CREATE VIRTUAL TABLE IF NOT EXISTS thread_grams USING fts5vocab(thread_index, instance)"
_ADD = "INSERT INTO thread_index (rowid, grams) VALUES (?, ?)"
_DROP = "INSERT INTO thread_index (thread_index, rowid, grams) VALUES ('delete', ?, ?)"
_SEPARATOR = b"\xff"
"""Between the parts of a text. UTF-8 never contains it."""

Row = tuple[Any, ...]


class ThreadIndex:
    """The writer's access to the index. Without FTS5 it does nothing, and readers scan by time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._works = has_fts5(connection)

    def waiting(self) -> int:
        """Return how many threads wait to be indexed, at most `WAITING + 1`."""
        return int(self._execute(_WRITES["threads_waiting"], (WAITING + 1,)).fetchone()[0]) if self._works else 0

    def advance(self, limit: int) -> None:
        """Index the first `limit` of the waiting threads."""
        if not self._works:
            return
        self._execute(_CREATE)
        self._execute(_CREATE_VIEW)
        rows = self._execute(_WRITES["threads_to_index"], (limit,)).fetchall()
        for number, indexed, thread_id, text in rows:
            now = None if thread_id is None else thread_id + _SEPARATOR + text
            if now == indexed:
                continue
            if indexed is not None:
                self._execute(_DROP, (number, grams(indexed)))
                self._execute(_WRITES["forget_indexed"], (number,))
            if now is not None:
                self._execute(_ADD, (number, grams(now)))
                self._execute(_WRITES["remember_indexed"], (number, now))
        if rows:
            self._execute(_WRITES["no_longer_waiting"], (rows[-1][0],))


def grams(text: bytes) -> str:
    """The words of the index for `text`."""
    words: list[str] = []
    for part in text.split(_SEPARATOR):
        written = part.hex()
        words += [written[at : at + 2 * GRAM] for at in range(0, len(written), 2)]
    return " ".join(words)


def index_some(connection: sqlite3.Connection) -> bool:
    """Index some waiting threads in a transaction. Returns whether more are waiting."""
    if not has_thread_index(connection):
        return False
    index = ThreadIndex(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        index.advance(AT_ONCE)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return index.waiting() > 0


def has_thread_index(connection: sqlite3.Connection) -> bool:
    """Return whether the index exists: it is created once enough threads wait."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'thread_grams'").fetchone())


def found_threads(
    connection: sqlite3.Connection,
    statements: Mapping[str, str],
    kind: str,
    asked: Mapping[str, Any],
    labels: Sequence[bytes] = (),
) -> list[Row]:
    """The rows of the page `asked` describes: threads with the needle and all `labels`.
    `statements[kind]` scans by time."""
    by_text = bool(asked["search"]) and has_thread_index(connection)
    reach = REACH if by_text or labels else None
    while reach is not None:
        numbers = _labelled(connection, labels, reach)
        if numbers is None and by_text:
            try:
                numbers = _candidates(connection, asked["search"], reach)
            except sqlite3.DatabaseError as error:
                if not is_index_unusable(error):
                    raise
                by_text = False
        if numbers is not None:
            return _among(connection, statements, numbers, asked)
        floor = connection.execute(_READS[f"floor_{kind}"], {**asked, "reach": reach}).fetchone()
        if floor is None:
            break
        rows = connection.execute(statements[kind], {**asked, "floor": floor[0]}).fetchall()
        if len(rows) == asked["limit"]:
            return rows
        reach *= _REACH_FACTOR
    return connection.execute(statements[kind], asked).fetchall()


def _labelled(connection: sqlite3.Connection, labels: Sequence[bytes], reach: int) -> set[int] | None:
    """At least all threads with all `labels`; `None` if each of the labels has more than `reach`."""
    found: set[int] | None = None
    for label in labels:
        rows = connection.execute(_READS["labelled"], {"label": label.hex(), "limit": reach + 1}).fetchall()
        if len(rows) <= reach:
            having = {number for (number,) in rows}
            found = having if found is None else found & having
    return found


def _candidates(connection: sqlite3.Connection, needle: bytes, reach: int) -> set[int] | None:
    """At least all threads with `needle`; `None` if the index has more than `reach`."""

    def up_to_reach(name: str, gram: str = "") -> set[int] | None:
        rows = connection.execute(_READS[name], {"gram": gram, "limit": reach + 1}).fetchall()
        return {number for (number,) in rows} if len(rows) <= reach else None

    waiting = up_to_reach("waiting")
    if waiting is None:
        return None
    written = needle.hex()
    if len(needle) < GRAM:
        found = up_to_reach("with_grams_from", written)
        return None if found is None else found | waiting
    count = len(needle) - GRAM + 1
    found = None
    # From the end: names and ids with something in common mostly have the same beginning.
    for at in range(count - 1, -1, -max(1, -(-count // _MOST_GRAMS))):
        having = up_to_reach("with_gram", written[2 * at : 2 * (at + GRAM)])
        if having is not None:
            found = having if found is None else found & having
            if len(found) <= _FEW:
                break
    return None if found is None else found | waiting


def _among(
    connection: sqlite3.Connection, statements: Mapping[str, str], numbers: set[int], asked: Mapping[str, Any]
) -> list[Row]:
    """The page of those threads in `numbers` that match."""
    candidates = json.dumps(list(numbers))
    matching = connection.execute(statements["matching"], {**asked, "numbers": candidates}).fetchall()
    matching.sort(reverse=True)
    start, limit = asked["offset"], asked["limit"]
    page = [number for _, number in matching[start : None if limit < 0 else start + limit]]
    rows = connection.execute(statements["numbered_threads"], {"numbers": json.dumps(page)}).fetchall()
    by_number = {row[-1]: row[:-1] for row in rows}
    return [by_number[number] for number in page]
