"""Search across threads: the messages of one user, or of all, that contain a text.

The plan (`storage.search_plan`) says what to read; `search_index.py` maintains the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from clew.model.config import ANY_USER
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage
from clew.storage.conversions import micros
from clew.storage.postgres.lists import Question
from clew.storage.postgres.queries import message_records
from clew.storage.postgres.texts import escaped, pattern, unescaped
from clew.storage.postgres.users import UserColumn
from clew.storage.search_filter import DamagedFilterError
from clew.storage.search_plan import (
    DIRECT_THREADS,
    MANY_WAITING,
    Cells,
    Chunks,
    Own,
    Request,
    Scan,
    Segment,
    Segments,
    Waiting,
    search_plan,
)

EARLIEST: Final = micros(datetime.min.replace(tzinfo=UTC))
LATEST: Final = micros(datetime.max.replace(tzinfo=UTC))
"""The times that a message can have. Others are damage."""
_KINDS: Final = ("search_of_user", "search_of_nobody", "search_of_all")


class Search:
    """Searches in one schema."""

    def __init__(self, sql: Mapping[str, str], users: UserColumn) -> None:
        self._sql = sql
        self._users = users

        def filled(name: str, kind: str, among: str = "") -> str:
            text = sql[name].replace("@among", sql.get(among, "")).replace("@which", sql[kind])
            return text.replace("@columns", sql["search_columns"]).replace("@page", sql["search_page"])

        self._own = {kind: sql["search_own"].replace("@which", sql[kind].replace("$7", "$2")) for kind in _KINDS}
        self._scans = {kind: filled("search_scan", kind) for kind in _KINDS}
        self._waiting = {kind: filled("search_among", kind, "search_among_waiting") for kind in _KINDS}
        self._chunks = {
            kind: filled("search_among", kind, "search_among_chunks").replace(
                "@chunks", "$8" if kind == "search_of_user" else "$7"
            )
            for kind in _KINDS
        }

    def own(self, query: SearchQuery) -> Question:
        """Return the question for the number of the user's messages and threads."""
        kind, user = self._user(query)
        return self._own[kind], [DIRECT_THREADS + 1, *user]

    def scan(self, query: SearchQuery) -> Question:
        """Return the question that reads all messages of the user."""
        kind, user = self._user(query)
        return self._scans[kind], [*_page(query), *user]

    async def run(self, connection: Any, query: SearchQuery, own: int | None) -> tuple[list[FoundMessage], int]:
        """Return the page, and how many messages wait to be indexed, from the transaction's snapshot."""
        waiting = await connection.fetchval(self._sql["search_waiting"], MANY_WAITING + 1)
        plan = search_plan(query, escaped(query.search).encode(), own, waiting)
        try:
            request = next(plan)
            while True:
                request = plan.send(await self._answer(connection, query, request))
        except StopIteration as done:
            return done.value, waiting
        except DamagedFilterError:
            return await self._answer(connection, query, Scan()), waiting

    async def _answer(self, connection: Any, query: SearchQuery, request: Request) -> list[Any]:
        kind, user = self._user(query)
        match request:
            case Scan():
                return self.found(await connection.fetch(self._scans[kind], *_page(query), *user))
            case Waiting():
                return self.found(await connection.fetch(self._waiting[kind], *_page(query), *user))
            case Segments():
                return [Segment(*row) for row in await connection.fetch(self._sql["search_segments"])]
            case Own():
                return [await connection.fetchval(self._own[kind], None, *user)]
            case Cells(segments, parts):
                return list(await connection.fetch(self._sql["search_cells"], segments, parts))
            case Chunks(numbers):
                return self.found(await connection.fetch(self._chunks[kind], *_page(query), *user, numbers))

    def _user(self, query: SearchQuery) -> tuple[str, list[Any]]:
        if query.user is ANY_USER:
            return "search_of_all", []
        user = self._users.stored(query.user)
        return ("search_of_nobody", []) if user is None else ("search_of_user", [user])

    def found(self, rows: Iterable[Any]) -> list[FoundMessage]:
        """Return what the rows describe, without damaged messages."""
        found: list[FoundMessage] = []
        for thread_id, user_id, *columns in rows:
            (message,) = message_records([columns])
            if not message.damage:
                owner = self._users.read(user_id)
                found.append(FoundMessage(thread_id=unescaped(thread_id), user_id=owner, message=message))
        return found


def _page(query: SearchQuery) -> list[Any]:
    at, thread, message = query.before or (None, "", "")
    bounds = [LATEST + 1 if at is None else micros(at), escaped(thread), escaped(message), EARLIEST]
    return [query.limit, pattern(query.search), *bounds]
