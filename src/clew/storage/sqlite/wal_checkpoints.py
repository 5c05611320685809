"""WAL checkpoints, in a thread of their own: in the writer, they would delay saves."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from clew.errors import StorageError
from clew.os_threads import OwnThread
from clew.storage.sqlite.connections import Connections

if TYPE_CHECKING:
    from clew.storage.sqlite.writer import Job

_PAGES = 1_000
_PAGES_AT_MOST = 8_000
_PAGES_A_COMMIT = 2
_PAGE = 2_048
# A long read keeps the WAL from being restarted. The writer waits for it this long at most.
_READER_TIMEOUT = 0.05
_TURN_TIMEOUT = 1.0


class WalCheckpoints:
    """Checkpoints the WAL after about a thousand written pages, and restarts a long one."""

    def __init__(self, connections: Connections, turn: threading.Lock) -> None:
        self._connections = connections
        self._turn = turn
        self._pages = 0
        self._due: SimpleQueue[bool] = SimpleQueue()
        """True: a checkpoint is due. False: the thread ends."""
        self._thread = OwnThread(self._serve, "clew-sqlite-wal")

    def wrote(self, jobs: Iterable[Job]) -> None:
        """Estimate the pages that a transaction wrote. Enough of them wake the thread."""
        pages = 2
        for job in jobs:
            for commit in job.commits:
                pages += _PAGES_A_COMMIT
                if commit.values is not None:
                    pages += len(commit.values.data) // _PAGE
                if commit.journal is not None:
                    pages += len(commit.journal) // _PAGE
                if commit.messages or commit.attachments:
                    pages += len(commit.messages) + len(commit.attachments)
        self._pages += pages
        if self._pages >= _PAGES:
            self._pages = 0
            self._wake()

    def stop(self) -> None:
        """End the thread, until the next `wrote` starts it again. Idempotent."""
        if self._thread.begun:
            self._due.put(False)
            self._thread.wait()

    def _wake(self) -> None:
        try:
            self._thread.begin()
        except RuntimeError:
            # The system can't start a thread: the WAL stays longer for now.
            return
        self._due.put(True)

    def _serve(self) -> None:
        try:
            connection = self._connections.open(busy_timeout=_READER_TIMEOUT)
        except (sqlite3.Error, StorageError):
            return
        try:
            while self._is_due():
                self._checkpoint(connection)
        finally:
            connection.close()

    def _is_due(self) -> bool:
        """Wait until a checkpoint is due. Returns False if the thread is to end."""
        go_on = self._due.get()
        while go_on:
            try:
                go_on = self._due.get_nowait()
            except Empty:
                return True
        return False

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        try:
            _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if pages > _PAGES_AT_MOST:
                # The WAL could not be restarted because writers kept adding to it: make them wait.
                self._restart(connection)
        except sqlite3.Error:
            # The WAL stays longer for now. If the file is broken, the writer reports it.
            return

    def _restart(self, connection: sqlite3.Connection) -> None:
        # With a timeout: the holder of the turn may be waiting for this thread to end.
        if self._turn.acquire(timeout=_TURN_TIMEOUT):
            try:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            finally:
                self._turn.release()
