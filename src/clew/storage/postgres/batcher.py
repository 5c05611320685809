"""Commit batching: one statement for many threads, or for several commits of one thread in order.

If no statement is running, a commit is sent at once. Commits that arrive meanwhile wait, and the
next statement takes as many as it can, in order of arrival: either one commit for each of many
threads, or a series, which is several commits of one thread that are decided one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice, takewhile
from typing import Any

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.batching import Batch, BatchRunner, fail
from clew.storage.execution import run_to_end
from clew.storage.postgres.commits import is_append
from clew.storage.postgres.connections import RELEASE_TIMEOUT

STATEMENTS = 4
"""Maximum number of concurrent statements."""
BATCH = 32
"""Maximum number of commits in a statement: one batch is encoded while the server runs another."""

Outcome = Applied | ClewError


class _Entry:
    """A waiting commit, and the future of its outcome."""

    __slots__ = ("append", "commit", "done", "keys", "left", "serial", "taken")

    def __init__(self, commit: Commit, done: asyncio.Future[Outcome]) -> None:
        self.commit = commit
        self.done = done
        self.left = self.taken = False
        self.append = is_append(commit)
        self.serial = self.append and commit.basis is not None
        fork = commit.fork
        # A fork must see the commits to its source that were submitted before it.
        self.keys = (commit.thread_id,) if fork is None else tuple({commit.thread_id, fork.thread_id})


class Batcher:
    """Batches the commits of one event loop.

    `many` applies appends to several threads in one statement, `series` appends to one thread,
    `one` a single commit of any kind.
    """

    def __init__(
        self,
        many: Callable[[Sequence[Commit]], Awaitable[list[Applied | None]]],
        series: Callable[[Sequence[Commit]], Awaitable[list[Outcome | None]]],
        one: Callable[[Commit], Awaitable[Outcome]],
    ) -> None:
        self._many, self._series, self._one = many, series, one
        self._queues: dict[str, deque[_Entry]] = {}
        self._appends: deque[_Entry] = deque()
        self._others: deque[_Entry] = deque()
        self._runner = BatchRunner(STATEMENTS, self._next, doing="a batch of commits")
        self._given_up = False

    async def apply(self, commit: Commit) -> Outcome:
        """Apply `commit` and return its outcome.

        If the caller is cancelled, the commit may still be applied. The cancellation is then
        delivered after the server's answer, so that this commit can't overtake the caller's next
        one.
        """
        if self._queues:
            outcome = self.submit(commit)
            try:
                return await asyncio.shield(outcome)
            except asyncio.CancelledError:
                await run_to_end(_settled(outcome))
                raise
        # Nothing else is running, so this task sends the commit itself.
        entry = _Entry(commit, self._runner.loop.create_future())
        for key in entry.keys:
            self._queues[key] = deque((entry,))
        try:
            await self._runner.do(self._run_many([entry]) if entry.append else self._run_one(entry))
        except BaseException:
            self._lose((entry,))
            raise
        return await entry.done

    def submit(self, commit: Commit) -> asyncio.Future[Outcome]:
        """Queue `commit` and return the future of its outcome. Cancelling it does not stop it."""
        entry = _Entry(commit, self._runner.loop.create_future())
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
        """Wait for all submitted commits, but fail them after `patience` seconds of silence."""
        while self._runner.tasks or self._queues:
            # A commit that a caller's own task sends has no task here, but must be waited for too.
            waiting: set[asyncio.Future[Any]] = {*self._runner.tasks} or {
                queue[0].done for queue in self._queues.values()
            }
            answered, _ = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not answered:
                await self._give_up()
                break
            await asyncio.sleep(0)

    async def _give_up(self) -> None:
        """Cancel the running statements and send no more."""
        self._given_up = True
        while tasks := self._runner.tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _make_ready(self, entry: _Entry) -> None:
        (self._appends if entry.append else self._others).append(entry)
        self._runner.call()

    def _next(self) -> Batch | None:
        if self._others:
            entry = self._others.popleft()
            return Batch(self._run_one(entry), partial(self._lose, (entry,)))
        ready = self._appends
        if not ready:
            return None
        if self._has_series(ready[0]):
            series = self._taken_series(ready.popleft())
            return Batch(self._run_series(series), partial(self._lose, series))
        entries = [ready.popleft()]
        while ready and len(entries) < BATCH and not self._has_series(ready[0]):
            entries.append(ready.popleft())
        return Batch(self._run_many(entries), partial(self._lose, entries))

    def _has_series(self, entry: _Entry) -> bool:
        """Return whether the next commit of the same thread can go in one statement with `entry`."""
        if not entry.serial:
            return False
        queue = self._queues[entry.commit.thread_id]
        return len(queue) > 1 and queue[1].serial

    def _taken_series(self, entry: _Entry) -> list[_Entry]:
        """Return the series that begins with `entry`, the first of its thread. Its length is a
        power of two, which limits the number of different statements."""
        waiting = list(takewhile(lambda each: each.serial, islice(self._queues[entry.commit.thread_id], BATCH)))
        series = waiting[: 1 << len(waiting).bit_length() - 1]
        for each in series:
            each.taken = True
        return series

    async def _run_many(self, entries: list[_Entry]) -> None:
        try:
            self._check()
            outcomes = await self._many([entry.commit for entry in entries])
        except TransientStorageError as error:
            self._fail(entries, error)
        except StorageError:
            # One of them was applied before or is invalid: send them one at a time.
            self._others.extend(entries)
        else:
            for entry, outcome in zip(entries, outcomes, strict=True):
                if outcome is None:
                    self._others.append(entry)
                else:
                    self._settle(entry, outcome)

    async def _run_series(self, entries: list[_Entry]) -> None:
        try:
            self._check()
            outcomes = await self._series([entry.commit for entry in entries])
        except TransientStorageError as error:
            self._fail(entries, error)
        except StorageError:
            # One of them is invalid: send them one at a time.
            for entry in entries:
                await self._run_one(entry)
        else:
            for entry, outcome in zip(entries, outcomes, strict=True):
                if outcome is None:
                    await self._run_one(entry)
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
                "the storage was closed while the server did not answer, and the commit was not sent; try again"
            )

    def _settle(self, entry: _Entry, outcome: Outcome) -> None:
        if not entry.done.done():
            entry.done.set_result(outcome)
        self._leave(entry)

    def _lose(self, entries: Sequence[_Entry]) -> None:
        """Fail the entries that have no outcome because their task was cancelled or raised."""
        waiting = [entry for entry in entries if not entry.left]
        self._fail(waiting, TransientStorageError("the commit was interrupted; try again"))

    def _fail(self, entries: Sequence[_Entry], error: StorageError) -> None:
        for entry in entries:
            fail(entry.done, error)
            self._leave(entry)

    def _leave(self, entry: _Entry) -> None:
        """Take `entry` out of its queues, and make the next commits there ready."""
        entry.left = True
        for key in entry.keys:
            queue = self._queues[key]
            queue.popleft()
            if not queue:
                del self._queues[key]
                continue
            following = queue[0]
            if not following.taken and all(self._queues[each][0] is following for each in following.keys):
                self._make_ready(following)


async def _settled(outcome: asyncio.Future[Outcome]) -> None:
    await asyncio.wait((outcome,), timeout=RELEASE_TIMEOUT)
