"""The SQLite storage."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple, cast, get_args

from msgspec.structs import replace

from clew.answers import Answer
from clew.errors import ClewError, ConfigError, StorageError, shown
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, FoundMessage, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.os_threads import Hands
from clew.storage.batching import ReadBatcher
from clew.storage.execution import may_block, offload
from clew.storage.feed import heard_or_seen
from clew.storage.loops import forget_closed
from clew.storage.protocol import Capabilities, Own
from clew.storage.sqlite import feed, queries
from clew.storage.sqlite.connections import Connections, Synchronous
from clew.storage.sqlite.failures import storage_error
from clew.storage.sqlite.feed import LOOK_SECONDS, Looks
from clew.storage.sqlite.fts5 import begin_merge, continue_merge, existing_indexes, is_index_damaged
from clew.storage.sqlite.requests import (
    LeaseRequest,
    OwnRequest,
    TrimRequest,
    WatchRequest,
    drop_index,
    index_some_messages,
)
from clew.storage.sqlite.search import search
from clew.storage.sqlite.search_index import has_search_index
from clew.storage.sqlite.thread_index import index_some
from clew.storage.sqlite.writer import Job, Writer
from clew.validation import checked_number

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

_Loads = ReadBatcher[CheckpointQuery, CheckpointPage]
_READERS = 4
_LOADS_AT_ONCE, _LOADS_TOGETHER = 2, 32
"""Two calls, so that a large state delays nobody. More would compete for the GIL."""
_PAGES_RECLAIMED_AT_ONCE = 2_000
_FORK_PATIENCE = 10.0


class _Opened:
    """The resources of an open storage in one process."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.writer = Writer(connections)
        self.hands = Hands(_READERS, "clew-sqlite-reader")
        self.closed = False
        self._loads: dict[asyncio.AbstractEventLoop, _Loads] = {}

    def loads(self) -> _Loads:
        """The batcher for loads of the running event loop."""
        loop = asyncio.get_running_loop()
        loads = self._loads.get(loop)
        if loads is None:
            forget_closed(self._loads)
            loads = self._loads[loop] = ReadBatcher(self._load, at_once=_LOADS_AT_ONCE, most=_LOADS_TOGETHER)
        return loads

    async def _load(self, asked: Sequence[CheckpointQuery]) -> list[CheckpointPage]:
        return await offload(self.hands, self.connections.read_all, queries.checkpoints, asked)

    def close(self) -> None:
        # Readers first: SQLite truncates the WAL with the last connection, if that one may write.
        self.connections.close()
        self.writer.stop()
        self.closed = True
        self.hands.close()

    def begin_fork(self) -> None:
        deadline = time.monotonic() + _FORK_PATIENCE
        self.connections.begin_fork()
        self.writer.rest(deadline)
        self.connections.rest(deadline)

    def end_fork(self) -> None:
        self.connections.end_fork()


_LONGEST_WAIT = 1_000_000
"""The greatest `busy_timeout`, in seconds. SQLite counts milliseconds in 31 bits."""


