"""Search across threads: the messages of one user, or of all, that contain a text.

The plan (`storage.search_plan`) says what to read. The index (`search_index.py`) only saves time: a
search that finds it damaged reads all messages instead.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from clew.model.config import ANY_USER
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage
from clew.storage.columns import MESSAGE
from clew.storage.conversions import bytes_text, micros, text_bytes
from clew.storage.search_filter import DamagedFilterError
from clew.storage.search_plan import (
    DIRECT_THREADS,
    MANY_WAITING,
    Cells,
    Chunks,
    Own,
    Request,
    Scan,
    Segments,
    Waiting,
    is_direct,
    is_due,
    search_plan,
)
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.search_index import PART_BITS, has_search_index, members_of, segment_of, waiting

EARLIEST: Final = micros(datetime.min.replace(tzinfo=UTC))
LATEST: Final = micros(datetime.max.replace(tzinfo=UTC))
"""The times that a message can have. Others are damage."""
_COLUMNS: Final = (
    "thread_id, user_id, message_id, messages.text, tool_calls, messages.run_id, messages.created_at, messages.data,"
    " messages.sequence, input_tokens, output_tokens"
)
_FOUND: Final = (
    "instr(messages.text, :search) > 0 AND (messages.created_at, thread_id, message_id) < (:at, :thread, :message)"
    " AND messages.created_at >= :earliest"
)
_PAGE: Final = "ORDER BY messages.created_at DESC, thread_id DESC, message_id DESC LIMIT :limit"
_SQL: Final = {
    name: text.format(columns=_COLUMNS, found=_FOUND, page=_PAGE) for name, text in named("search.sql").items()
}
_PARTS: Final = (1 << PART_BITS) - 1


class Answer(NamedTuple):
    """The result of a search, and the state of the index: work to do, or damage."""

    found: list[FoundMessage]
    due: bool = False
    damaged: bool = False


def search(connection: sqlite3.Connection, query: SearchQuery) -> Answer:
    """Answer `query` from one snapshot."""
    reader = _Reader(connection, query)
    own = reader.own()
    if is_direct(own):
        return Answer(reader.answer(Scan()))
    try:
        if not has_search_index(connection):
            return Answer(reader.answer(Scan()), due=True)
        count = waiting(connection, MANY_WAITING + 1)
        plan = search_plan(query, text_bytes(query.search), own, count)
        try:
            request = next(plan)
            while True:
                request = plan.send(reader.answer(request))
        except StopIteration as done:
            return Answer(done.value, due=is_due(count))
    except (DamagedFilterError, sqlite3.DatabaseError):
        # If the index is not the cause, this raises, too.
        return Answer(reader.answer(Scan()), damaged=True)


class _Reader:
    """Answers the requests of a plan."""

    def __init__(self, connection: sqlite3.Connection, query: SearchQuery) -> None:
        self._connection = connection
        self._query = query
        self._kind = "of_all" if query.user is ANY_USER else "of_user"
        self._asked = _parameters(query)

    def own(self) -> int | None:
        """Return how many messages the user has; `None` if there are more than `DIRECT_THREADS` threads."""
        messages, threads = self._own(DIRECT_THREADS + 1)
        return None if threads > DIRECT_THREADS else messages

    def _own(self, most: int) -> tuple[int, int]:
        """Return how many messages `most` threads of the user have (-1: all), and how many threads there are."""
        asked = {"user": self._asked["user"], "most": most}
        messages, threads = self._connection.execute(_SQL[f"search_own_{self._kind}"], asked).fetchone()
        return messages, threads

    def answer(self, request: Request) -> list[Any]:
        execute = self._connection.execute
        match request:
            case Scan():
                return self._found(f"search_scan_{self._kind}")
            case Waiting():
                return self._found("search_among_waiting")
            case Segments():
                return list(map(segment_of, execute(_SQL["search_segments"])))
            case Own():
                return [self._own(-1)[0]]
            case Cells(segments, parts):
                places = [segment << PART_BITS | part for segment in segments for part in parts]
                rows = execute(_SQL["search_cells"], (json.dumps(places),))
                return [(place >> PART_BITS, place & _PARTS, stored) for place, stored in rows]
            case Chunks(numbers):
                chunks = execute(_SQL["search_chunks"], (json.dumps(numbers),)).fetchall()
                if len(chunks) != len(numbers):
                    raise DamagedFilterError("a chunk of the search index is missing")
                members = dict.fromkeys(number for (stored,) in chunks for number in members_of(stored))
                return self._found("search_among", numbers=json.dumps(list(members)))

    def _found(self, statement: str, **more: Any) -> list[FoundMessage]:
        """Return the page of the messages that the statement reads."""
        parameters, limit = {**self._asked, **more}, self._query.limit
        found: list[FoundMessage] = []
        while limit != 0:
            rows = self._connection.execute(_SQL[statement], parameters).fetchall()
            found += [each for each in map(_found_message, rows) if each is not None]
            if len(rows) != limit or len(found) >= limit:
                break
            # Damaged ones were left out: continue after the last row.
            thread, _, message, _, _, _, at, *_ = rows[-1]
            parameters |= {"at": at, "thread": thread, "message": message}
        return found[:limit]


def _parameters(query: SearchQuery) -> dict[str, Any]:
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


def _found_message(row: tuple[Any, ...]) -> FoundMessage | None:
    """The message in a row; `None` if it is damaged."""
    thread_id, user_id, message_id, text, *rest = row
    message = MESSAGE.record((message_id, bytes_text(text) if type(text) is bytes else None, *rest))
    if message.damage or type(thread_id) is not str or type(user_id) not in (str, type(None)):
        return None
    return FoundMessage(thread_id=thread_id, user_id=user_id, message=message)
