"""Group commit: the process's only writer takes many commits into one transaction."""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from clew.answers import Answer
from clew.errors import ClewError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.os_threads import OwnThread
from clew.storage.columns import damaged_thread
from clew.storage.feed import Bell
from clew.storage.loops import forget_closed
from clew.storage.sqlite.applier import Applier
from clew.storage.sqlite.connections import Connections, readable_text, wait_until_released
from clew.storage.sqlite.failures import FILE_FAILURES, error_code, is_undecodable, storage_error
from clew.storage.sqlite.fts5 import is_index_damaged
from clew.storage.sqlite.wal_checkpoints import WalCheckpoints

COMMITS_AT_ONCE = 512
_YIELD_EVERY, _YIELD_FOR = 0.002, 0.0002
"""How often an event loop yields the GIL to the writer, and for how long, in seconds."""
_NO_COMMITS: tuple[Commit, ...] = ()
_log = logging.getLogger("clew")

Result = TypeVar("Result")
Outcomes = list[Applied | ClewError]
Call = Callable[[Applier], object]


class Job:
    """One caller's work and its outcome: commits, or a call inside the transaction."""

    __slots__ = ("call", "commits", "done", "error", "future", "loop", "outcomes", "result")

    def __init__(self, commits: Sequence[Commit] = _NO_COMMITS, call: Call | None = None) -> None:
        self.commits = commits
        self.call = call
        self.outcomes: Outcomes = []
        self.result: object = None
        self.error: ClewError | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None
        self.done: Answer[None] | None = None

    def attempt(self, applier: Applier, *, fast_path: bool) -> None:
        """Do the work inside the open transaction."""
        outcome = applier.outcome
        self.outcomes = [outcome(commit, fast_path=fast_path) for commit in self.commits]
        if self.call is not None:
            try:
                self.result = self.call(applier)
            except ClewError as error:
                self.error = error


