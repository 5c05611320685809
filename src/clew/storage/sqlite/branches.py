"""Branch points in a file: read, added by commits that go back, and applied to queries."""

from __future__ import annotations

import sqlite3

from clew.model.commit import Commit
from clew.model.records import Range
from clew.storage.branches import DAMAGED_POINTS, moves_messages, parent_of_branch, with_point
from clew.storage.columns import damaged_thread
from clew.storage.conversions import pack_ranges, unpack_ranges
from clew.storage.rules import Decision
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

_SQL = named("writes.sql")


def read_points(thread_id: str, stored: bytes | None) -> tuple[Range, ...]:
    """Return a thread's branch points. Raises CorruptRecordError if they are damaged."""
    points = unpack_ranges(stored) if stored else ()
    if points is None:
        raise damaged_thread(thread_id, DAMAGED_POINTS)
    return points


class _Numbers:
    """Sequence numbers as of the writer's transaction."""

    def __init__(self, connection: sqlite3.Connection, thread: Thread) -> None:
        self._execute = connection.execute
        self._thread_no = thread.thread_no

    def of_message(self, message_id: str) -> int | None:
        found = self._execute(_SQL["message_sequence"], (self._thread_no, message_id)).fetchone()
        return found[0] if found else None

    def of_checkpoint(self, namespace: str, checkpoint_id: str) -> int | None:
        found = self._execute(_SQL["checkpoint"], (checkpoint_id, self._thread_no, namespace)).fetchone()
        return found[1] if found else None

    def of_head(self) -> int | None:
        rows = self._execute(_SQL["main_head"], (self._thread_no,))
        found = rows.fetchone()
        rows.close()
        return found[1] if found else None


def check_points(connection: sqlite3.Connection, commit: Commit, decided: Decision[Thread]) -> None:
    """Raise CorruptRecordError if `commit` needs branch points that are damaged. Called before anything is written,
    because the commits that share the transaction are kept."""
    if decided.origin:
        source = decided.origin[0]
        read_points(source.thread_id, source.points)
    kept = decided.kept
    if kept and kept.points and (_goes_back(kept, commit, decided) or _repeats(connection, kept, commit)):
        read_points(kept.thread_id, kept.points)


def _goes_back(thread: Thread, commit: Commit, decided: Decision[Thread]) -> bool:
    return bool(decided.branches or commit.back_to or (commit.remove and thread.points))


def _repeats(connection: sqlite3.Connection, thread: Thread, commit: Commit) -> bool:
    """Return whether the thread has one of the messages, which may have to move to the head's branch."""
    return moves_messages(commit) and any(
        connection.execute(_SQL["message"], (thread.thread_no, each.message_id)).fetchone() for each in commit.messages
    )


def add_point(connection: sqlite3.Connection, thread: Thread, commit: Commit, decided: Decision[Thread]) -> None:
    """Add a branch point if `commit`, whose removals were applied, goes back."""
    if not _goes_back(thread, commit, decided):
        return
    points = read_points(thread.thread_id, thread.points)
    parent = parent_of_branch(commit, decided, points, _Numbers(connection, thread))
    if parent is not None:
        thread.points = pack_ranges(with_point(points, parent, thread.sequence))
        connection.execute(_SQL["put_points"], (thread.points, thread.thread_no))
