"""Saves that go on in the background: a bounded queue, a thread's saves in their order, and nothing read before it is written.

What is stored of a user's saves of a thread is always a beginning of what was accepted: when one fails for good, those that
wait behind it are given up, and the user's next call for the thread raises the error. Another user's go on: he may be the
owner, and the first a stranger. Saves run on a loop of the checkpointer's own, so they outlive the caller's.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  (registers its end before this module does, and so ends after it)
import logging
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from clew.checkpointer.answers import Answer
from clew.checkpointer.blocking import LoopRunner
from clew.errors import ClewError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, LeaseRecord, MessageRecord, ThreadRecord
from clew.model.status import BackgroundStatus, Status
from clew.storage.offload import inline
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper

EXIT_PATIENCE = 60.0
"""For how many seconds the end of the process waits for what was accepted."""

_log = logging.getLogger("clew")
_saving: ContextVar[bool] = ContextVar("clew_saving_in_background", default=False)
R = TypeVar("R")
Whose = tuple[str, User]


class _Save:
    """A save that was accepted; `done` has a result when it is through, whatever came of it."""

    def __init__(self, whose: Whose, size: int, before: _Save | None) -> None:
        self.whose = whose
        self.size = size
        self.before = before
        self.withdrawn = False
        self.done: Answer[None] = Answer()


class Background:
    """The queue: `max_saves` and `max_bytes` bound what waits, and whoever comes then waits, too."""

    def __init__(
        self, runner: LoopRunner, *, max_saves: int, max_bytes: int, tasks: Iterable[asyncio.Task[None]]
    ) -> None:
        self._runner = runner
        self._max_saves, self._max_bytes = max_saves, max_bytes
        self._tasks = tasks
        self._closed = False
        self.begin_anew()
        _everywhere.add(self)

    def begin_anew(self) -> None:
        """Nothing waits: at first, and in a child process, whose parent saves what it accepted."""
        self._lock = threading.Lock()
        self._pending: dict[_Save, None] = {}
        self._last: dict[str, _Save] = {}
        self._entering: _Save | None = None
        self._bytes = self._failed = 0
        self._last_error: str | None = None
        self._errors: dict[Whose, Exception] = {}

    @property
    def status(self) -> BackgroundStatus:
        return BackgroundStatus(
            pending=len(self._pending), pending_bytes=self._bytes, failed=self._failed, last_error=self._last_error
        )

    async def put(self, thread_id: str, user: User, size: int, work: Callable[[], Awaitable[object]]) -> None:
        """Accept a save of the thread: `work` is done after those that were accepted before. Waits while the queue is full.

        Raises the error of an earlier save of the user's.
        """
        while True:
            if self._closed:
                raise StorageError("the checkpointer was released; make a new one")
            await self.raise_for(thread_id, user)
            with self._lock:
                self._withdraw_interrupted()
                oldest = next(iter(self._pending), None)
                full = len(self._pending) >= self._max_saves or self._bytes + size > self._max_bytes
                if oldest is None or not full:
                    self._enter(_Save((thread_id, user), size, self._last.get(thread_id)), work)
                    return
            await _wait(oldest.done)

    def _enter(self, save: _Save, work: Callable[[], Awaitable[object]]) -> None:
        """Accept `save`, under the lock. It is accepted when the last line is done: Ctrl-C may come before any other."""
        thread_id, _ = save.whose
        self._entering = save
        self._last[thread_id] = save
        self._pending[save] = None
        self._bytes += save.size
        # Under the lock, so that the loop gets them in their order.
        self._runner.start(self._do(save, work), partial(self._ended, save))
        self._entering = None

    def _withdraw_interrupted(self) -> None:
        """Forget a save whose caller was interrupted while it was entered.

        Called under the lock, so nobody enters one just now. Ctrl-C may come here, too: the next call does it again.
        """
        save = self._entering
        if save is None:
            return
        save.withdrawn = True
        thread_id, _ = save.whose
        self._pending.pop(save, None)
        self._bytes = sum(each.size for each in self._pending)
        if self._last.get(thread_id) is save:
            if save.before in self._pending:
                self._last[thread_id] = save.before
            else:
                del self._last[thread_id]
        save.done.give(None)
        self._entering = None

    async def _do(self, save: _Save, work: Callable[[], Awaitable[object]]) -> None:
        with self._lock:
            self._withdraw_interrupted()
        if save.withdrawn:
            return
        _saving.set(True)
        if save.before is not None:
            await save.before.done.arrive()
        if save.whose in self._errors:
            self._failed += 1
        else:
            await work()

    def _ended(self, save: _Save, error: BaseException | None) -> None:
        """Take `save` out, whatever came of it. An error is kept for the user's next call."""
        thread_id, _ = save.whose
        with self._lock:
            self._withdraw_interrupted()
            if save.withdrawn:
                return
            if error is not None:
                told = error if isinstance(error, Exception) else _interrupted(error)
                self._failed += 1
                self._last_error = f"thread {thread_id!r}: {str(told) or type(told).__name__}"
                self._errors[save.whose] = told
            del self._pending[save]
            self._bytes -= save.size
            if self._last.get(thread_id) is save:
                del self._last[thread_id]
            save.before = None
        save.done.give(None)

    async def finished(self, thread_id: str | None = None) -> None:
        """Wait until what was accepted of the thread, or of all, is through: up to now, however much comes meanwhile."""
        if not self._pending or _saving.get():
            return
        with self._lock:
            self._withdraw_interrupted()
            last = self._last.get(thread_id) if thread_id is not None else None
            waiting = list(self._pending) if thread_id is None else [last]
        for save in waiting:
            if save is not None:
                await _wait(save.done)

    async def settled(self, thread_id: str | None, user: User) -> None:
        """The same; then raise the error of a save of the user's, of the thread or of any, that he was not told of."""
        await self.finished(thread_id)
        if self._errors and not _saving.get():
            await self.raise_for(thread_id, user)

    async def raise_for(self, thread_id: str | None, user: User) -> None:
        """Raise the error of an earlier save of the user's, of the thread or of any; after that, he can save it again.

        `ANY_USER` is told of everybody's.
        """
        for whose in list(self._errors):
            of, by = whose
            if thread_id in (None, of) and user in (ANY_USER, by):
                break
        else:
            return
        # Those behind it are given up first, so that none of them comes after what is saved next.
        await self.finished(of)
        error = self._errors.pop(whose, None)
        if isinstance(error, TransientStorageError):
            # It was tried again until it was given up. The call that tells of it would take it for its own, and try again.
            raise StorageError(f"an earlier save of thread {of!r} was given up: {error}", thread_id=of) from error
        if error is not None:
            error.add_note(f"An earlier save of thread {of!r}, accepted with durability='background', ended like this.")
            raise error

    async def drain(self) -> None:
        """Wait until everything that was accepted is through, and what was begun beside it."""
        if not self._closed:
            self._closed = True
            await self.finished()
            await _wait(self._runner.start(self._tidied()))

    def close(self) -> None:
        """Let go of the loop, unless the caller runs on it and does so itself."""
        if not self._runner.is_home():
            self._runner.close()

    async def _tidied(self) -> None:
        loop = asyncio.get_running_loop()
        mine = [task for task in list(self._tasks) if task.get_loop() is loop]
        await asyncio.gather(*mine, return_exceptions=True)

    def finish(self) -> None:
        """At the end of the process: wait for what was accepted, but not for ever, and say what was lost."""
        with self._lock:
            self._withdraw_interrupted()
        deadline = time.monotonic() + EXIT_PATIENCE
        for save in list(self._pending):
            try:
                save.done.wait(deadline - time.monotonic())
            except TimeoutError:
                break
        if self._pending:
            _log.error("%d saves, accepted in the background, were not written before the end", len(self._pending))
        for (thread_id, _), error in self._errors.items():
            _log.error("a save of thread %r, accepted in the background, was lost: %s", thread_id, error)


