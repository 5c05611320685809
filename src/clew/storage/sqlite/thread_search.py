"""Finding threads by a part of their text, the last active first, at the cost of whichever way is cheaper.

A needle that many threads have is found soon by going through the threads from the newest on; one that few have, through the
index. Which it is shows on the way: both are tried with a bound on the threads looked at, and if neither comes to an end, with
a larger one. So a search costs a fixed number of times what the better way does, and only where a needle is rare among
the user's threads, and all its parts are common in the store, does that grow with the number of threads.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from clew.storage.sqlite.damage import lacks_index
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread_index import GRAM, has_thread_index

REACH = 256
"""How many threads each way looks at first."""
_FURTHER = 8
_PARTS = 8
"""How many parts of a needle are looked up at most."""
_FEW = 16
"""So few candidates are verified sooner than another part is looked up."""

_SQL = named("reads.sql")

Row = tuple[Any, ...]


def found_threads(
    connection: sqlite3.Connection, statements: Mapping[str, str], kind: str, asked: Mapping[str, Any]
) -> list[Row]:
    """The rows of the page that `asked` asks for. `statements` has the statement `kind` that goes by time."""
    reach = REACH if has_thread_index(connection) else None
    while reach is not None:
        try:
            numbers = _candidates(connection, asked["search"], reach)
        except sqlite3.DatabaseError as error:
            if not lacks_index(error):
                raise
            break
        if numbers is not None:
            return _among(connection, statements, numbers, asked)
        floor = connection.execute(_SQL[f"floor_{kind}"], {"user": asked["user"], "reach": reach}).fetchone()
        if floor is None:
            break
        rows = connection.execute(statements[kind], {**asked, "floor": floor[0]}).fetchall()
        if len(rows) == asked["limit"]:
            return rows
        reach *= _FURTHER
    return connection.execute(statements[kind], asked).fetchall()


def _candidates(connection: sqlite3.Connection, needle: bytes, reach: int) -> set[int] | None:
    """At least every thread with `needle` in its text or id; None if the index names more than `reach`."""

    def up_to_reach(name: str, gram: str = "") -> set[int] | None:
        rows = connection.execute(_SQL[name], {"gram": gram, "limit": reach + 1}).fetchall()
        return {number for (number,) in rows} if len(rows) <= reach else None

    waiting = up_to_reach("waiting")
    if waiting is None:
        return None
    written = needle.hex()
    if len(needle) < GRAM:
        found = up_to_reach("with_grams_from", written)
        return None if found is None else found | waiting
    parts = len(needle) - GRAM + 1
    found = None
    # From the end: names and ids that have something in common mostly begin alike.
    for part in range(parts - 1, -1, -max(1, -(-parts // _PARTS))):
        having = up_to_reach("with_gram", written[2 * part : 2 * (part + GRAM)])
        if having is not None:
            found = having if found is None else found & having
            if len(found) <= _FEW:
                break
    return None if found is None else found | waiting


def _among(
    connection: sqlite3.Connection, statements: Mapping[str, str], numbers: set[int], asked: Mapping[str, Any]
) -> list[Row]:
    """The page of those of `numbers` that are what is asked for."""
    candidates = json.dumps(list(numbers))
    matching = connection.execute(_SQL["matching"], {**asked, "numbers": candidates}).fetchall()
    matching.sort(reverse=True)
    start, limit = asked["offset"], asked["limit"]
    page = [number for _, number in matching[start : None if limit < 0 else start + limit]]
    rows = connection.execute(statements["numbered_threads"], {"numbers": json.dumps(page)}).fetchall()
    by_number = {row[-1]: row[:-1] for row in rows}
    return [by_number[number] for number in page]
