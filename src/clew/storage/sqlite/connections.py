"""Connections to the file: opening them, preparing the file, and lending connections to readers."""

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

from clew.answers import Answer
from clew.errors import StorageError
from clew.storage.sqlite import schema
from clew.storage.sqlite.failures import FAILURES, error_code, is_undecodable, storage_error

if (3, 12) <= sys.version_info < (3, 12, 4):
    # These versions mistake `?1` for a named parameter, and warn if it is bound by position.
    warnings.filterwarnings("ignore", "Binding .* is a named parameter", DeprecationWarning, r"clew\.storage\.sqlite")

Synchronous = Literal["FULL", "NORMAL", "EXTRA"]
Result = TypeVar("Result")
Args = TypeVarTuple("Args")
Question = TypeVar("Question")

IDLE_READERS = 8
_OLDEST = (3, 37, 0)
_PAGE_SIZE = 2048
"""Half of SQLite's default: an empty store takes half the space (docs/decisions/0006)."""
_WAL_BYTES_KEPT = 64 << 20


def readable_text(stored: bytes) -> str | bytes:
    """The stored text, or the bytes of damaged text."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def begin_writing(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Start a transaction as the only writer, waiting up to `busy_timeout` seconds for others.

    `connection` must have no busy timeout of its own: SQLite retries only every tenth of a second, and
    would hardly ever find a busy writer idle.
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


def wait_until_released(lock: threading.Lock, deadline: float) -> bool:
    """Wait until nobody holds `lock`, or until `deadline` (monotonic). Returns whether it was released.

    Does not take the lock: interrupted in `lock.acquire(timeout=…)`, a caller could keep it.
    """
    while lock.locked():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)
    return True


class _Reader:
    """A connection for the lock's holder. After an interrupted read it is not `intact`."""

    __slots__ = ("connection", "intact", "lock", "retired")

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        self.connection = connection
        self.lock = threading.Lock()
        self.intact = connection is not None
        self.retired = False

    def close(self) -> None:
        """Close the connection. Called with the lock held. Idempotent."""
        self.intact = False
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Connections:
    """The connections to one file. Each reader gets its own, and never waits for the writer.

    A reader may be interrupted (Ctrl-C) at any line. So each connection has a lock, held in a `with`
    statement.
    """

    def __init__(self, path: str, *, synchronous: Synchronous, busy_timeout: float) -> None:
        self.path = path
        self._synchronous = synchronous
        self.busy_timeout = busy_timeout
        self._closed = False
        self._readers: list[_Reader] = []
        self._preparing = threading.Lock()
        self._prepared = False
        self._forks: dict[int, Answer[None]] = {}
        """Running forks (`os.fork`), by OS thread. The answer is given when the fork is done."""
        self._identity: tuple[int, int] | None = None

    def open(self, *, busy_timeout: float | None = None) -> sqlite3.Connection:
        """Open a connection that may write. Any OS thread may use it, one at a time."""
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
            # A thread of its own does WAL checkpoints (`wal_checkpoints.py`).
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Create the file, readable by this user only, unless it exists or has existed."""
        if self._identity is not None:
            return self.check_there()
        try:
            # SQLite creates the target of a symbolic link, and O_EXCL would refuse the link.
            os.close(os.open(os.path.realpath(self.path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            # It exists, or SQLite will say what is wrong.
            return None

    def check_there(self) -> None:
        """Raise StorageError if the file was deleted or replaced: writes would be lost."""
        if self._identity is not None and self._identity_now() != self._identity:
            raise StorageError(
                f"{self.path} was deleted or replaced while it was open, and everything saved since then is lost: "
                "restore it or remove it, then connect again",
                path=self.path,
            )

    def _identity_now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116  (a Path would cost as much as the call)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def prepare(self) -> None:
        """Create, check or migrate the file, once. Safe in concurrent threads and processes."""
        if self._prepared:
            return
        with self._preparing:
            if self._prepared:
                return
            try:
                connection = self.open()
                try:
                    self._make_ready(connection)
                    connection.execute("PRAGMA query_only = ON")
                except BaseException:
                    connection.close()
                    raise
            except FAILURES as error:
                raise storage_error(error, self.path) from error
            # It has read the schema already, so the first reader gets it.
            self._readers.append(_Reader(connection))
            self._identity = self._identity_now()
            self._prepared = True

    def _make_ready(self, connection: sqlite3.Connection) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            message = (
                f"Clew needs SQLite {needed} or newer, and this Python has {sqlite3.sqlite_version}: use a newer Python"
            )
            raise StorageError(message, found=sqlite3.sqlite_version, needed=needed)
        if schema.check(connection, self.path) == 0:
            # Only an empty file takes this. It costs 2% of the writes, and lets `reclaim`
            # shrink the file step by step.
            connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._use_wal(connection)
        if schema.check(connection, self.path) < schema.VERSION:
            schema.migrate(connection, self.path)

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        # Switching needs exclusive access, for which SQLite does not wait.
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
        """Return `work(connection, *args)`, run on one snapshot. Damaged text is read as bytes."""
        self.prepare()
        self.check_there()
        try:
            return self._read(str, work, *args)
        except FAILURES as error:
            if not is_undecodable(error):
                raise storage_error(error, self.path) from error
        # Only now, because text that Python decodes takes longer to read.
        try:
            return self._read(readable_text, work, *args)
        except FAILURES as error:
            raise storage_error(error, self.path) from error

    def _read(
        self,
        text_factory: Callable[[bytes], str | bytes],
        work: Callable[[sqlite3.Connection, *Args], Result],
        *args: *Args,
    ) -> Result:
        while True:
            reader = self._idle_reader()
            with reader.lock:
                if self._closed:
                    raise StorageError(f"{self.path} was closed", path=self.path)
                if not self.forking and not reader.retired:
                    return self._read_with(reader, text_factory, work, *args)
            self.wait_for_fork()

    def _idle_reader(self) -> _Reader:
        for reader in self._readers:
            if not reader.lock.locked():
                return reader
        reader = _Reader()
        self._readers.append(reader)
        return reader

    def _read_with(
        self,
        reader: _Reader,
        text_factory: Callable[[bytes], str | bytes],
        work: Callable[[sqlite3.Connection, *Args], Result],
        *args: *Args,
    ) -> Result:
        try:
            connection = reader.connection
            if connection is None or not reader.intact:
                connection = self._reopened(reader)
            reader.intact = False
            connection.text_factory = text_factory
            connection.execute("BEGIN")
            result = work(connection, *args)
            connection.execute("COMMIT")
            reader.intact = True
        except BaseException:
            reader.close()
            raise
        if len(self._readers) > IDLE_READERS:
            self._retire(reader)
        return result

    def _reopened(self, reader: _Reader) -> sqlite3.Connection:
        reader.close()
        connection = reader.connection = self.open()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _retire(self, reader: _Reader) -> None:
        """Close a surplus connection, if enough others are idle. Called with its lock held."""
        if sum(not each.lock.locked() for each in self._readers) >= IDLE_READERS:
            reader.retired = True
            self._readers.remove(reader)
            reader.close()

    def read_all(
        self, work: Callable[[sqlite3.Connection, Question], Result], questions: Sequence[Question]
    ) -> list[Result]:
        """Return `work(connection, question)` for each question, all on one snapshot."""
        return self.read(lambda connection: [work(connection, question) for question in questions])

    # SQLite's locks don't survive a fork, so no connection may be open across one.

    @property
    def forking(self) -> bool:
        """Whether this process is forking. Callers then release their locks and wait."""
        return bool(self._forks)

    def wait_for_fork(self) -> None:
        """Wait until the running forks are done."""
        for forked in list(self._forks.values()):
            forked.wait()

    def begin_fork(self) -> None:
        """Keep readers and writers from starting, until `end_fork` in the same OS thread."""
        self._forks[threading.get_ident()] = Answer()

    def end_fork(self) -> None:
        """Let readers and writers continue. Does nothing if this thread is not forking."""
        forked = self._forks.pop(threading.get_ident(), None)
        if forked is not None:
            forked.give(None)

    def rest(self, deadline: float) -> None:
        """Wait for readers until `deadline`, then close connections. Keep new readers out."""
        wait_until_released(self._preparing, deadline)
        for reader in list(self._readers):
            if wait_until_released(reader.lock, deadline):
                with reader.lock:
                    reader.close()

    def close(self) -> None:
        """Wait for readers, then close. Later reads raise StorageError. Idempotent."""
        self._closed = True
        self.rest(time.monotonic() + self.busy_timeout)