class SQLiteStorage:
    """Threads in one SQLite file, shared by any number of OS threads, event loops and processes.

    With `synchronous="FULL"`, acknowledged commits survive a power cut; with `"NORMAL"`, only a crash
    of the process. If another process locks the file for longer than `busy_timeout` seconds, calls
    raise TransientStorageError.
    """

    capabilities = Capabilities(name="sqlite", durable=True, suspends=False, shares_forks=True)

    def __init__(
        self, path: str | os.PathLike[str], *, synchronous: Synchronous = "FULL", busy_timeout: float = 30.0
    ) -> None:
        name = os.fspath(path)
        if name in ("", ":memory:") or name.startswith("file:"):
            raise ConfigError(f"{name!r} is not the path of a file; use MemoryStorage for a store in memory")
        try:
            os.fsencode(name)
        except UnicodeEncodeError as error:
            raise ConfigError(f"{shown(name)} can't be the path of a file: {error.reason}") from error
        if synchronous not in get_args(Synchronous):
            raise ConfigError(
                f"synchronous must be one of {', '.join(get_args(Synchronous))}, not {shown(synchronous)}"
            )
        self.path = str(Path(name).absolute())
        self._synchronous: Synchronous = synchronous
        self._busy_timeout = checked_number(
            "busy_timeout", busy_timeout, "number of seconds", at_least=0, at_most=_LONGEST_WAIT
        )
        self._closed = False
        self._opened = self._open()
        _alive.add(self)

    def _open(self) -> _Opened:
        opened = _Opened(Connections(self.path, synchronous=self._synchronous, busy_timeout=self._busy_timeout))
        # If it is garbage collected without being closed, its threads and files are closed.
        self._finalizer = weakref.finalize(self, opened.close)
        self._finalizer.atexit = False
        return opened

    def _in_use(self) -> _Opened:
        if self._closed:
            raise StorageError(f"the storage of {self.path} was closed; create a new SQLiteStorage", path=self.path)
        return self._opened

    async def _read(self, work: Callable[[sqlite3.Connection, *Args], Result], *args: *Args) -> Result:
        opened = self._in_use()
        if may_block():
            return opened.connections.read(work, *args)
        return await offload(opened.hands, opened.connections.read, work, *args)

    async def _write(self, job: Job) -> None:
        """Have the writer do `job`. Raises the job's error."""
        writer = self._in_use().writer
        if may_block():
            writer.run(job)
        else:
            await writer.submit(job)
        if job.error is not None:
            raise job.error

    async def setup(self) -> None:
        opened = self._in_use()
        await offload(opened.hands, opened.connections.prepare)

    async def close(self) -> None:
        self._closed = True
        # If `close` is interrupted, the next call finishes it.
        if not self._opened.closed:
            await offload(self._opened.hands, self._opened.close)
        self._finalizer.detach()

    async def ping(self) -> None:
        await self._read(_ping)

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        if not commits:
            return []
        job = Job(commits)
        await self._write(job)
        return job.outcomes

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        # Loads of one checkpoint are batched. Long lists are not: they would delay the others.
        if query.limit == 1 and not may_block():
            return await self._in_use().loads().ask(query)
        return await self._read(queries.checkpoints, query)

    async def values(self, query: ValueQuery) -> ValuePage:
        return await self._read(queries.values, query)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await self._read(queries.attachments, query)

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return await self._read(queries.messages, query)

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        answer = await self._read(search, query)
        if answer.due or answer.damaged:
            # The answer does not depend on it: a file that can't be written to can be searched.
            with suppress(StorageError):
                await self._write(Job(call=drop_index if answer.damaged else index_some_messages))
        return answer.found

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._read(queries.threads, query)

    async def content(self, thread_id: str) -> Content | None:
        return await self._read(queries.content, thread_id)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        job = Job(call=LeaseRequest(thread_id=thread_id, user=user, holder=holder, now=now, ttl=ttl))
        await self._write(job)
        return cast("LeaseRecord", job.result)

    async def stats(self, user: User) -> StorageStats:
        return await self._read(queries.stats, user)

    async def journal(self, query: JournalQuery) -> JournalPage:
        return await self._read(queries.journal, query)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            await self._write(Job(call=TrimRequest(entries)))

    async def feed(self, query: FeedQuery) -> FeedPage:
        bell = self._in_use().writer.bell
        heard, stamp = bell.listen(), feed.wal_stamp(self.path)
        try:
            page, last = await self._feed_page(query)
            if query.wait and query.after is not None and not page.entries and not page.gap:
                looks = Looks(self.path, stamp, query.wait)
                if await self._await_entry(heard, last, looks):
                    page, _ = await self._feed_page(query)
            return page
        finally:
            bell.hang_up(heard)

    async def _feed_page(self, query: FeedQuery) -> tuple[FeedPage, int]:
        """Return the page, and the number of the last entry."""
        gap = False
        while True:
            page, note, last = await self._read(feed.read, query)
            if note:
                await self._write(Job(call=WatchRequest()))
            if page is not None:
                return replace(page, gap=page.gap or gap), last
            # Nobody watched until now.
            query, gap = FeedQuery(), query.after is not None

    async def _await_entry(self, heard: Answer[None], last: int, looks: Looks) -> bool:
        """Wait until this process or another one writes an entry after `last`. Returns whether one did."""
        while not await heard_or_seen(heard, looks, LOOK_SECONDS):
            if looks.saw_a_write and await self._read(feed.last_number) != last:
                return True
            if not looks.left:
                return False
        return True

    async def own(self, name: Own) -> bytes | None:
        return await self._read(queries.own, name)

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        job = Job(call=OwnRequest(name=name, data=data, instead_of=instead_of))
        await self._write(job)
        return cast("bool", job.result)

    async def reclaim(self) -> None:
        opened = self._in_use()
        await offload(opened.hands, self._reclaim, opened)

    def _reclaim(self, opened: _Opened) -> None:
        """Erase removed entries from the indexes, free unused pages, then truncate the WAL.

        In small steps, so that commits get through in between.
        """
        opened.connections.prepare()
        try:
            connection = opened.connections.open()
            try:
                try:
                    _merge_indexes(connection, opened.writer)
                except sqlite3.DatabaseError as error:
                    if not is_index_damaged(error):
                        raise
                    opened.writer.rebuild_indexes()
                if has_search_index(connection):
                    _index_all_messages(opened.writer)
                while connection.execute("PRAGMA freelist_count").fetchone()[0]:
                    opened.writer.exclusive(lambda: _free_some(connection))
                opened.writer.exclusive(lambda: _truncate_wal(connection))
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise storage_error(error, self.path) from error

    # Fork handlers. Python continues after a KeyboardInterrupt, so none relies on another.

    def _before_fork(self) -> None:
        self._opened.begin_fork()

    def _after_fork_in_parent(self) -> None:
        self._opened.end_fork()

    def _after_fork_in_child(self) -> None:
        self._finalizer.detach()
        _left_behind.append(self._opened)
        if not self._closed:
            self._opened = self._open()


def _ping(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT token FROM last_token").fetchone()


def _merge_indexes(connection: sqlite3.Connection, writer: Writer) -> None:
    while writer.exclusive(lambda: index_some(connection)):
        pass
    for index in existing_indexes(connection):
        writer.exclusive(partial(begin_merge, connection, index))
        while writer.exclusive(partial(continue_merge, connection, index)):
            pass


def _index_all_messages(writer: Writer) -> None:
    """Add all messages that wait to the index for searches across threads, in steps."""
    more = True
    while more:
        job = Job(call=index_some_messages)
        writer.run(job)
        if job.error is not None:
            raise job.error
        more = bool(job.result)


def _free_some(connection: sqlite3.Connection) -> None:
    # As a script: each freed page is a row without columns, and a cursor would stop at the first.
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_RECLAIMED_AT_ONCE})")


def _truncate_wal(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_alive: weakref.WeakSet[SQLiteStorage] = weakref.WeakSet()
_left_behind: list[_Opened] = []
"""Resources of the parent process. Closing them here would release the parent's locks."""


def _before_fork() -> None:
    for storage in list(_alive):
        storage._before_fork()


def _after_fork_in_parent() -> None:
    for storage in list(_alive):
        storage._after_fork_in_parent()


def _after_fork_in_child() -> None:
    for storage in list(_alive):
        storage._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
