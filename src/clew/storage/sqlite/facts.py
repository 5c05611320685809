"""Facts about the threads in a file, as the rules of a commit ask for them: from memory where the writer knows them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from clew.model.commit import Commit, NewCheckpoint
from clew.storage.rules import StoredRow
from clew.storage.sqlite.removing import shared_before
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

_SQL = named("writes.sql")


class SQLiteFacts:
    """The facts as the writer's transaction has them. `write_gathered` writes the rows that a query must find."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        threads: dict[str, Thread],
        gathered: set[tuple[int, str]],
        write_gathered: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._threads = threads
        self._gathered = gathered
        self._write_gathered = write_gathered

    def thread(self, thread_id: str) -> Thread | None:
        known = self._threads.get(thread_id)
        if known is None:
            row = self._execute(_SQL["thread"], (thread_id,)).fetchone()
            if row is not None:
                known = self._threads[thread_id] = Thread(thread_id, row)
        return known

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        return self._execute(_SQL["committed"], (commit.commit_id, thread.thread_no)).fetchone() is not None

    def last_token(self, thread_id: str) -> int | None:
        found = self._execute(_SQL["lease"], (thread_id,)).fetchone()
        return found[1] if found else None

    def head(self, thread: Thread, namespace: str, *, without: frozenset[str]) -> str | None:
        if not without and namespace in thread.heads:
            return thread.heads[namespace]
        self._write_gathered()
        if namespace:
            rows = self._execute(_SQL["other_head"], (thread.thread_no, namespace))
        else:
            rows = self._execute(_SQL["main_head"], (thread.thread_no,))
        head = next((checkpoint_id for checkpoint_id, _ in rows if checkpoint_id not in without), None)
        rows.close()
        if not without:
            thread.heads[namespace] = head
        return head

    def has_checkpoint(self, thread: Thread, namespace: str, checkpoint_id: str) -> bool:
        self._write_gathered()
        key = (checkpoint_id, thread.thread_no, namespace)
        return self._execute(_SQL["checkpoint"], key).fetchone() is not None

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        return self.has_checkpoint(thread, new.namespace, new.checkpoint_id)

    def shared_before(self, thread: Thread) -> int:
        return shared_before(self._connection, thread.log_no)[1]

    def rows(self, thread: Thread, first: int, end: int) -> list[StoredRow]:
        rows = self._execute(_SQL["values_between"], (thread.log_no, first, end)).fetchall()
        return [row for row in rows if row[0] + row[1] > first]


class HurriedFacts(SQLiteFacts):
    """The facts for a usual commit, which leave it to unique indexes to notice checkpoints that are there already.

    A commit that comes again brings its checkpoint again; if it is one of those, writing it fails, and the writer decides all
    over with facts that it looked up. Receipts that no checkpoint carries are looked up here.
    """

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        if thread.receipts and self._execute(_SQL["receipt"], (thread.thread_no, commit.commit_id)).fetchone():
            return True
        new = commit.checkpoint
        if new is None or new.checkpoint_id == commit.commit_id:
            return False
        # No index would notice a checkpoint of another id that is the receipt of this commit.
        return (thread.thread_no, commit.commit_id) in self._gathered or super().has_applied(thread, commit)

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        return False
