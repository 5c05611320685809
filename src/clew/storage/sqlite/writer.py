"""The only writer of this process: commits of all callers, many to a transaction, acknowledged after it is durable."""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from clew.errors import ClewError, StorageError
from clew.model.commit import Applied, Commit
from clew.storage.loops import forget_closed
from clew.storage.sqlite.applying import Applier
from clew.storage.sqlite.connections import WHOLE, Connections, error_code, storage_error
from clew.storage.sqlite.damage import breaks_index
from clew.storage.sqlite.upkeep import LogUpkeep

COMMITS_AT_ONCE = 512
_WAY_EVERY, _WAY_FOR = 0.002, 0.0002
"""After how many seconds an event loop gives way to the writer, and for how long."""
_NO_COMMITS: tuple[Commit, ...] = ()
_log = logging.getLogger("clew")

Result = TypeVar("Result")
Outcomes = list[Applied | ClewError]
Call = Callable[[Applier], object]


class Job:
    """What one caller waits for: the outcomes of its commits, or the result of a call inside the transaction."""

    __slots__ = ("call", "commits", "error", "future", "latch", "loop", "outcomes", "result")

    def __init__(self, commits: Sequence[Commit] = _NO_COMMITS, call: Call | None = None) -> None:
        self.commits = commits
        self.call = call
        self.outcomes: Outcomes = []
        self.result: object = None
        self.error: ClewError | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None
        self.latch: threading.Lock | None = None

    def attempt(self, applier: Applier, *, hurried: bool) -> None:
        """Do the work inside a transaction that is open."""
        outcome = applier.outcome
        self.outcomes = [outcome(commit, hurried=hurried) for commit in self.commits]
        if self.call is not None:
            try:
                self.result = self.call(applier)
            except ClewError as error:
                self.error = error


