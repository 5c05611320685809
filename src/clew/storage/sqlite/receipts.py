"""Receipts: the ids of a thread's last commits, as many as the protocol promises.

A checkpoint is the receipt of the commit that added it, so most commits write no other. The table
`receipts` has the rest: commits without a new checkpoint, commits whose checkpoint was removed, and
receipts from another store. The writer counts a thread's rows and prunes when there are too many, so
their number is bounded.
"""

from __future__ import annotations

import sqlite3

from clew.model.commit import Commit
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED
from clew.storage.rules import made_checkpoint
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

_WRITES, _READS = named("writes.sql"), named("reads.sql")


def add_receipts(connection: sqlite3.Connection, thread: Thread, commit: Commit, *, replaced: bool) -> None:
    """Add receipts of `commit`, just applied, and those that it brings, then prune.

    `replaced` says that the commit's checkpoint replaced an existing one.
    """
    own = place_of(thread.sequence)
    # Oldest first. As many as a thread keeps fit in front of the commit's own place.
    brought = commit.receipts[-RECEIPTS_KEPT - RECEIPTS_PRUNED :]
    for place, commit_id in enumerate(brought, own - len(brought)):
        _add(connection, thread, commit_id, place)
    if replaced or made_checkpoint(commit) is None:
        _add(connection, thread, commit.commit_id, own)
    if thread.receipts > RECEIPTS_KEPT + RECEIPTS_PRUNED:
        connection.execute(_WRITES["prune_receipts"], (thread.thread_no, RECEIPTS_KEPT))
        thread.receipts = RECEIPTS_KEPT


def keep_receipt(connection: sqlite3.Connection, thread: Thread, commit_id: str, sequence: int) -> None:
    """Add the receipt of the commit with number `sequence`, unless it is too old to be kept."""
    if type(commit_id) is str and sequence > thread.sequence - RECEIPTS_KEPT:
        _add(connection, thread, commit_id, place_of(sequence))


def place_of(sequence: int) -> int:
    """The place of a commit's own receipt. Receipts that it brings come right before it."""
    return sequence << 10 | 1023


def _add(connection: sqlite3.Connection, thread: Thread, commit_id: str, place: int) -> None:
    key = (thread.thread_no, commit_id, place)
    thread.receipts += connection.execute(_WRITES["add_receipt"], key).rowcount


def keep_all_receipts(connection: sqlite3.Connection, thread: Thread) -> None:
    """Add the receipts of all commits whose checkpoints exist, unless they are too old."""
    since = thread.sequence - RECEIPTS_KEPT
    thread.receipts += connection.execute(_WRITES["keep_receipts"], (thread.thread_no, since)).rowcount


def read_receipts(connection: sqlite3.Connection, thread_id: str) -> tuple[str, ...]:
    """A thread's receipts, oldest first, without commits whose checkpoint has their id."""
    asked = {"thread": thread_id, "kept": RECEIPTS_KEPT, "limit": RECEIPTS_KEPT + RECEIPTS_PRUNED}
    found = connection.execute(_READS["receipts"], asked)
    newest_first = dict.fromkeys(commit_id for commit_id, _ in found if type(commit_id) is str)
    return tuple(reversed(newest_first))
