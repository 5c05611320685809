"""Beginning a thread as a copy of one checkpoint of another; the values are shared, not copied."""

from __future__ import annotations

import sqlite3

from clew.model.commit import Commit, ForkSource
from clew.storage.sqlite.removing import new_log
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, other_id

_SQL = named("writes.sql")


def fork_log(connection: sqlite3.Connection, source: Thread) -> int:
    """A new log that goes on where the source's stands now."""
    return new_log(connection, None, source.log_no, source.next_value)


def copy_origin(
    connection: sqlite3.Connection, thread: Thread, commit: Commit, fork: ForkSource, source: Thread, origin_id: str
) -> None:
    """Fill the new `thread` with the checkpoint `origin_id` of `source`, its attachments and the messages up to it."""
    number, copy_id, namespace = thread.thread_no, fork.as_checkpoint_id, fork.namespace
    thread.next_value = source.next_value
    origin = connection.execute(_SQL["checkpoint"], (origin_id, source.thread_no, namespace)).fetchone()
    origin_no, origin_sequence = origin[:2]
    commit_id = other_id(commit.commit_id, copy_id)
    connection.execute(_SQL["fork_checkpoint"], (number, thread.sequence, copy_id, commit_id, origin_no))
    attached = (source.thread_no, namespace, origin_id)
    connection.execute(_SQL["fork_attachments"], (number, copy_id, *attached))
    connection.execute(_SQL["fork_messages"], (number, thread.sequence, source.thread_no, origin_sequence))
    connection.execute(_SQL["describe_fork"], (source.thread_no, source.thread_id, origin_id, number))
    count, size = connection.execute(_SQL["messages_size"], (number,)).fetchone()
    thread.message_count, thread.next_message = count, source.next_message
    thread.checkpoint_count = 1
    thread.heads[namespace] = copy_id
    thread.size = size + connection.execute(_SQL["attachments_size"], attached).fetchone()[0]
    thread.size += connection.execute(_SQL["checkpoint"], (copy_id, number, namespace)).fetchone()[5]
