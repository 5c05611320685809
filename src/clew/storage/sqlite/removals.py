"""Removals from a thread, and of threads. Values go when no thread or fork needs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Protocol

from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.storage.columns import damaged_thread
from clew.storage.facts import StoredRow
from clew.storage.holders import lease_space
from clew.storage.sqlite.additions import new_log
from clew.storage.sqlite.message_index import MessageIndex
from clew.storage.sqlite.receipts import keep_all_receipts, keep_receipt
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

_SQL = named("writes.sql")


class HasLog(Protocol):
    """A thread's id and the number of its value log."""

    @property
    def thread_id(self) -> str: ...
    @property
    def log_no(self) -> int: ...


def shared_before(connection: sqlite3.Connection, thread: HasLog) -> tuple[int, int]:
    """Return the numbers under which values are an ancestor's, and shared by any fork."""
    inherited, children = connection.execute(_SQL["shared_before"], (thread.log_no,)).fetchone() or (None, None)
    if type(inherited) is not int or type(children) not in (int, type(None)):
        raise damaged_thread(thread.thread_id, f"the log {thread.log_no}, which holds its values, can't be read")
    return inherited, max(inherited, children or 0)


def remove(
    connection: sqlite3.Connection, thread: Thread, removal: Removal, rows: Sequence[StoredRow], index: MessageIndex
) -> int:
    """Apply `removal` and drop `rows`. Returns the number of checkpoints and messages."""
    removed = sum(_remove_message(connection, thread, message_id, index) for message_id in removal.messages)
    gone = 0
    if removal.state:
        gone = remove_state(connection, thread)
    else:
        for namespace, checkpoint_id in removal.checkpoints:
            gone += _remove_checkpoint(connection, thread, namespace, checkpoint_id)
        for first, _, size in rows:
            connection.execute(_SQL["drop_value_row"], (thread.log_no, first))
            thread.size -= size
    if removal.state or gone or removal.values:
        thread.epoch += 1
        thread.heads.clear()
    return removed + gone


def _remove_message(connection: sqlite3.Connection, thread: Thread, message_id: str, index: MessageIndex) -> int:
    found = connection.execute(_SQL["message"], (thread.thread_no, message_id)).fetchone()
    if found is None:
        return 0
    message_no, text, data_size = found
    index.remove(thread, message_no, text)
    connection.execute(_SQL["drop_message"], (message_no,))
    thread.message_count -= 1
    thread.size -= len(text) + data_size
    return 1


def _remove_checkpoint(connection: sqlite3.Connection, thread: Thread, namespace: str, checkpoint_id: str) -> int:
    key = (thread.thread_no, namespace, checkpoint_id)
    thread.size -= connection.execute(_SQL["attachments_size"], key).fetchone()[0]
    connection.execute(_SQL["drop_attachments"], key)
    found = connection.execute(_SQL["checkpoint"], (checkpoint_id, thread.thread_no, namespace)).fetchone()
    if found is None:
        return 0
    checkpoint_no, sequence, _, _, _, commit_id, size = found
    connection.execute(_SQL["drop_checkpoint"], (checkpoint_no,))
    keep_receipt(connection, thread, commit_id, sequence)
    thread.checkpoint_count -= 1
    thread.size -= size
    return 1


def remove_state(connection: sqlite3.Connection, thread: Thread) -> int:
    """Remove all checkpoints, attachments and values. Returns the number of checkpoints."""
    number = (thread.thread_no,)
    count, size = connection.execute(_SQL["state_size"], number).fetchone()
    size += connection.execute(_SQL["all_attachments_size"], number).fetchone()[0]
    size += connection.execute(_SQL["values_size"], (thread.log_no,)).fetchone()[0]
    keep_all_receipts(connection, thread)
    _drop_state(connection, thread)
    # Value numbers continue, in a separate log.
    thread.log_no = new_log(connection, thread.thread_no)
    thread.checkpoint_count -= count
    thread.size -= size
    return int(count)


def _drop_state(connection: sqlite3.Connection, thread: Thread) -> None:
    number = (thread.thread_no,)
    connection.execute(_SQL["drop_main_checkpoints"], number)
    connection.execute(_SQL["drop_other_checkpoints"], number)
    connection.execute(_SQL["drop_all_attachments"], number)
    connection.execute(_SQL["give_log"], (None, thread.log_no))
    _drop_unneeded(connection, thread.log_no)


def remove_thread(connection: sqlite3.Connection, thread: Thread, index: MessageIndex) -> int:
    """Remove the whole thread and its lease. Returns the number of its checkpoints and messages."""
    number = (thread.thread_no,)
    _drop_state(connection, thread)
    index.remove_all(thread)
    connection.execute(_SQL["drop_messages"], number)
    connection.execute(_SQL["drop_receipts"], number)
    connection.execute(_SQL["drop_labels"], number)
    connection.execute(_SQL["drop_thread"], number)
    if thread.owner == "":
        # Its owner is damaged, and so the space of its lease is unknown.
        connection.execute(_SQL["drop_leases"], (thread.thread_id,))
    else:
        connection.execute(_SQL["drop_lease"], (thread.thread_id, lease_space(thread, ANY_USER)))
    return thread.checkpoint_count + thread.message_count


def _drop_unneeded(connection: sqlite3.Connection, log_no: int | None) -> None:
    """Drop the log's unneeded values, and those of ancestors that only it needed."""
    while log_no is not None:
        owner, parent, _ = connection.execute(_SQL["log"], (log_no,)).fetchone() or (log_no, None, 0)
        if owner is not None:
            # A thread owns it, or it is damaged and missing; the thread is removed anyway.
            return
        (needed_end,) = connection.execute(_SQL["children_end"], (log_no,)).fetchone()
        connection.execute(_SQL["drop_values_from"], (log_no, needed_end or 0))
        if needed_end is not None:
            return
        connection.execute(_SQL["drop_log"], (log_no,))
        log_no = parent