class _FileFailedError(Exception):
    """The transaction could not be opened or made durable; `cause` says why."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Writer:
    """Applies jobs in order of arrival. A sync caller that finds it free writes for itself, and for those who wait."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._applier: Applier | None = None
        self._turn = threading.Lock()
        self._upkeep = LogUpkeep(connections, self._turn)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._arriving: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._last: dict[asyncio.AbstractEventLoop, Job] = {}
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._paused = False
        self._index_broken = False

    def submit(self, job: Job) -> asyncio.Future[None]:
        """Have `job` done without blocking the event loop; the future is done when it is, and raises nothing."""
        job.loop = loop = asyncio.get_running_loop()
        job.future = future = loop.create_future()
        arriving = self._arriving.get(loop)
        if arriving is None:
            # Handed over when the loop has run everything that is ready: the writer would only fight with it for the
            # interpreter until then, and what comes together goes into one transaction.
            self._arriving[loop] = [job]
            loop.call_soon(self._hand_over, loop)
        else:
            arriving.append(job)
        return future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs = self._arriving.pop(loop)
        for job in jobs:
            self._enqueue(job)
        watched = loop in self._last
        if not watched:
            # One that was closed has no timer any more.
            forget_closed(self._last)
        self._last[loop] = jobs[-1]
        if not watched:
            loop.call_later(_WAY_EVERY, self._give_way, loop)

    def _give_way(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the writer have the interpreter for a moment, as long as the loop's last job is not done.

        A loop that never idles takes the interpreter back faster than another thread can wake up for it, and the writer
        needs it after every call of SQLite: without this, a save could take seconds.
        """
        future = self._last[loop].future
        if future is None or future.done():
            del self._last[loop]
        else:
            time.sleep(_WAY_FOR)
            loop.call_later(_WAY_EVERY, self._give_way, loop)

    def run(self, job: Job) -> None:
        """Have `job` done while the calling thread waits."""
        # Handing over to the writer's thread and back takes about as long as the write: a lone caller does it alone.
        if self._queue.empty() and not self._stopped and self._turn.acquire(blocking=False):
            jobs = [job]
            try:
                self._gather(jobs)
                self._write(jobs)
            except BaseException:
                # An interrupt of the calling thread is not the others' concern: commits may be applied again.
                self._reset()
                for other in jobs[1:]:
                    self._enqueue(other)
                raise
            finally:
                self._turn.release()
            if len(jobs) > 1:
                _settle(jobs[1:])
        else:
            job.latch = threading.Lock()
            job.latch.acquire()
            self._enqueue(job)
            job.latch.acquire()

    def exclusive(self, work: Callable[[], Result]) -> Result:
        """`work()` while nothing is written by this process."""
        with self._turn:
            return work()

    def start_over(self) -> None:
        """Drop the substring indexes, to be made again by what is written from now on."""
        with self._turn:
            self._index_broken = True
        job = Job()
        self.run(job)
        if job.error is not None:
            raise job.error

    def stop(self) -> None:
        """Finish what was accepted, then let go of thread and connection."""
        self._stopped = True
        with self._starting:
            thread = self._thread
            self._queue.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._reject_leftovers()
        self._upkeep.stop()
        with self._turn:
            self._reset()

    def pause(self, *, timeout: float) -> None:
        """Wait for the transaction under way, if any, and keep others from starting until `resume`."""
        self._paused = self._turn.acquire(timeout=timeout)
        if self._paused:
            self._reset()
        self._upkeep.stop()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._turn.release()

    def _enqueue(self, job: Job) -> None:
        if self._thread is None:
            self._start()
        self._queue.put(job)
        if self._stopped:
            # `stop` may have looked for leftovers before this one came.
            self._reject_leftovers()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._serve, name="clew-sqlite-writer", daemon=True)
                self._thread.start()

    def _reject_leftovers(self) -> None:
        if self._thread is not None and self._thread.is_alive() and self._thread is not threading.current_thread():
            return
        left: list[Job] = []
        while True:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job.error = StorageError(f"{self._connections.path} was closed", path=self._connections.path)
                left.append(job)
        _settle(left)

    def _serve(self) -> None:
        while True:
            job = self._queue.get()
            if job is None:
                self._reject_leftovers()
                return
            jobs = [job]
            with self._turn:
                self._gather(jobs)
                self._write(jobs)
            _settle(jobs)
            del job, jobs

    def _gather(self, jobs: list[Job]) -> None:
        """Add to `jobs` what else waits, up to a bound on the transaction."""
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
        """Do `jobs` in one transaction, or one by one if one of them breaks it. Each gets its outcome or its error."""
        try:
            try:
                self._transaction(jobs, hurried=True)
            except (sqlite3.IntegrityError, sqlite3.DataError):
                # Some id exists already (a commit that comes again, say): look before each write.
                self._transaction(jobs, hurried=False)
        except _FileFailedError as failure:
            self._fail(jobs, failure.cause)
        except Exception as error:  # The writer's edge: whatever went wrong is reported to those who wait.
            if error_code(error) in WHOLE:
                self._fail(jobs, error)
            else:
                self._one_by_one(jobs)

    def _one_by_one(self, jobs: list[Job]) -> None:
        """Give each commit a transaction of its own, so that only the culprit fails."""
        for job in jobs:
            parts = [Job([commit]) for commit in job.commits] or [Job(call=job.call)]
            for part in parts:
                try:
                    self._transaction([part], hurried=False)
                except _FileFailedError as failure:
                    self._fail([part], failure.cause)
                except Exception as error:  # The writer's edge, as above.
                    self._fail([part], error)
            if job.call is not None:
                job.result, job.error = parts[0].result, parts[0].error
            else:
                job.outcomes = [part.error or part.outcomes[0] for part in parts]

    def _transaction(self, jobs: list[Job], *, hurried: bool) -> None:
        try:
            applier = self._applier
            if applier is None:
                self._connections.prepare()
                connection = self._connections.open()
                applier = self._applier = Applier(connection, busy_timeout=self._connections.busy_timeout)
            self._connections.check_there()
            applier.begin()
        except (sqlite3.Error, ClewError) as error:
            raise _FileFailedError(error) from error
        try:
            if self._index_broken:
                _log.warning("%s has a damaged search index: it is made again", self._connections.path)
                applier.start_over()
            for job in jobs:
                job.attempt(applier, hurried=hurried)
            applier.flush()
        except BaseException as error:
            applier.rollback()
            self._index_broken = breaks_index(error)
            raise
        try:
            applier.connection.execute("COMMIT")
        except sqlite3.Error as error:
            applier.rollback()
            self._index_broken = breaks_index(error)
            if self._index_broken:
                # What goes into an index is written here.
                raise
            raise _FileFailedError(error) from error
        self._index_broken = False
        try:
            self._connections.check_there()
        except StorageError as error:
            raise _FileFailedError(error) from error
        self._upkeep.wrote(jobs)

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        for job in jobs:
            job.error = storage_error(error, self._connections.path)
        if error_code(error) != sqlite3.SQLITE_BUSY:
            self._reset()

    def _reset(self) -> None:
        """Begin anew with the next transaction: another connection, nothing known."""
        if self._applier is not None:
            self._applier.connection.close()
            self._applier = None


def _settle(jobs: list[Job]) -> None:
    """Wake everybody who waits, each event loop once."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.latch is not None:
            job.latch.release()
        elif job.loop is not None:
            by_loop[job.loop].append(job)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake, waiting)
        except RuntimeError:
            # The loop was closed while its caller waited: nobody is left to tell.
            continue


def _wake(jobs: list[Job]) -> None:
    for job in jobs:
        future = job.future
        if future is not None and not future.done():
            future.set_result(None)
