"""Opening connections, lending them to readers, and turning the driver's errors into Clew's."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar, TypeVarTuple

from clew.errors import (
    ClewError,
    CorruptRecordError,
    SchemaVersionError,
    StorageError,
    TransientStorageError,
)
from clew.storage.sqlite import schema
from clew.storage.sqlite.thread_index import catch_up

if (3, 12) <= sys.version_info < (3, 12, 4):
    # These take `?1` for a named parameter and warn when it is given by position; the versions after them don't.
    warnings.filterwarnings("ignore", "Binding .* is a named parameter", DeprecationWarning, r"clew\.storage\.sqlite")

Synchronous = Literal["FULL", "NORMAL", "EXTRA"]
Result = TypeVar("Result")
Args = TypeVarTuple("Args")
Question = TypeVar("Question")

IDLE_READERS = 8
_OLDEST = (3, 37, 0)
_PAGE_SIZE = 2048
"""Half of SQLite's own choice: an empty store and the ends of many small tables take half the space, and nothing is slower."""
_WAL_BYTES_KEPT = 64 << 20

_ADVICE: dict[int, tuple[type[ClewError], str]] = {
    sqlite3.SQLITE_BUSY: (
        TransientStorageError,
        "is in use by another process for longer than `busy_timeout`; try again",
    ),
    sqlite3.SQLITE_LOCKED: (TransientStorageError, "is in use by another connection; try again"),
    sqlite3.SQLITE_FULL: (StorageError, "can't grow: the disk or its quota is full; free some space"),
    sqlite3.SQLITE_READONLY: (
        StorageError,
        "can't be written: make the file and its directory writable for this process",
    ),
    sqlite3.SQLITE_PERM: (StorageError, "may not be accessed: check the permissions of the file and its directory"),
    sqlite3.SQLITE_CANTOPEN: (
        StorageError,
        "can't be opened: create its directory and make both writable for this process",
    ),
    sqlite3.SQLITE_IOERR: (
        StorageError,
        "met a disk error: check the disk and the system's log; nothing was acknowledged",
    ),
    sqlite3.SQLITE_NOMEM: (StorageError, "ran out of memory"),
    sqlite3.SQLITE_TOOBIG: (StorageError, "can't hold a value of that size; split it, or store a reference"),
    sqlite3.SQLITE_CORRUPT: (
        CorruptRecordError,
        "is damaged: save a copy, then recover it with `sqlite3 FILE .recover`",
    ),
    sqlite3.SQLITE_NOTADB: (SchemaVersionError, "is not a database; give Clew a file of its own"),
}

WHOLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOTADB,
    }
)
"""Failures of the file as a whole: no commit is to blame."""


def error_code(error: BaseException) -> int | None:
    """SQLite's primary code for `error`, if it has one."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def storage_error(error: BaseException, path: str) -> ClewError:
    """The error of Clew's that tells what `error` means and what to do; `error` becomes its cause."""
    if isinstance(error, ClewError):
        return error
    kind, advice = _ADVICE.get(error_code(error) or -1, (StorageError, "failed"))
    mapped = kind(f"{path} {advice} ({type(error).__name__}: {error})", path=path)
    mapped.__cause__ = error
    return mapped


