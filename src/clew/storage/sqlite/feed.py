"""The feed of a file: written in the writer's transaction, read like any query."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import NamedTuple

import msgspec

from clew.clock import SYSTEM_CLOCK
from clew.ids import new_id
from clew.model.commit import Commit
from clew.model.feed import FeedEntry, FeedPage, FeedParts, FeedQuery
from clew.storage import feed
from clew.storage.columns import LARGEST
from clew.storage.conversions import UNDECODABLE, micros
from clew.storage.sqlite.bulk import BulkStatement, Column
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

_SQL = named("feed.sql")
_ADD = BulkStatement(_SQL["add"])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FeedParts).decode
_ENTRY_TYPES = frozenset((int, str, owner, str, int, bytes) for owner in (str, type(None)))
_SECOND = 1_000_000
LOOK_SECONDS = 0.15
"""How often a waiting watcher looks for commits of other processes."""
_LOOKS_PER_READ = 50
"""Looks after which the file is read in any case."""
_WHOLE_SECOND = 1_000_000_000
_TICK = 0.05
"""Seconds within which two writes may have the same time."""
Stamp = tuple[int, int] | None
"""When the log was last written to."""


def _now() -> int:
    return micros(SYSTEM_CLOCK.now())


class FeedWriter:
    """The writer's side of the feed. `until` is 0 while nobody watches."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self.until = 0
        self.written = False
        """Whether the last transaction wrote to the feed."""
        self._waiting: list[Column] = []
        self._since_trim = feed.TRIMMED

    def look(self) -> None:
        """Called at the start of a transaction if another connection has written: check whether somebody watches."""
        self.until = 0
        if self._execute(_SQL["exists"]).fetchone():
            # Not the generation, which may be damaged: no write needs it.
            found = self._execute(_SQL["until"]).fetchone()
            if found is not None and type(found[0]) is int:
                self.until = found[0]
                if self._is_full():
                    self._end()

    def begin(self) -> None:
        """Called at the start of a transaction: end a feed that nobody watches any more."""
        self.written = False
        if self.until and self.until < _now():
            self._end()

    def _end(self) -> None:
        self.until = 0
        self._execute(_SQL["end"])
        self._execute(_SQL["empty"])

    def _is_full(self) -> bool:
        """Whether an entry has a damaged number, after which numbers could not grow."""
        (last,) = self._execute(_SQL["last"]).fetchone()
        return last is not None and last > LARGEST

    def watch(self) -> None:
        """Begin the feed, or note that it is watched. A damaged feed begins anew."""
        self._execute(_SQL["create_state"])
        self._execute(_SQL["create_feed"])
        until = _now() + feed.KEPT_FOR * _SECOND
        state = self._execute(_SQL["state"]).fetchone()
        if state is None or not _is_readable(state) or self._is_full():
            self._end()
            self._execute(_SQL["begin"], (new_id(), until))
        else:
            self._execute(_SQL["renew"], (until,))
        self.until = until

    def add_checkpoint(self, thread: Thread, namespace: str, checkpoint_id: str) -> None:
        """Add the entry of a commit that only brought a checkpoint."""
        self._add(thread, thread.owner, FeedParts(checkpoint=(namespace, checkpoint_id)))

    def add(self, commit: Commit, found: Thread | None, owner: str | None, left: Thread | None, removed: int) -> None:
        """Add the entry of an applied commit, if there is one. `owner` is the one that it found."""
        after = left.owner if left else owner
        parts = feed.parts_of(
            commit, existed=found is not None, left=left is not None, owners=(owner, after), removed=removed
        )
        thread = left or found
        if parts is not None and thread is not None:
            self._add(thread, after, parts)

    def _add(self, thread: Thread, owner: str | None, parts: FeedParts) -> None:
        self._waiting += (thread.thread_id, owner, thread.incarnation, thread.sequence, _encode(parts))

    def flush(self) -> None:
        """Write the entries of the transaction, and remove old ones."""
        if not self._waiting:
            return
        _ADD(self._execute, self._waiting)
        self._since_trim += len(self._waiting) // 5
        self._waiting.clear()
        self.written = True
        if self._since_trim >= feed.TRIMMED:
            self._since_trim = 0
            (last,) = self._execute(_SQL["last"]).fetchone()
            self._execute(_SQL["trim"], (last - feed.LENGTH,))

    def forget(self) -> None:
        """Forget the entries of a transaction that is undone."""
        self._waiting.clear()
        self.written = False


