"""Beginning a thread as a copy of one checkpoint of another; the values are shared, not copied."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from clew.model.commit import Commit, ForkSource
from clew.storage.checks import origin_missing, source_missing
from clew.storage.sqlite.removing import new_log
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, other_id

_SQL = named("writes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The checkpoint that a fork starts from."""

    thread: Thread
    checkpoint_id: str
    checkpoint_no: int
    sequence: int


def origin_of(connection: sqlite3.Connection, fork: ForkSource, source: Thread | None, head: str | None) -> Origin:
    """The checkpoint that `fork` names in `source`, whose head is `head`. Raises ConflictError if there is none."""
    if source is None:
        raise source_missing(fork)
    checkpoint_id = head if fork.checkpoint_id is None else fork.checkpoint_id
    found = connection.execute(_SQL["checkpoint"], (checkpoint_id, source.thread_no, fork.namespace)).fetchone()
    if checkpoint_id is None or found is None:
        raise origin_missing(fork, checkpoint_id)
    return Origin(thread=source, checkpoint_id=checkpoint_id, checkpoint_no=found[0], sequence=found[1])


def fork_log(connection: sqlite3.Connection, origin: Origin) -> int:
    """A new log that goes on where the source's stands now."""
    return new_log(connection, None, origin.thread.log_no, origin.thread.next_value)


def copy_origin(
    connection: sqlite3.Connection, thread: Thread, commit: Commit, fork: ForkSource, origin: Origin
) -> None:
    """Fill the new `thread` with the checkpoint, its attachments and the messages up to it."""
    source, number = origin.thread, thread.thread_no
    thread.next_value = source.next_value
    # The copy is the thread's first commit, so that a fork of the fork has the same messages.
    thread.sequence += 1
    # Two checkpoints of one commit: only the one that the commit names carries its receipt.
    copy_id, namespace = fork.as_checkpoint_id, fork.namespace
    commit_id = other_id(commit.commit_id, copy_id) if commit.checkpoint is None else None
    connection.execute(_SQL["fork_checkpoint"], (number, thread.sequence, copy_id, commit_id, origin.checkpoint_no))
    attached = (source.thread_no, namespace, origin.checkpoint_id)
    connection.execute(_SQL["fork_attachments"], (number, copy_id, *attached))
    connection.execute(_SQL["fork_messages"], (number, thread.sequence, source.thread_no, origin.sequence))
    connection.execute(_SQL["describe_fork"], (source.thread_no, source.thread_id, origin.checkpoint_id, number))
    count, size = connection.execute(_SQL["messages_size"], (number,)).fetchone()
    thread.message_count, thread.next_message = count, source.next_message
    thread.checkpoint_count = 1
    thread.heads[namespace] = copy_id
    thread.size = size + connection.execute(_SQL["attachments_size"], attached).fetchone()[0]
    thread.size += connection.execute(_SQL["checkpoint"], (copy_id, number, namespace)).fetchone()[5]
