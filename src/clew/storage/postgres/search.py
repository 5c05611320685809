"""Search across threads: the messages of one user, or of all, that contain a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from clew.model.config import ANY_USER
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage
from clew.storage.conversions import micros
from clew.storage.postgres.queries import Question, message_records
from clew.storage.postgres.texts import escaped, pattern, unescaped
from clew.storage.postgres.users import UserColumn

EARLIEST: Final = micros(datetime.min.replace(tzinfo=UTC))
LATEST: Final = micros(datetime.max.replace(tzinfo=UTC))
"""The times that a message can have. Others are damage."""


class Search:
    """The statements of searches in one schema."""

    def __init__(self, sql: Mapping[str, str], users: UserColumn) -> None:
        self._users = users
        self._scans = {
            kind: sql["search_scan"].replace("@which", sql[kind])
            for kind in ("search_of_user", "search_of_nobody", "search_of_all")
        }

    def scan(self, query: SearchQuery) -> Question:
        """Return the question that reads all messages of the user."""
        at, thread, message = query.before or (None, "", "")
        bounds = [LATEST + 1 if at is None else micros(at), escaped(thread), escaped(message), EARLIEST]
        parameters = [query.limit, pattern(query.search), *bounds]
        if query.user is ANY_USER:
            return self._scans["search_of_all"], parameters
        user = self._users.stored(query.user)
        if user is None:
            return self._scans["search_of_nobody"], parameters
        return self._scans["search_of_user"], [*parameters, user]

    def found(self, rows: Iterable[Any]) -> list[FoundMessage]:
        """Return what the rows describe, without damaged messages."""
        found: list[FoundMessage] = []
        for thread_id, user_id, *columns in rows:
            (message,) = message_records([columns])
            if not message.damage:
                owner = self._users.read(user_id)
                found.append(FoundMessage(thread_id=unescaped(thread_id), user_id=owner, message=message))
        return found
