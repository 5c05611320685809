"""The SQLite storage."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple, cast, get_args

from clew.errors import ClewError, ConfigError, StorageError
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.storage.loops import forget_closed
from clew.storage.offload import may_block, offload
from clew.storage.protocol import Capabilities
from clew.storage.sqlite import journaling, reading
from clew.storage.sqlite.connections import Connections, Synchronous, storage_error
from clew.storage.sqlite.damage import breaks_index
from clew.storage.sqlite.indexing import begin_tidying, go_on_tidying, indexes
from clew.storage.sqlite.leasing import LeaseRequest
from clew.storage.sqlite.thread_index import settle
from clew.storage.sqlite.writer import Job, Writer
from clew.storage.together import Together

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

_Loads = Together[CheckpointQuery, CheckpointPage]
_READERS = 4
_LOADS_AT_ONCE, _LOADS_TOGETHER = 2, 32
"""Two, so that a large state holds nobody up: more threads only take the interpreter from each other."""
_PAGES_RECLAIMED_AT_ONCE = 2_000
_FORK_PATIENCE = 10.0


class _Opened:
    """What a storage holds while it is open, in one process."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.writer = Writer(connections)
        self.executor = ThreadPoolExecutor(_READERS, thread_name_prefix="clew-sqlite-reader")
        self._loads: dict[asyncio.AbstractEventLoop, _Loads] = {}

    def loads(self) -> _Loads:
        """Where loads go that come from the running event loop."""
        loop = asyncio.get_running_loop()
        loads = self._loads.get(loop)
        if loads is None:
            forget_closed(self._loads)
            loads = self._loads[loop] = Together(self._load, at_once=_LOADS_AT_ONCE, most=_LOADS_TOGETHER)
        return loads

    async def _load(self, queries: Sequence[CheckpointQuery]) -> list[CheckpointPage]:
        return await offload(self.executor, self.connections.read_all, reading.checkpoints, queries)

    def close(self) -> None:
        # Readers first: SQLite empties the log when the last connection goes, if that one may write.
        self.connections.close()
        self.writer.stop()
        self.executor.shutdown(wait=False)


