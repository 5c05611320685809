"""Commits that wait go together: one statement for many threads, while a thread's own go one after the other.

A commit goes at once if the server has nothing to do. Those that come while statements are under way gather, and the next
statement takes all that it may: at most one commit of a thread, in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.postgres.commits import is_usual
from clew.storage.together import Crew, Work, fail

STATEMENTS = 4
"""How many statements are under way at once at most."""
BATCH = 32
"""How many commits go in one at most: with many waiting, one batch is prepared while the server does another."""

Outcome = Applied | ClewError


class _Entry:
    """A commit that waits, and who waits for it."""

    __slots__ = ("commit", "done", "keys", "left", "usual")

    def __init__(self, commit: Commit, done: asyncio.Future[Outcome]) -> None:
        self.commit = commit
        self.done = done
        self.left = False
        self.usual = is_usual(commit)
        fork = commit.fork
        # A fork reads its source as the commits before it left it.
        self.keys = (commit.thread_id,) if fork is None else tuple({commit.thread_id, fork.thread_id})


class Batcher:
    """The commits of one event loop. `many` applies usual ones in one statement, `one` any commit in one of its own."""

    def __init__(
        self,
        many: Callable[[Sequence[Commit]], Awaitable[list[Applied | None]]],
        one: Callable[[Commit], Awaitable[Outcome]],
    ) -> None:
        self._many, self._one = many, one
        self._queues: dict[str, deque[_Entry]] = {}
        self._usual: deque[_Entry] = deque()
        self._others: deque[_Entry] = deque()
        self._crew = Crew(STATEMENTS, self._next, doing="a batch of commits")
        self._given_up = False

    async def apply(self, commit: Commit) -> Outcome:
        """What comes of `commit`. A caller that is cancelled may have been too late to stop it."""
        if self._queues:
            return await self.submit(commit)
        # Nobody else is here: no need to hand it over.
        entry = _Entry(commit, self._crew.loop.create_future())
        for key in entry.keys:
            self._queues[key] = deque((entry,))
        try:
            await self._crew.do(self._run_many([entry]) if entry.usual else self._run_one(entry))
        except BaseException:
            self._lose((entry,))
            raise
        return await entry.done

    def submit(self, commit: Commit) -> asyncio.Future[Outcome]:
        """What will come of `commit`. A caller that gives up waiting does not stop it."""
        entry = _Entry(commit, self._crew.loop.create_future())
        first = True
        for key in entry.keys:
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = deque()
            first = first and not queue
            queue.append(entry)
        if first:
            self._make_ready(entry)
        return entry.done

    async def finish(self, patience: float) -> None:
        """Wait for everything that was submitted; once the server answers nothing for `patience` seconds, give up the rest."""
        while self._crew.tasks or self._queues:
            # Someone's own task has none of the crew's, but is waited for.
            waiting: set[asyncio.Future[Any]] = {*self._crew.tasks} or {
                queue[0].done for queue in self._queues.values()
            }
            answered, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not answered:
                await self._give_up()
                break
            await asyncio.sleep(0)

    async def _give_up(self) -> None:
        """Nothing is sent any more, and nobody waits for what was."""
        self._given_up = True
        while tasks := self._crew.tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _make_ready(self, entry: _Entry) -> None:
        (self._usual if entry.usual else self._others).append(entry)
        self._crew.call()

    def _next(self) -> Work | None:
        if self._others:
            entry = self._others.popleft()
            return Work(self._run_one(entry), partial(self._lose, (entry,)))
        taken = self._usual
        if not taken:
            return None
        if len(taken) <= BATCH:
            self._usual = deque()
            entries = list(taken)
        else:
            entries = [taken.popleft() for _ in range(BATCH)]
        return Work(self._run_many(entries), partial(self._lose, entries))

    async def _run_many(self, entries: list[_Entry]) -> None:
        try:
            self._check()
            outcomes = await self._many([entry.commit for entry in entries])
        except TransientStorageError as error:
            self._fail(entries, error)
        except StorageError:
            # One of them was applied before, or is at fault: each by itself shows which.
            self._others.extend(entries)
        else:
            for entry, outcome in zip(entries, outcomes, strict=True):
                if outcome is None:
                    self._others.append(entry)
                else:
                    self._settle(entry, outcome)

    async def _run_one(self, entry: _Entry) -> None:
        try:
            self._check()
            outcome = await self._one(entry.commit)
        except StorageError as error:
            self._fail([entry], error)
        else:
            self._settle(entry, outcome)

    def _check(self) -> None:
        if self._given_up:
            raise TransientStorageError(
                "the storage was closed while the server did not answer; the commit was not sent"
            )

    def _settle(self, entry: _Entry, outcome: Outcome) -> None:
        if not entry.done.done():
            entry.done.set_result(outcome)
        self._leave(entry)

    def _lose(self, entries: Sequence[_Entry]) -> None:
        """Fail those whose statement was cancelled, perhaps before it began, or broke off."""
        waiting = [entry for entry in entries if not entry.left]
        self._fail(waiting, TransientStorageError("the commit was interrupted; try again"))

    def _fail(self, entries: Sequence[_Entry], error: StorageError) -> None:
        for entry in entries:
            fail(entry.done, error)
            self._leave(entry)

    def _leave(self, entry: _Entry) -> None:
        """Let those that waited for this commit's thread come up."""
        entry.left = True
        for key in entry.keys:
            queue = self._queues[key]
            queue.popleft()
            if not queue:
                del self._queues[key]
                continue
            following = queue[0]
            if all(self._queues[each][0] is following for each in following.keys):
                self._make_ready(following)
