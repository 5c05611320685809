"""Facts about threads for the rules of a commit, from memory where the writer has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from clew.model.commit import Commit, NewCheckpoint
from clew.model.config import ANY_USER, User
from clew.storage.columns import damage_of, damaged_thread
from clew.storage.facts import StoredRow
from clew.storage.rules import is_open_to
from clew.storage.sqlite.removals import shared_before
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, readable_row

_SQL = named("writes.sql")
_UNREADABLE = "its row can't be read"


class SQLiteFacts:
    """Facts as of the writer's transaction.

    `buffered` are the checkpoints (thread number and id) that are not written yet; `write_buffered`
    writes them, so that a query finds them.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        threads: dict[str, Thread],
        buffered: set[tuple[int, str]],
        write_buffered: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._threads = threads
        self._buffered = buffered
        self._write_buffered = write_buffered
        self._user: User = ANY_USER
        self._even_damaged = False

    def are_for(self, user: User, *, even_damaged: bool = False) -> None:
        """Set the user of the next questions, and whether a damaged thread is acceptable (for a deletion, it is)."""
        self._user = user
        self._even_damaged = even_damaged

    def thread(self, thread_id: str) -> Thread | None:
        known = self._threads.get(thread_id)
        if known is None:
            row = self._execute(_SQL["thread"], (thread_id,)).fetchone()
            if row is not None:
                mended = readable_row(row)
                known = Thread(thread_id, mended or row)
                if (damage := _UNREADABLE if mended else self._damage_of(known)) is None:
                    self._threads[thread_id] = known
                elif isinstance(row[1], str) and not is_open_to(row[1], self._user):
                    # The rules refuse the commit as for an undamaged thread, so a stranger learns nothing more.
                    return known
                elif not self._even_damaged or (type(row[1]) is not type(known.owner) and self._user is not ANY_USER):
                    # Nobody knows who the owner is, so only `ANY_USER` may delete it.
                    raise damaged_thread(thread_id, damage)
                elif mended:
                    self._find_log(known)
        return known

    def _find_log(self, thread: Thread) -> None:
        """Find the log of a thread whose row may have lost its number, so that its values are deleted too."""
        if thread.log_no < 0 and (found := self._execute(_SQL["log_of"], (thread.thread_no,)).fetchone()):
            thread.log_no = found[0]

    def end_of_missing(self, thread_id: str) -> str | None:
        found = self._execute(_SQL["end_of_missing"], (thread_id,)).fetchone()
        # A damaged record counts as missing.
        return found[0] if found and type(found[0]) is str else None

    def _damage_of(self, thread: Thread) -> str | None:
        if damage := thread.mend():
            return damage_of([damage])
        self._write_buffered()
        rows = self._execute(_SQL["main_head"], (thread.thread_no,))
        head = rows.fetchone()
        if head is not None and (type(head[1]) is not int or head[1] > thread.sequence):
            # A new checkpoint would get a lower number than the head, and would not be found.
            rows.close()
            return damage_of(["sequence"])
        thread.heads[""] = _first_readable(head, rows)
        return None

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        return self._execute(_SQL["committed"], (commit.commit_id, thread.thread_no)).fetchone() is not None

    def last_token(self, thread_id: str, space: str) -> int | None:
        found = self._execute(_SQL["lease"], (thread_id, space)).fetchone()
        return found[1] if found else None

    def head(self, thread: Thread, namespace: str, *, without: frozenset[str]) -> str | None:
        if not without and namespace in thread.heads:
            return thread.heads[namespace]
        self._write_buffered()
        if namespace:
            rows = self._execute(_SQL["other_head"], (thread.thread_no, namespace))
        else:
            rows = self._execute(_SQL["main_head"], (thread.thread_no,))
        head = _first_readable(None, (row for row in rows if row[0] not in without))
        rows.close()
        if not without:
            thread.heads[namespace] = head
        return head

    def has_checkpoint(self, thread: Thread, namespace: str, checkpoint_id: str) -> bool:
        self._write_buffered()
        key = (checkpoint_id, thread.thread_no, namespace)
        return self._execute(_SQL["checkpoint"], key).fetchone() is not None

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        return self.has_checkpoint(thread, new.namespace, new.checkpoint_id)

    def shared_before(self, thread: Thread) -> int:
        return shared_before(self._connection, thread)[1]

    def rows(self, thread: Thread, first: int, end: int) -> list[StoredRow]:
        rows = self._execute(_SQL["values_between"], (thread.log_no, first, end)).fetchall()
        return [row for row in rows if row[0] + row[1] > first]


def _first_readable(first: tuple[Any, ...] | None, rows: Iterable[tuple[Any, ...]]) -> str | None:
    """The id of the newest checkpoint whose id can be read: a damaged one does not block its thread."""
    if first is not None and type(first[0]) is str:
        return first[0]
    return next((row[0] for row in rows if type(row[0]) is str), None)


class FastPathFacts(SQLiteFacts):
    """Facts for the fast path, which assumes that the checkpoint's id is new.

    If the assumption is wrong (a repeated commit, say), a unique index makes the write fail, and the
    writer decides again with `SQLiteFacts`. Receipts that no checkpoint carries are looked up here.
    """

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        if thread.receipts and self._execute(_SQL["receipt"], (thread.thread_no, commit.commit_id)).fetchone():
            return True
        new = commit.checkpoint
        if new is None or new.checkpoint_id == commit.commit_id:
            return False
        # If the receipt is a checkpoint with another id, no unique index notices.
        return (thread.thread_no, commit.commit_id) in self._buffered or super().has_applied(thread, commit)

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        return False