def wal_stamp(path: str) -> Stamp:
    """The size and the time of the log; `None` if the last write is so recent that another write might show
    the same time."""
    try:
        found = os.stat(f"{path}-wal")  # noqa: PTH116  (a Path would cost as much as the call)
    except OSError:
        return None
    return None if abs(time.time() - found.st_mtime) < _TICK else (found.st_size, found.st_mtime_ns)


class Looks:
    """Checks the log's size and time, which usually show that nothing was written.

    Reading the file takes fifty times as long. The file is still read from time to time. On file systems
    whose times have no fraction of a second, which may not show a write, it is read at each look.
    """

    def __init__(self, path: str, stamp: Stamp, seconds: float) -> None:
        self._path = path
        self._stamp = stamp
        self.left = max(1, round(seconds / LOOK_SECONDS))
        self.saw_a_write = False
        """Whether the last look saw that the log was written to, or may have been."""

    def __call__(self) -> bool:
        """Look once. Returns whether that ends the wait."""
        self.left -= 1
        before, stamp = self._stamp, wal_stamp(self._path)
        self._stamp = stamp
        self.saw_a_write = stamp is None or stamp != before or not stamp[1] % _WHOLE_SECOND
        if not self.left % _LOOKS_PER_READ and self.left:
            self.saw_a_write = True
        return self.saw_a_write or not self.left


class Found(NamedTuple):
    """An answer, whether a watcher has to be noted, and the number of the last entry."""

    page: FeedPage | None
    note: bool
    last: int


def read(connection: sqlite3.Connection, query: FeedQuery) -> Found:
    """Answer `query`, without waiting. The page is `None` if there is no feed."""
    state = connection.execute(_SQL["state"]).fetchone() if connection.execute(_SQL["exists"]).fetchone() else None
    if state is None or not _is_readable(state):
        return Found(None, note=True, last=0)
    generation, until = state
    note = until < _now() + (feed.KEPT_FOR - feed.RENEWED) * _SECOND
    first, last = connection.execute(_SQL["bounds"]).fetchone()
    first, last = first or 1, last or 0
    if last > LARGEST:
        return Found(None, note=True, last=0)
    now = feed.numbered(generation, last)
    if query.after is None:
        return Found(FeedPage(position=now), note, last)
    after = feed.read_number(query.after, generation)
    end = last if query.until is None else feed.read_number(query.until, generation)
    if after is None or end is None or not first - 1 <= after <= last:
        return Found(FeedPage(position=now, gap=True), note, last)
    rows = connection.execute(_SQL["page"], (after, end, query.limit + 1)).fetchall()
    if any(tuple(map(type, row)) not in _ENTRY_TYPES for row in rows):
        # Nobody knows which thread a damaged entry is about.
        return Found(FeedPage(position=now, gap=True), note, last)
    entries = tuple([_entry(generation, row) for row in rows[: query.limit]])
    more = len(rows) > query.limit
    position = entries[-1].position if more else feed.numbered(generation, max(after, end))
    return Found(FeedPage(position=position, entries=entries, more=more), note, last)


def _is_readable(state: tuple[object, object]) -> bool:
    generation, until = state
    return isinstance(generation, str) and isinstance(until, int)


def last_number(connection: sqlite3.Connection) -> int:
    """The number of the last entry; 0 if there is none."""
    if not connection.execute(_SQL["exists"]).fetchone():
        return 0
    return int(connection.execute(_SQL["last"]).fetchone()[0] or 0)


def _entry(generation: str, row: tuple[int, str, str | None, str, int, bytes]) -> FeedEntry:
    number, thread_id, owner, incarnation, sequence, stored = row
    try:
        parts = _decode(stored)
    except UNDECODABLE:
        # The entry is damaged. The watcher gets the thread's description, so it learns that something happened.
        parts = FeedParts(described=True)
    return FeedEntry(
        position=feed.numbered(generation, number),
        thread_id=thread_id,
        owner=owner,
        incarnation=incarnation,
        sequence=sequence,
        parts=parts,
    )