class SQLiteStorage:
    """Threads in one SQLite file, shared by any number of OS threads, event loops and processes.

    With `synchronous="FULL"` what is acknowledged survives a power cut; with `"NORMAL"` it survives the process, not
    the machine. A file that another process writes to for longer than `busy_timeout` seconds raises TransientStorageError.
    """

    capabilities = Capabilities(name="sqlite", durable=True, suspends=False, shares_forks=True)

    def __init__(
        self, path: str | os.PathLike[str], *, synchronous: Synchronous = "FULL", busy_timeout: float = 30.0
    ) -> None:
        name = os.fspath(path)
        if name in ("", ":memory:") or name.startswith("file:"):
            raise ConfigError(f"{name!r} is not the path of a file; for a store in memory use MemoryStorage")
        if synchronous not in get_args(Synchronous):
            raise ConfigError(f"synchronous must be one of {', '.join(get_args(Synchronous))}, not {synchronous!r}")
        self.path = str(Path(name).absolute())
        self._synchronous: Synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._closed = False
        self._opened = self._open()
        _alive.add(self)

    def _open(self) -> _Opened:
        opened = _Opened(Connections(self.path, synchronous=self._synchronous, busy_timeout=self._busy_timeout))
        # One that is dropped without being closed gives its threads and files back.
        self._finalizer = weakref.finalize(self, opened.close)
        self._finalizer.atexit = False
        return opened

    def _in_use(self) -> _Opened:
        if self._closed:
            raise StorageError(f"the storage of {self.path} was closed; make a new SQLiteStorage", path=self.path)
        return self._opened

    async def _read(self, work: Callable[[sqlite3.Connection, *Args], Result], *args: *Args) -> Result:
        opened = self._in_use()
        if may_block():
            return opened.connections.read(work, *args)
        return await offload(opened.executor, opened.connections.read, work, *args)

    async def _write(self, job: Job) -> None:
        """Have `job` done by the writer; raises what kept it from being done."""
        writer = self._in_use().writer
        if may_block():
            writer.run(job)
        else:
            await writer.submit(job)
        if job.error is not None:
            raise job.error

    async def setup(self) -> None:
        opened = self._in_use()
        await offload(opened.executor, opened.connections.prepare)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._finalizer.detach()
        await offload(self._opened.executor, self._opened.close)

    async def ping(self) -> None:
        await self._read(_ping)

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        if not commits:
            return []
        job = Job(commits)
        await self._write(job)
        return job.outcomes

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        # A quick one may wait for its like; none waits for a long list.
        if query.limit == 1 and not may_block():
            return await self._in_use().loads().ask(query)
        return await self._read(reading.checkpoints, query)

    async def values(self, query: ValueQuery) -> ValuePage:
        return await self._read(reading.values, query)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await self._read(reading.attachments, query)

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return await self._read(reading.messages, query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._read(reading.threads, query)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        job = Job(call=LeaseRequest(thread_id=thread_id, user=user, holder=holder, now=now, ttl=ttl))
        await self._write(job)
        return cast("LeaseRecord", job.result)

    async def stats(self, user: User) -> StorageStats:
        return await self._read(reading.stats, user)

    async def journal(self, query: JournalQuery) -> JournalPage:
        return await self._read(journaling.journal, query)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            await self._write(Job(call=journaling.Trimming(entries)))

    async def reclaim(self) -> None:
        opened = self._in_use()
        await offload(opened.executor, self._reclaim, opened)

    def _reclaim(self, opened: _Opened) -> None:
        """Have the indexes forget what was removed, give free pages back, then empty the log.

        Bit by bit, so that commits get through in between.
        """
        opened.connections.prepare()
        try:
            connection = opened.connections.open()
            try:
                try:
                    _tidy(connection, opened.writer)
                except sqlite3.DatabaseError as error:
                    if not breaks_index(error):
                        raise
                    opened.writer.start_over()
                while connection.execute("PRAGMA freelist_count").fetchone()[0]:
                    opened.writer.exclusive(lambda: _free_some(connection))
                opened.writer.exclusive(lambda: _empty_log(connection))
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise storage_error(error, self.path) from error

    # SQLite's locks and its view of the log don't survive a fork, so no connection may be open across one.

    def _before_fork(self) -> None:
        self._opened.writer.pause(timeout=_FORK_PATIENCE)
        self._opened.connections.pause(timeout=_FORK_PATIENCE)

    def _after_fork_in_parent(self) -> None:
        self._opened.connections.resume()
        self._opened.writer.resume()

    def _after_fork_in_child(self) -> None:
        self._finalizer.detach()
        if not self._closed:
            self._opened = self._open()


def _ping(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT token FROM last_token").fetchone()


def _tidy(connection: sqlite3.Connection, writer: Writer) -> None:
    while writer.exclusive(lambda: settle(connection)):
        pass
    for index in indexes(connection):
        writer.exclusive(partial(begin_tidying, connection, index))
        while writer.exclusive(partial(go_on_tidying, connection, index)):
            pass


def _free_some(connection: sqlite3.Connection) -> None:
    # As a script: each page that is freed is a row without columns, and a cursor stops at the first of those.
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_RECLAIMED_AT_ONCE})")


def _empty_log(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_alive: weakref.WeakSet[SQLiteStorage] = weakref.WeakSet()
_paused: list[SQLiteStorage] = []
_forking = threading.Lock()


def _before_fork() -> None:
    _forking.acquire()
    for storage in list(_alive):
        storage._before_fork()
        _paused.append(storage)


def _after_fork_in_parent() -> None:
    while _paused:
        _paused.pop()._after_fork_in_parent()
    _forking.release()


def _after_fork_in_child() -> None:
    while _paused:
        _paused.pop()._after_fork_in_child()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
