"""The feed of a store, read once for all watchers of an event loop.

A hub has one task that reads the feed and hands each entry to the watchers that it concerns. So a
thousand watchers cost as much as one. A watcher that is too slow is dropped from the hub, and reads from
the store what it missed before it joins again: its memory is bounded, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextvars import Context
from typing import Final

from clew.errors import ClewError, TransientStorageError
from clew.model.config import ANY_USER, RESERVED_USER, User
from clew.model.feed import FeedEntry, FeedPage, FeedQuery
from clew.storage.execution import pause
from clew.storage.protocol import UNFINISHED, Storage

SLICE: Final = 2.0
"""Seconds for which the store is asked to wait for an entry."""
TOGETHER: Final = 0.005
"""Seconds after a page before the next one is read: under many commits, a page then has several."""
QUEUED: Final = 256
"""How many entries wait for a watcher before it has to read the store itself."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""Seconds between attempts to reach the store; doubled each time."""
_log = logging.getLogger("clew")


class Scope:
    """The threads that a watcher sees: one thread, or all threads of a user."""

    __slots__ = ("thread_id", "user")

    def __init__(self, thread_id: str | None, user: User) -> None:
        self.thread_id = thread_id
        self.user = user

    def shows(self, owner: str | None) -> bool:
        """Return whether the watcher sees threads of `owner`. It sees an unowned thread only if it names one."""
        if owner in (UNFINISHED, RESERVED_USER):
            return False
        if self.user is ANY_USER or owner == self.user:
            return True
        return owner is None and self.thread_id is not None

    def showed(self, entry: FeedEntry) -> bool:
        """Return whether the watcher saw the thread before the commit."""
        former = entry.parts.former
        if former is None:
            return self.shows(entry.owner)
        return self.shows(None if former == "-" else former[1:])

    def concerns(self, entry: FeedEntry) -> bool:
        """Return whether the watcher gets the entry."""
        if self.thread_id is not None and entry.thread_id != self.thread_id:
            return False
        return self.shows(entry.owner) or self.showed(entry)


