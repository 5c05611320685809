"""Receipts: the commits that a thread has applied, as many of the last ones as the protocol promises.

A checkpoint that a commit added is that commit's receipt while it is there, so a usual commit writes no other. The
table `receipts` has those that no checkpoint carries: of commits without a new checkpoint, of those whose checkpoint is
gone, and those that came from another store. The writer counts a thread's rows and prunes whenever there are too many, so
their number is bounded whatever the order of the commits.
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
    """Remember `commit`, just applied, and the receipts that it brings, then prune. `replaced`: its checkpoint was there."""
    own = place_of(thread.sequence)
    # The oldest comes first, and what a thread keeps of them has room before the commit's own.
    brought = commit.receipts[-RECEIPTS_KEPT - RECEIPTS_PRUNED :]
    for place, commit_id in enumerate(brought, own - len(brought)):
        _add(connection, thread, commit_id, place)
    if replaced or made_checkpoint(commit) is None:
        _add(connection, thread, commit.commit_id, own)
    if thread.receipts > RECEIPTS_KEPT + RECEIPTS_PRUNED:
        connection.execute(_WRITES["prune_receipts"], (thread.thread_no, RECEIPTS_KEPT))
        thread.receipts = RECEIPTS_KEPT


def keep_receipt(connection: sqlite3.Connection, thread: Thread, commit_id: str, sequence: int) -> None:
    """Remember that `commit_id` was applied as commit number `sequence`, unless that was too long ago."""
    if sequence > thread.sequence - RECEIPTS_KEPT:
        _add(connection, thread, commit_id, place_of(sequence))


def place_of(sequence: int) -> int:
    """The place of a commit's own receipt in the order of all; those that it brings come right before it."""
    return sequence << 10 | 1023


def _add(connection: sqlite3.Connection, thread: Thread, commit_id: str, place: int) -> None:
    key = (thread.thread_no, commit_id, place)
    thread.receipts += connection.execute(_WRITES["add_receipt"], key).rowcount


def keep_all_receipts(connection: sqlite3.Connection, thread: Thread) -> None:
    """The same for all commits whose checkpoint is there."""
    since = thread.sequence - RECEIPTS_KEPT
    thread.receipts += connection.execute(_WRITES["keep_receipts"], (thread.thread_no, since)).rowcount


def read_receipts(connection: sqlite3.Connection, thread_id: str) -> tuple[str, ...]:
    """The receipts of a thread, the oldest first, without those of commits whose checkpoint has their own id."""
    asked = {"thread": thread_id, "kept": RECEIPTS_KEPT, "limit": RECEIPTS_KEPT + RECEIPTS_PRUNED}
    newest_first = dict.fromkeys(commit_id for commit_id, _ in connection.execute(_READS["receipts"], asked))
    return tuple(reversed(newest_first))
