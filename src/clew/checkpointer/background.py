"""Background saves: a bounded queue that keeps the order of each thread's saves.

The stored saves of a user in a thread are always a prefix of the accepted ones: when one fails for
good, those behind it are dropped, and the user's next call for the thread raises the error. Saves of other
users continue: this user may be a stranger whose saves were refused, and another one the owner. Saves run on
the checkpointer's own loop, so they outlive the caller's. Reads wait for pending saves of their thread
(`SettledStorage`).
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  (registers its exit hook before this module does, and so ends after it)
import logging
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from clew.answers import Answer
from clew.checkpointer.released import released
from clew.checkpointer.runner import LoopRunner
from clew.errors import ClewError, PermissionDeniedError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, FoundMessage, LeaseRecord, MessageRecord, ThreadRecord
from clew.model.status import BackgroundStatus, Status
from clew.os_threads import reset_after_fork
from clew.storage.execution import may_block
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper

EXIT_PATIENCE = 60.0
"""How many seconds the end of the process waits for accepted saves."""

_log = logging.getLogger("clew")
_in_background: ContextVar[bool] = ContextVar("clew_in_background", default=False)
"""True inside a save of the queue."""
R = TypeVar("R")
Whose = tuple[str, User]


class _Save:
    """An accepted save. `done` is given when it has ended, with or without an error."""

    def __init__(self, whose: Whose, size: int, before: _Save | None) -> None:
        self.whose = whose
        self.size = size
        self.before = before
        self.withdrawn = False
        self.done: Answer[None] = Answer()


class Background:
    """The queue. When `max_saves` or `max_bytes` are pending, callers wait."""

    def __init__(
        self, runner: LoopRunner, *, max_saves: int, max_bytes: int, tasks: Iterable[asyncio.Task[None]]
    ) -> None:
        self._runner = runner
        self._max_saves, self._max_bytes = max_saves, max_bytes
        self._tasks = tasks
        self._closed = False
        self.reset()
        reset_after_fork(self)
        _everywhere.add(self)

    def reset(self) -> None:
        """Empty the queue: at first, and in a forked child, whose parent writes what it accepted."""
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
        """Accept a save: `work` runs after the saves of the thread that were accepted before.

        Waits while the queue is full. Raises the error of an earlier save of this user in the
        thread.
        """
        while True:
            if self._closed:
                raise released()
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
        """Accept `save`; the lock is held.

        It counts as accepted after the last line: Ctrl-C may come before any line.
        """
        thread_id, _ = save.whose
        self._entering = save
        self._last[thread_id] = save
        self._pending[save] = None
        self._bytes += save.size
        # While the lock is held, so that the loop gets the saves in order.
        self._runner.start(self._do(save, work), partial(self._ended, save))
        self._entering = None

    def _withdraw_interrupted(self) -> None:
        """Forget a save whose caller was interrupted in `_enter`.

        Called while the lock is held. An interrupt here is harmless: the next call does it again.
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
        _in_background.set(True)
        if save.before is not None:
            await save.before.done.arrive()
        if save.whose in self._errors:
            self._failed += 1
        else:
            await work()

    def _ended(self, save: _Save, error: BaseException | None) -> None:
        """Remove `save` from the queue. An error is kept for the user's next call."""
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
        """Wait until the saves of the thread, or of all, that were accepted before this call have ended."""
        if not self._pending or _in_background.get():
            return
        with self._lock:
            self._withdraw_interrupted()
            last = self._last.get(thread_id) if thread_id is not None else None
            waiting = list(self._pending) if thread_id is None else [last]
        for save in waiting:
            if save is not None:
                await _wait(save.done)

    async def settled(self, thread_id: str | None, user: User) -> None:
        """Wait like `finished`, and raise the error of a save of this user that was not reported yet."""
        await self.finished(thread_id)
        if self._errors and not _in_background.get():
            await self.raise_for(thread_id, user)

    async def raise_for(self, thread_id: str | None, user: User) -> None:
        """Raise the error of an earlier save of this user, in the thread or in any; after that, the
        user can save again.

        Errors of other users are never raised, not even to `ANY_USER`, who did not make the save.
        """
        for whose in list(self._errors):
            of, by = whose
            if thread_id in (None, of) and by == user:
                break
        else:
            return
        # The saves behind it are dropped first, so that none of them is written after the next save.
        await self.finished(of)
        error = self._errors.pop(whose, None)
        if error is not None:
            raise _earlier_error(of, error)

    def raise_rest(self) -> None:
        """At the end, raise the first error that was not reported, and log the others.

        PermissionDeniedError is only logged: the thread belongs to another user, who lost nothing.
        """
        rest, self._errors = self._errors, {}
        lost = next((whose for whose, error in rest.items() if not isinstance(error, PermissionDeniedError)), None)
        first = rest.pop(lost) if lost is not None else None
        _log_lost(rest)
        if lost is not None and first is not None:
            raise _earlier_error(lost[0], first)

    async def drain(self) -> None:
        """Accept no more saves; wait for the accepted ones, and for merges of value rows on the queue's loop."""
        self._closed = True
        # Every time: after an interrupt, the next call completes it.
        await self.finished()
        if self._runner.started:
            try:
                await _wait(self._runner.start(self._merges_done()))
            except StorageError:
                # An interrupted release has ended the loop, and the merges with it.
                pass

    async def close(self) -> None:
        """Close the loop, unless the caller runs on it and closes it itself."""
        if may_block():
            self._runner.close()
        else:
            await self._runner.aclose()

    async def _merges_done(self) -> None:
        loop = asyncio.get_running_loop()
        mine = [task for task in list(self._tasks) if task.get_loop() is loop]
        await asyncio.gather(*mine, return_exceptions=True)

    def finish(self) -> None:
        """At the end of the process, wait up to `EXIT_PATIENCE` seconds for accepted saves, and log
        the lost ones."""
        with self._lock:
            self._withdraw_interrupted()
        deadline = time.monotonic() + EXIT_PATIENCE
        for save in list(self._pending):
            try:
                save.done.wait(deadline - time.monotonic())
            except TimeoutError:
                break
        if self._pending:
            _log.error("background saves lost: %d were not written before the process ended", len(self._pending))
        _log_lost(self._errors)


