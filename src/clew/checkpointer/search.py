"""Search across threads: the messages of a user that contain a text."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

from clew.checkpointer.arguments import checked_limit
from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import Engine
from clew.checkpointer.records import BAD_RECORD, message_of
from clew.checkpointer.runner import Runner
from clew.checkpointer.snippets import snippet
from clew.errors import ConfigError, shown
from clew.model.config import AnyUser
from clew.model.message import folded
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage, Place
from clew.model.search import SearchHit
from clew.storage.protocol import COPYING, UNFINISHED

_HIDDEN: Final = (COPYING, UNFINISHED)
"""Owners of copies that are not complete yet."""


class SearchMethods:
    """Methods that search all threads of a user."""

    _runner: Runner
    _engine: Engine

    async def asearch(
        self,
        text: str,
        *,
        user_id: str | int | AnyUser | None = None,
        limit: int | None = 20,
        before: SearchHit | str | None = None,
    ) -> list[SearchHit]:
        """Find the messages that contain `text` in all threads of a user, newest first.

        `text` is a substring in any language; case doesn't matter. It is also found in names and
        arguments of tool calls, and in tools' results. Finds messages of the threads that `user_id`
        owns; without it, of the threads without an owner; with `clew.ANY_USER`, of all. Messages on
        all branches of a thread are found. Damaged messages are left out.

        Hits are ordered by the messages' `created_at`. `before` is a hit, or its `position`: the
        search continues after it, and repeats or skips nothing while others write.
        """
        query = SearchQuery(
            user=self._engine.users.given(user_id),
            search=_checked_text(text),
            limit=checked_limit(limit),
            before=_place_of(before),
        )
        hits: list[SearchHit] = []
        while True:
            left = None if query.limit is None else query.limit - len(hits)
            found = await self._found(query, left)
            hits += [hit for each in found if (hit := self._hit(each, query.search)) is not None]
            # If some were left out, there may be more.
            if left is None or len(found) < left or len(hits) == query.limit:
                return hits
            query = SearchQuery(user=query.user, search=query.search, limit=query.limit, before=found[-1].place)

    search = blocking(asearch)

    async def _found(self, query: SearchQuery, limit: int | None) -> list[FoundMessage]:
        engine = self._engine
        asked = SearchQuery(user=query.user, search=query.search, limit=limit, before=query.before)
        return await engine.retry(lambda: engine.storage.search(asked))

    def _hit(self, found: FoundMessage, needle: str) -> SearchHit | None:
        """The hit; `None` for a damaged message, and for one of a copy that is not complete."""
        if found.user_id in _HIDDEN:
            return None
        try:
            message = message_of(self._engine.codec, found.message)
        except BAD_RECORD:
            return None
        part, start, end = snippet(message.search_text(), needle)
        return SearchHit(
            thread_id=found.thread_id,
            user_id=self._engine.users.shown(found.user_id),
            message=message,
            snippet=part,
            start=start,
            end=end,
            position=_position(found.place),
        )


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"search takes a text, not {type(text).__name__}")
    if not text:
        raise ConfigError("search needs a text to find; list_threads and list_messages list everything")
    return folded(text)


def _position(place: Place) -> str:
    at, thread_id, message_id = place
    return json.dumps([at.isoformat(), thread_id, message_id], ensure_ascii=False)


def _place_of(before: SearchHit | str | None) -> Place | None:
    """The place that a position names. Raises ConfigError for another text."""
    if before is None:
        return None
    position = before.position if isinstance(before, SearchHit) else before
    try:
        at, thread_id, message_id = json.loads(position)
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not isinstance(thread_id, str) or not isinstance(message_id, str):
            raise ValueError(position)
        # The texts must be valid: no thread id has a lone surrogate.
        (thread_id + message_id).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"before must be a hit or the position of one, not {shown(before)}") from error
    return moment, thread_id, message_id