class Member:
    """A watcher's place in a hub: the entries that wait for it, and the answer that wakes it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.entries: deque[FeedEntry] = deque()
        self.is_behind = False
        """Whether entries were left out. They have to be read from the store."""
        self.gap: str | None = None
        """Where the feed continues after a gap."""
        self.error: ClewError | None = None
        self.ended = False
        self.woken: asyncio.Future[None] | None = None

    def offer(self, entry: FeedEntry) -> None:
        if self.is_behind:
            return
        if len(self.entries) >= QUEUED:
            self.is_behind = True
        else:
            self.entries.append(entry)
            self.wake()

    def wake(self) -> None:
        if self.woken is not None and not self.woken.done():
            self.woken.set_result(None)


class Hub:
    """Reads the feed on one event loop while it has members."""

    def __init__(self, storage: Storage) -> None:
        self.loop = asyncio.get_running_loop()
        self._storage = storage
        self.position: str | None = None
        """The end of the last page that was handed out."""
        self._named: dict[str, set[Member]] = {}
        self._owned: dict[User, set[Member]] = {}
        self._count = 0
        self._joining: list[tuple[Member, asyncio.Future[str]]] = []
        self._asked: asyncio.Future[None] = self.loop.create_future()
        self._task: asyncio.Task[None] | None = None

    async def join(self, member: Member) -> str:
        """Pass all entries from now on to `member`, and return the current position."""
        joined: asyncio.Future[str] = self.loop.create_future()
        self._joining.append((member, joined))
        if not self._asked.done():
            self._asked.set_result(None)
        if self._task is None:
            self._start()
        try:
            return await joined
        except asyncio.CancelledError:
            self._joining = [each for each in self._joining if each[0] is not member]
            self.leave(member)
            raise

    def _start(self) -> None:
        self._task = self.loop.create_task(self._serve(), context=Context())
        self._task.add_done_callback(self._stopped)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        self._task = None
        # Somebody may have asked to join while the last one left.
        self._joining = [each for each in self._joining if not each[1].done()]
        if self._joining:
            self._start()

    def leave(self, member: Member) -> None:
        """Stop passing entries to `member`. Idempotent."""
        members = self._members_of(member)
        if member not in members:
            return
        members.discard(member)
        self._count -= 1
        if not members:
            by_key, key = self._place_of(member)
            by_key.pop(key, None)  # type: ignore[arg-type]
        if not self._count and not self._joining:
            self.stop()

    def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Stop, and end the watches of all members, because the checkpointer is released."""
        for member in self._everybody():
            member.ended = True
            member.wake()
        for member, joined in self._joining:
            member.ended = True
            if not joined.done():
                joined.set_result(self.position or "")
        self._joining = []
        self.stop()

    async def ended(self) -> None:
        """Wait until the task has ended."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    # Members by what they watch

    def _place_of(self, member: Member) -> tuple[dict[str, set[Member]], str] | tuple[dict[User, set[Member]], User]:
        scope = member.scope
        return (self._named, scope.thread_id) if scope.thread_id is not None else (self._owned, scope.user)

    def _members_of(self, member: Member) -> set[Member]:
        by_key, key = self._place_of(member)
        return by_key.get(key, set())  # type: ignore[arg-type]

    def _everybody(self) -> list[Member]:
        return [each for members in (*self._named.values(), *self._owned.values()) for each in members]

    def _concerned(self, entry: FeedEntry) -> Iterator[Member]:
        former = entry.parts.former
        owners: set[User] = {entry.owner, ANY_USER}
        if former is not None:
            owners.add(None if former == "-" else former[1:])
        yield from list(self._named.get(entry.thread_id, ()))
        for owner in owners:
            yield from list(self._owned.get(owner, ()))

    # Reading

    async def _serve(self) -> None:
        waiting: asyncio.Task[FeedPage] | None = None
        asked_after: str | None = None
        try:
            while self._count or self._joining:
                if self._joining:
                    await self._take_joining()
                if waiting is None:
                    asked_after = self.position
                    waiting = self.loop.create_task(self._read(FeedQuery(after=asked_after, wait=SLICE)))
                await asyncio.wait((waiting, self._asked), return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    page, waiting = waiting.result(), None
                    # If members joined meanwhile, the entries of this page were passed on already.
                    if asked_after == self.position:
                        self._hand_out(page)
                        if page.more:
                            await self._catch_up()
                        if page.entries:
                            await asyncio.sleep(TOGETHER)
        except ClewError as error:
            self._fail(error)
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

    async def _take_joining(self) -> None:
        """Read the feed to its end, and take in those who have asked before."""
        joining, self._joining = self._joining, []
        self._asked = self.loop.create_future()
        try:
            if self.position is None or not self._count:
                self.position = (await self._read(FeedQuery())).position
            else:
                await self._catch_up()
        except BaseException:
            self._joining = joining + self._joining
            raise
        for member, joined in joining:
            if joined.done():
                continue
            by_key, key = self._place_of(member)
            by_key.setdefault(key, set()).add(member)  # type: ignore[arg-type]
            self._count += 1
            joined.set_result(self.position)

    async def _catch_up(self) -> None:
        while True:
            page = await self._read(FeedQuery(after=self.position))
            self._hand_out(page)
            if not page.more:
                return

    async def _read(self, query: FeedQuery) -> FeedPage:
        """Ask the store until it answers: watchers wait until it is back."""
        return await read_feed(self._storage, query)

    def _hand_out(self, page: FeedPage) -> None:
        if page.gap:
            for member in self._everybody():
                member.entries.clear()
                member.gap = page.position
                member.wake()
        for entry in page.entries:
            for member in self._concerned(entry):
                if member.scope.concerns(entry):
                    member.offer(entry)
        self.position = page.position

    def _fail(self, error: ClewError) -> None:
        """Give the error to all members, who leave."""
        for member in self._everybody():
            member.error = error
            member.wake()
        for _, joined in self._joining:
            if not joined.done():
                joined.set_exception(error)
        self._named, self._owned, self._joining, self._count = {}, {}, [], 0


async def read_feed(storage: Storage, query: FeedQuery) -> FeedPage:
    """Return the store's answer, and wait while the store can't be reached. Raises all errors except transient ones."""
    wait = _FIRST_PAUSE
    while True:
        try:
            return await storage.feed(query)
        except TransientStorageError as error:
            if wait == _FIRST_PAUSE:
                _log.warning("watching interrupted: %s; trying again until the store answers", error)
        await pause(wait)
        wait = min(2 * wait, _LONGEST_PAUSE)
