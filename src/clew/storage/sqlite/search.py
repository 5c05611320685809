"""Search across threads: the messages of one user, or of all, that contain a text."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import Any, Final

from clew.model.config import ANY_USER
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage
from clew.storage.columns import MESSAGE
from clew.storage.conversions import bytes_text, micros, text_bytes
from clew.storage.sqlite.schema import named

_SQL = named("reads.sql")
EARLIEST: Final = micros(datetime.min.replace(tzinfo=UTC))
LATEST: Final = micros(datetime.max.replace(tzinfo=UTC))
"""The times that a message can have. Others are damage."""


def search(connection: sqlite3.Connection, query: SearchQuery) -> list[FoundMessage]:
    """Answer `query` from one snapshot."""
    parameters = asked(query)
    found: list[FoundMessage] = []
    while parameters["limit"]:
        rows = connection.execute(_SQL["search_scan"], parameters).fetchall()
        found += filter(_is_intact, map(found_message, rows))
        if len(rows) != parameters["limit"] or len(found) == query.limit:
            break
        # Damaged ones were left out: go on after the last row.
        thread, _, message, _, _, _, at, *_ = rows[-1]
        parameters |= {"at": at, "thread": thread, "message": message}
    return found[: query.limit]


def _is_intact(found: FoundMessage) -> bool:
    return not found.message.damage


def asked(query: SearchQuery) -> dict[str, Any]:
    """Return the parameters of the statements."""
    at, thread, message = (LATEST + 1, "", "") if query.before is None else (micros(query.before[0]), *query.before[1:])
    return {
        "any": query.user is ANY_USER,
        "user": None if query.user is ANY_USER else query.user,
        "search": text_bytes(query.search),
        "at": at,
        "thread": thread,
        "message": message,
        "earliest": EARLIEST,
        "limit": -1 if query.limit is None else query.limit,
    }


def found_message(row: tuple[Any, ...]) -> FoundMessage:
    thread_id, user_id, message_id, text, *rest = row
    text = bytes_text(text) if type(text) is bytes else None
    return FoundMessage(thread_id=thread_id, user_id=user_id, message=MESSAGE.record((message_id, text, *rest)))
