"""Reading and announcing the feed, on one event loop.

Commits don't notify in their own transaction: NOTIFY takes a lock that all notifying transactions of a
database share until they have committed, and so would end group commit (docs/decisions). After commits
that are in the feed, the process sends one NOTIFY for all of them. It only wakes watchers, who then read
the feed. A watcher also reads it every second, in case a writer died in between, and ten times a second
where notifications don't arrive (PgBouncer, or a pool with one connection).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from clew.answers import Answer
from clew.errors import StorageError
from clew.ids import new_id
from clew.model.feed import FeedPage, FeedQuery
from clew.storage import feed
from clew.storage.postgres import feed as snapshots
from clew.storage.postgres.connections import Connections
from clew.storage.postgres.failures import DRIVER_ERRORS
from clew.storage.postgres.queries import Statements
from clew.storage.postgres.users import UserColumn

_LOOK_SECONDS: Final = 0.1
"""How often a waiting watcher reads the feed without notifications."""
_LOOK_SECONDS_LISTENING: Final = 1.0
"""How often with them."""
_PROBE_SECONDS: Final = 1.0
"""How long the notification that tests the channel may take."""
_NOTIFY_SECONDS: Final = 0.02
"""How long notifications are collected."""


class Watching:
    """The feed for one event loop: pages, and notifications in both directions."""

    def __init__(self, connections: Connections, statements: Statements, users: UserColumn, schema: str) -> None:
        self._connections = connections
        self._statements = statements
        self._users = users
        self._channel = f"clew_{sha256(schema.encode()).hexdigest()[:24]}"
        self._bell = feed.Bell()
        self._listener: Any = None
        self._listening: asyncio.Task[None] | None = None
        self._deaf = False
        """Whether notifications don't arrive here."""
        self._notifying: asyncio.Task[None] | None = None
        self._news = False
        self._read_since_trim = 0

    # Writing

    def announce(self) -> None:
        """Wake watchers, here and elsewhere, because a commit is in the feed."""
        self._bell.ring()
        self._news = True
        if self._notifying is None:
            self._notifying = asyncio.get_running_loop().create_task(self._notify(), context=Context())

    async def _notify(self) -> None:
        try:
            while self._news:
                self._news = False
                await self._connections.fetch("SELECT pg_notify($1, '')", [self._channel])
                await asyncio.sleep(_NOTIFY_SECONDS)
        except StorageError:
            # Watchers look for themselves, too.
            pass
        finally:
            self._notifying = None

    # Reading

    async def page(self, query: FeedQuery) -> FeedPage:
        """Answer `query`. See `Storage.feed`."""
        heard = self._bell.listen()
        try:
            page = await self._page(query)
            if not query.wait or query.after is None:
                return page
            loop = asyncio.get_running_loop()
            deadline = loop.time() + query.wait
            while not page.entries and not page.gap and (left := deadline - loop.time()) > 0:
                await feed.heard_within(heard, min(left, self._look_seconds()))
                if heard.done:
                    heard = self._bell.listen()
                page = await self._page(query)
            return page
        finally:
            self._bell.hang_up(heard)

    async def _page(self, query: FeedQuery) -> FeedPage:
        question = snapshots.asked(query)
        gap = False
        while True:
            rows = await self._connections.fetch(self._statements.feed, question.parameters())
            page = snapshots.page(question, query, rows, self._users)
            if page is None or rows[0]["note"]:
                await self._connections.fetch(self._statements.watch, snapshots.watch_parameters(new_id()[-10:]))
            if page is not None:
                break
            # Nobody watched until now.
            gap = query.after is not None
            query = FeedQuery()
            question = snapshots.asked(query)
        self._read_since_trim += len(page.entries)
        if self._read_since_trim >= feed.TRIMMED:
            self._read_since_trim = 0
            await self._connections.fetch(self._statements.feed_trim, [feed.LENGTH])
        return replace(page, gap=page.gap or gap)

    # Listening

    def _look_seconds(self) -> float:
        """Start to listen, and return how long to wait at most before the feed is read again."""
        if self._listener is None and self._listening is None and not self._deaf:
            self._listening = asyncio.get_running_loop().create_task(self._listen(), context=Context())
        return _LOOK_SECONDS if self._listener is None else _LOOK_SECONDS_LISTENING

    async def _listen(self) -> None:
        """Take a connection for notifications, and test whether a notification arrives on it."""
        try:
            if self._connections.most < 2:
                self._deaf = True
                return
            connection = await self._connections.keep()
            probe: Answer[None] = Answer()
            token = new_id()
            hears = self._hears(token, probe)
            try:
                connection.add_termination_listener(self._lost)
                await connection.add_listener(self._channel, hears)
                await self._connections.fetch("SELECT pg_notify($1, $2)", [self._channel, token])
                if await feed.heard_within(probe, _PROBE_SECONDS):
                    self._listener = connection, hears
                else:
                    self._deaf = True
            finally:
                if self._listener is None:
                    await self._stop(connection, hears)
        except (StorageError, *DRIVER_ERRORS):
            # The next wait tries again.
            pass
        finally:
            self._listening = None

    def _hears(self, token: str, probe: Answer[None]) -> Callable[..., None]:
        def hears(_connection: Any, _process: int, _channel: str, payload: str) -> None:
            if payload == token:
                probe.give(None)
            else:
                self._bell.ring()

        return hears

    def _lost(self, _connection: Any) -> None:
        """The connection for notifications broke: look until there is another."""
        if self._listener is not None:
            connection, _ = self._listener
            self._listener = None
            self._connections.give_back(connection)
        self._bell.ring()

    async def _stop(self, connection: Any, hears: Callable[..., None]) -> None:
        try:
            connection.remove_termination_listener(self._lost)
            await connection.remove_listener(self._channel, hears)
        except DRIVER_ERRORS:
            # It is broken.
            pass
        self._connections.give_back(connection)

    async def close(self) -> None:
        """Send what is to be announced, and give the connection back."""
        for task in (self._notifying, self._listening):
            if task is not None:
                await asyncio.wait((task,))
        if self._listener is not None:
            connection, hears = self._listener
            self._listener = None
            await self._stop(connection, hears)
        self._bell.ring()