def begin_writing(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Begin a transaction as the only writer of the file, waiting for other processes up to `busy_timeout` seconds.

    SQLite's own way of waiting looks every tenth of a second, when a process that writes all the time is hardly ever found
    idle: `connection` is one that does not wait.
    """
    deadline = None
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            now = time.monotonic()
            deadline = now + busy_timeout if deadline is None else deadline
            if error_code(error) != sqlite3.SQLITE_BUSY or now >= deadline:
                raise
            time.sleep(random.uniform(0, 0.004))
        else:
            return


class Connections:
    """The connections to one file. Readers each get one of their own and never wait for the writer."""

    def __init__(self, path: str, *, synchronous: Synchronous, busy_timeout: float) -> None:
        self.path = path
        self._synchronous = synchronous
        self.busy_timeout = busy_timeout
        self._lent = 0
        self._paused = False
        self._closed = False
        self._idle: list[sqlite3.Connection] = []
        self._changed = threading.Condition()
        self._preparing = threading.Lock()
        self._prepared = threading.Event()
        self._identity: tuple[int, int] | None = None

    def open(self, *, busy_timeout: float | None = None) -> sqlite3.Connection:
        """A new connection that may write, usable from any thread (by one at a time)."""
        directory = Path(self.path).parent
        if not directory.is_dir():
            raise StorageError(f"{directory} is not a directory: create it, then try again", path=self.path)
        self._create()
        connection = sqlite3.connect(
            self.path,
            timeout=self.busy_timeout if busy_timeout is None else busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            # The writer leaves moving the log into the file to a thread of its own (see `upkeep`).
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Create the file if it is not there, for this user only: conversations are nobody else's business. Once it was there,
        it is not created again."""
        if self._identity is not None:
            return self.check_there()
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            # It is there, or SQLite says what is wrong with it.
            return None

    def check_there(self) -> None:
        """Raise StorageError if the file was deleted or replaced: what is written to the open one is lost."""
        if self._identity is not None and self._identity_now() != self._identity:
            raise StorageError(
                f"{self.path} was deleted or replaced while it was open, and what was saved to it since is lost: "
                "put it back or take care of it, then connect again",
                path=self.path,
            )

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116  (a Path would cost as much as the call)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def prepare(self) -> None:
        """Create, check or migrate the file, once. Safe in many threads and processes."""
        if self._prepared.is_set():
            return
        with self._preparing:
            if self._prepared.is_set():
                return
            try:
                connection = self.open()
                try:
                    self._make_ready(connection)
                    connection.execute("PRAGMA query_only = ON")
                except BaseException:
                    connection.close()
                    raise
            except sqlite3.Error as error:
                raise storage_error(error, self.path) from error
            self._identity = self._identity_now()
            self._prepared.set()
            # It has read the schema already: the first reader gets it.
            with self._changed:
                self._lent += 1
            self._give_back(connection, broken=False)

    def _make_ready(self, connection: sqlite3.Connection) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            message = (
                f"Clew needs SQLite {needed} or newer, and this Python has {sqlite3.sqlite_version}: use a newer Python"
            )
            raise StorageError(message, found=sqlite3.sqlite_version, needed=needed)
        if schema.check(connection, self.path) == 0:
            # Only an empty file takes this. It costs 2% of what is written, and lets `reclaim` shrink the file bit by bit.
            connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._use_wal(connection)
        if schema.check(connection, self.path) < schema.VERSION:
            schema.migrate(connection, self.path)
            catch_up(connection)

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # Switching needs the file alone and gives up at once, whatever the busy timeout.
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                raise StorageError(
                    f"{self.path} can't use a write-ahead log here (network file system?)", path=self.path
                )
            return

    def read(self, work: Callable[[sqlite3.Connection, *Args], Result], *args: *Args) -> Result:
        """`work(connection, *args)` over one unchanging view of the file."""
        self.prepare()
        self.check_there()
        connection = self._borrow()
        try:
            connection.execute("BEGIN")
            result = work(connection, *args)
            connection.execute("COMMIT")
        except BaseException as error:
            self._give_back(connection, broken=True)
            if isinstance(error, sqlite3.Error):
                raise storage_error(error, self.path) from error
            raise
        self._give_back(connection, broken=False)
        return result

    def read_all(
        self, work: Callable[[sqlite3.Connection, Question], Result], questions: Sequence[Question]
    ) -> list[Result]:
        """`work(connection, question)` for each of them, over one unchanging view of the file."""
        return self.read(lambda connection: [work(connection, question) for question in questions])

    def _borrow(self) -> sqlite3.Connection:
        with self._changed:
            while self._paused:
                if self._closed:
                    raise StorageError(f"{self.path} was closed", path=self.path)
                self._changed.wait()
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            connection = self.open()
            connection.execute("PRAGMA query_only = ON")
        except BaseException as error:
            self._give_back(None, broken=True)
            if isinstance(error, sqlite3.Error):
                raise storage_error(error, self.path) from error
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection | None, *, broken: bool) -> None:
        if connection is not None:
            with self._changed:
                if not broken and len(self._idle) < IDLE_READERS and not self._paused:
                    self._idle.append(connection)
                    self._lent -= 1
                    return
            # Before it counts as returned: whoever waits for that forks next, and none may be open then.
            connection.close()
        with self._changed:
            self._lent -= 1
            self._changed.notify_all()

    def pause(self, *, timeout: float) -> None:
        """Let readers finish, keep new ones waiting, and close all idle connections."""
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: self._lent == 0, timeout)
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Let readers finish and close everything. Who wants to read afterwards gets a StorageError."""
        self._closed = True
        self.pause(timeout=self.busy_timeout)

    def resume(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()
