"""Keeping the write-ahead log short, in a thread of its own: done by the writer, it would make one save in many slow."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from clew.storage.sqlite.connections import Connections

if TYPE_CHECKING:
    from clew.storage.sqlite.writer import Job

_PAGES = 1_000
_PAGES_AT_MOST = 8_000
_PAGES_A_COMMIT = 2
_PAGE = 2_048
# A reader that stays holds up the emptying of the log; the writer waits for it no longer than this, and goes on.
_PATIENCE = 0.05
_TURN_PATIENCE = 1.0


class LogUpkeep:
    """Moves the log into the file whenever about a thousand pages were written, and starts it anew when it got long."""

    def __init__(self, connections: Connections, turn: threading.Lock) -> None:
        self._connections = connections
        self._turn = turn
        self._pages = 0
        self._due = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._stopping = False

    def wrote(self, jobs: Iterable[Job]) -> None:
        """Count what a transaction wrote (roughly), and wake the thread when enough has come together."""
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
        """Let go of the thread and its connection; the next `wrote` may start them again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping = True
            self._due.release()
            thread.join()
            self._stopping = False

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name="clew-sqlite-upkeep", daemon=True)
            self._thread.start()
        self._due.release()

    def _serve(self) -> None:
        try:
            connection = self._connections.open(busy_timeout=_PATIENCE)
        except sqlite3.Error:
            return
        try:
            while True:
                self._due.acquire()
                while self._due.acquire(blocking=False):
                    pass
                if self._stopping:
                    return
                self._shorten(connection)
        finally:
            connection.close()

    def _shorten(self, connection: sqlite3.Connection) -> None:
        try:
            _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if pages > _PAGES_AT_MOST:
                # Writers kept adding while it was copied, so it could not start anew: have them wait for the rest.
                self._start_anew(connection)
        except sqlite3.Error:
            # The log only stays longer for now: whatever is wrong with the file, the writer meets and reports it.
            return

    def _start_anew(self, connection: sqlite3.Connection) -> None:
        # Not for ever: who holds the turn may be waiting for this thread to end.
        if self._turn.acquire(timeout=_TURN_PATIENCE):
            try:
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            finally:
                self._turn.release()