def in_background() -> bool:
    """Return whether the caller is a save of a queue."""
    return _in_background.get()


async def _wait(done: Answer[None]) -> None:
    """Wait; cancellation of the waiter does not cancel the save."""
    if may_block():
        done.wait()
    else:
        await done.arrive()


def _earlier_error(thread_id: str, error: Exception) -> Exception:
    """The error that a later call raises for a failed save."""
    if isinstance(error, TransientStorageError):
        # The save was retried until the retries were given up. The later call must not take this error for
        # its own and retry again.
        given_up = StorageError(f"an earlier save of thread {thread_id!r} failed: {error}", thread_id=thread_id)
        given_up.__cause__ = error
        return given_up
    error.add_note(f"Raised by an earlier save of thread {thread_id!r}, accepted with durability='background'.")
    return error


def _log_lost(errors: Mapping[Whose, Exception]) -> None:
    for (thread_id, _), error in errors.items():
        _log.error("background save lost: thread %r: %s", thread_id, error)


def _interrupted(error: BaseException) -> StorageError:
    interrupted = StorageError(f"the save was interrupted ({type(error).__name__})")
    interrupted.__cause__ = error
    return interrupted


class SettledStorage(StorageWrapper):
    """A storage whose calls wait for pending saves of their thread, so that a process reads its own writes.

    Saves of the queue don't wait.
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
            # The lease is released after the saves under it. An error of a save is kept for a call that can raise it.
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

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        await self._background.settled(None, query.user)
        return await self.inner.search(query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        await self._background.settled(query.thread_id, query.user)
        return await self.inner.threads(query)

    async def content(self, thread_id: str) -> Content | None:
        await self._background.settled(thread_id, ANY_USER)
        return await self.inner.content(thread_id)

    async def stats(self, user: User) -> StorageStats:
        await self._background.settled(None, user)
        return await self.inner.stats(user)

    async def close(self) -> None:
        """Write all accepted saves and close; then raise the first error that was not reported, if
        data was lost."""
        await self._background.drain()
        # The storage first: some of its connections belong to the queue's loop.
        await self.inner.close()
        await self._background.close()
        self._background.raise_rest()

    async def status(self, found: Status) -> Status:
        return replace(await super().status(found), background=self._background.status)


_everywhere: weakref.WeakSet[Background] = weakref.WeakSet()


def _finish_all() -> None:
    for each in list(_everywhere):
        each.finish()


# Loops resolve host names on executors, which end before ordinary atexit functions run. This private hook of
# Python's runs earlier; a Python without it gets the ordinary one.
_at_exit: Any = getattr(threading, "_register_atexit", atexit.register)
_at_exit(_finish_all)