class _FileFailedError(Exception):
    """The transaction could not be started or made durable, because of `cause`."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Writer:
    """Applies jobs in order of arrival. A sync caller that finds it idle writes itself.

    A caller may be interrupted (Ctrl-C) at any line. So it never holds another caller's job, it holds
    the turn only in a `with` statement, and the next holder of the turn undoes an unfinished
    transaction.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.bell = Bell()
        """Rings when this process has written to the feed."""
        self._applier: Applier | None = None
        self._finished = True
        """Whether the last transaction was committed or rolled back, and the applier knows."""
        self._turn = threading.Lock()
        self._wal_checkpoints = WalCheckpoints(connections, self._turn)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._arriving: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._last: dict[asyncio.AbstractEventLoop, Job] = {}
        self._thread = OwnThread(self._serve, "clew-sqlite-writer")
        self._stopped = False
        self._index_damaged = False

    def submit(self, job: Job) -> asyncio.Future[None]:
        """Queue `job`. The returned future completes with it, and never raises."""
        job.loop = loop = asyncio.get_running_loop()
        job.future = future = loop.create_future()
        arriving = self._arriving.get(loop)
        if arriving is None:
            # Handed over once the loop has run everything that is ready: until then the writer
            # would only compete with it for the GIL, and jobs that arrive together share a
            # transaction.
            self._arriving[loop] = [job]
            loop.call_soon(self._hand_over, loop)
        else:
            arriving.append(job)
        return future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._arriving.pop(loop)
        for job in jobs:
            try:
                self._enqueue(job)
            except StorageError as error:
                job.error = error
                _wake([job])
        watched = loop in self._last
        if not watched:
            # Closed loops have no timer that would remove them.
            forget_closed(self._last)
        self._last[loop] = jobs[-1]
        if not watched:
            loop.call_later(_YIELD_EVERY, self._yield_gil, loop)

    def _yield_gil(self, loop: asyncio.AbstractEventLoop) -> None:
        """Release the GIL for a moment, and again until the loop's last job is done.

        A busy loop takes the GIL back faster than another thread can wake up for it, and the writer
        needs it after every call of SQLite. Without this, a save could take seconds.
        """
        future = self._last[loop].future
        if future is None or future.done():
            del self._last[loop]
        else:
            time.sleep(_YIELD_FOR)
            loop.call_later(_YIELD_EVERY, self._yield_gil, loop)

    def run(self, job: Job) -> None:
        """Do `job` while the calling thread waits."""
        # A hand-over to the writer's thread and back takes about as long as the write itself.
        if not self._write_in_caller(job):
            job.done = Answer()
            self._enqueue(job)
            job.done.wait()

    def _write_in_caller(self, job: Job) -> bool:
        """Do `job` in the calling thread, if the writer is idle. Returns whether it was."""
        if self._turn.locked() or not self._queue.empty():
            return False
        with self._turn:
            if self._stopped or self._connections.forking:
                return False
            try:
                self._write([job])
            except BaseException:
                # Interrupted. Other processes must not wait for this transaction to end.
                self._reset()
                raise
            return True

    def exclusive(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run while this process writes nothing."""
        while True:
            with self._turn:
                if not self._connections.forking:
                    return work()
            self._connections.wait_for_fork()

    def rebuild_indexes(self) -> None:
        """Drop the substring indexes. Later commits rebuild them."""
        with self._turn:
            self._index_damaged = True
        job = Job()
        self.run(job)
        if job.error is not None:
            raise job.error

    def stop(self) -> None:
        """Finish accepted jobs, then end the thread and close the connection. Idempotent."""
        self._stopped = True
        self._queue.put(None)
        self._thread.wait()
        self._wal_checkpoints.stop()
        with self._turn:
            self._reset()

    def rest(self, deadline: float) -> None:
        """Before a fork: wait for the running transaction, and close the connections."""
        if wait_until_released(self._turn, deadline):
            with self._turn:
                self._reset()
        self._wal_checkpoints.stop()

    def _enqueue(self, job: Job) -> None:
        """Hand `job` to the writer's thread. Raises StorageError if there is none."""
        if self._stopped:
            raise self._closed()
        self._begin()
        self._queue.put(job)
        if self._stopped:
            # The thread may have ended without seeing this job: start another one.
            self._queue.put(None)
            self._thread.wait()
            self._begin()

    def _begin(self) -> None:
        try:
            self._thread.begin()
        except RuntimeError as error:
            message = f"{self._connections.path} has no writer: the system can't start another thread; try again"
            raise TransientStorageError(message, path=self._connections.path) from error

    def _closed(self) -> StorageError:
        return StorageError(f"{self._connections.path} was closed", path=self._connections.path)

    def _serve(self) -> None:
        if not self._stopped:
            while (job := self._queue.get()) is not None:
                jobs = [job]
                self.exclusive(partial(self._write_waiting, jobs))
                _settle(jobs)
                del job, jobs
        self._reject_leftovers()

    def _reject_leftovers(self) -> None:
        left: list[Job] = []
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job.error = self._closed()
                left.append(job)
        _settle(left)

    def _write_waiting(self, jobs: list[Job]) -> None:
        self._gather(jobs)
        self._write(jobs)

    def _gather(self, jobs: list[Job]) -> None:
        """Add waiting jobs to `jobs`, up to the bound of a transaction."""
        room = COMMITS_AT_ONCE - len(jobs[0].commits)
        get = self._queue.get_nowait
        while room > 0:
            try:
                job = get()
            except queue.Empty:
                return
            if job is None:
                self._queue.put(None)
                return
            jobs.append(job)
            room -= len(job.commits) or 1

    def _write(self, jobs: list[Job]) -> None:
        """Do `jobs` in one transaction, or one by one if that fails."""
        try:
            try:
                self._transaction(jobs, fast_path=True)
            except (sqlite3.IntegrityError, sqlite3.DataError):
                # An id exists (a repeated commit, say): the slow path looks before it writes.
                self._transaction(jobs, fast_path=False)
        except _FileFailedError as failure:
            self._fail(jobs, failure.cause)
        except Exception as error:  # The writer's edge: every error is reported to the callers.
            if error_code(error) in FILE_FAILURES:
                self._fail(jobs, error)
            else:
                self._one_by_one(jobs)

    def _one_by_one(self, jobs: list[Job]) -> None:
        """Give each commit a transaction of its own, so that only the one at fault fails."""
        for job in jobs:
            parts = [Job([commit]) for commit in job.commits] or [Job(call=job.call)]
            for part in parts:
                try:
                    self._alone(part)
                except _FileFailedError as failure:
                    self._fail([part], failure.cause)
                except Exception as error:  # The writer's edge, as above.
                    self._fail([part], _named(error, part))
            if job.call is not None:
                job.result, job.error = parts[0].result, parts[0].error
            else:
                job.outcomes = [part.error or part.outcomes[0] for part in parts]

    def _alone(self, part: Job) -> None:
        """Do one job in a transaction. Damaged text that it meets is read as bytes."""
        try:
            self._transaction([part], fast_path=False)
        except sqlite3.OperationalError as error:
            if not is_undecodable(error):
                raise
            # Only now, because text that Python decodes takes longer to read.
            self._transaction([part], fast_path=False, text_factory=readable_text)

    def _transaction(
        self, jobs: list[Job], *, fast_path: bool, text_factory: Callable[[bytes], str | bytes] = str
    ) -> None:
        if not self._finished:
            # Its caller was interrupted.
            self._reset()
        self._finished = False
        try:
            applier = self._applier
            if applier is None:
                self._connections.prepare()
                connection = self._connections.open()
                applier = self._applier = Applier(connection, busy_timeout=self._connections.busy_timeout)
            self._connections.check_there()
            applier.connection.text_factory = text_factory
            applier.begin()
        except (sqlite3.Error, ClewError) as error:
            self._finished = True
            raise _FileFailedError(error) from error
        try:
            if self._index_damaged:
                _log.warning("rebuilding the damaged search index of %s", self._connections.path)
                applier.reset_indexes()
            for job in jobs:
                job.attempt(applier, fast_path=fast_path)
            applier.flush()
        except BaseException as error:
            self._undo(applier)
            self._index_damaged = is_index_damaged(error)
            raise
        try:
            applier.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo(applier)
            self._index_damaged = is_index_damaged(error)
            if self._index_damaged:
                # FTS5 writes its pages at COMMIT.
                raise
            raise _FileFailedError(error) from error
        self._index_damaged = False
        self._finished = True
        try:
            self._connections.check_there()
        except StorageError as error:
            raise _FileFailedError(error) from error
        self._wal_checkpoints.wrote(jobs)
        if applier.feed.written:
            self.bell.ring()

    def _undo(self, applier: Applier) -> None:
        applier.rollback()
        self._finished = True

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        for job in jobs:
            job.error = storage_error(error, self._connections.path)
        if error_code(error) != sqlite3.SQLITE_BUSY:
            self._reset()

    def _reset(self) -> None:
        """Close the connection. The next transaction opens a new one, with empty caches."""
        if self._applier is not None:
            self._applier.connection.close()
            self._applier = None
        self._finished = True


def _named(error: Exception, job: Job) -> Exception:
    """The error of a commit that the rules let through and the tables refuse: the thread's columns are damaged."""
    if job.commits and (isinstance(error, (sqlite3.IntegrityError, OverflowError)) or is_undecodable(error)):
        commit = job.commits[0]
        thread_id = commit.fork.thread_id if commit.fork else commit.thread_id
        damaged = damaged_thread(thread_id, f"its columns don't fit ({error})")
        damaged.__cause__ = error
        return damaged
    return error


def _settle(jobs: list[Job]) -> None:
    """Wake all callers, with one call per event loop."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.done is not None:
            job.done.give(None)
        elif job.loop is not None:
            by_loop[job.loop].append(job)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake, waiting)
        except RuntimeError:
            # The loop was closed while its caller waited.
            continue


def _wake(jobs: list[Job]) -> None:
    for job in jobs:
        future = job.future
        if future is not None and not future.done():
            future.set_result(None)