async def _wait(done: Answer[None]) -> None:
    """Whoever gives up waiting does not end the save."""
    if inline.get():
        done.wait()
    else:
        await done.arrive()


def _interrupted(error: BaseException) -> StorageError:
    interrupted = StorageError(f"the save was interrupted ({type(error).__name__})")
    interrupted.__cause__ = error
    return interrupted


class SettledStorage(StorageWrapper):
    """A storage that is asked about a thread only when what was accepted of it is written, and so reads its own writes.

    The saves of the queue themselves go right through.
    """

    def __init__(self, inner: Storage, background: Background) -> None:
        super().__init__(inner)
        self._background = background

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        for commit in commits:
            await self._background.settled(commit.thread_id, commit.user)
            if commit.fork is not None:
                await self._background.settled(commit.fork.thread_id, commit.user)
        return await self.inner.apply(commits)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        if ttl == 0:
            # Given back after what was saved under it. An error waits for a call that can be told.
            await self._background.finished(thread_id)
        return await self.inner.lease(thread_id, user, holder=holder, now=now, ttl=ttl)

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        await self._background.settled(query.thread_id, query.user)
        return await self.inner.checkpoints(query)

    async def values(self, query: ValueQuery) -> ValuePage:
        await self._background.settled(query.thread_id, query.user)
        return await self.inner.values(query)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        await self._background.settled(query.thread_id, query.user)
        return await self.inner.attachments(query)

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        await self._background.settled(query.thread_id, query.user)
        return await self.inner.messages(query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        await self._background.settled(query.thread_id, query.user)
        return await self.inner.threads(query)

    async def stats(self, user: User) -> StorageStats:
        await self._background.settled(None, user)
        return await self.inner.stats(user)

    async def close(self) -> None:
        """Write what was accepted and close; then raise the first error that nobody has been told of."""
        await self._background.drain()
        # The storage first: it has connections that belong to the queue's loop.
        await self.inner.close()
        self._background.close()
        await self._background.raise_for(None, ANY_USER)

    async def status(self, found: Status) -> Status:
        return replace(await super().status(found), background=self._background.status)


_everywhere: weakref.WeakSet[Background] = weakref.WeakSet()


def _after_fork() -> None:
    for each in _everywhere:
        each.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _finish_all() -> None:
    for each in list(_everywhere):
        each.finish()


# Before the executors end, which storages read with: an ordinary atexit function comes after that. It is Python's own, so a
# Python that has it no more gets the ordinary one.
_at_exit: Any = getattr(threading, "_register_atexit", atexit.register)
_at_exit(_finish_all)
