"""Taking things out of a thread, and the thread itself; values go when no thread and no fork needs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from clew.model.commit import Removal
from clew.storage.rules import StoredRow
from clew.storage.sqlite.indexing import MessageIndex
from clew.storage.sqlite.receipts import keep_all_receipts, keep_receipt
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread

_SQL = named("writes.sql")


def shared_before(connection: sqlite3.Connection, log_no: int) -> tuple[int, int]:
    """Under which number the values are an ancestor's, and under which they are shared with any fork."""
    inherited, children = connection.execute(_SQL["shared_before"], (log_no,)).fetchone()
    return inherited, max(inherited, children or 0)


def remove(
    connection: sqlite3.Connection, thread: Thread, removal: Removal, rows: Sequence[StoredRow], index: MessageIndex
) -> int:
    """Take out what `removal` names and the value rows `rows`; how many checkpoints and messages that were."""
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
    index.forget(thread, message_no, text)
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
    checkpoint_no, sequence, _, _, commit_id, size = found
    connection.execute(_SQL["drop_checkpoint"], (checkpoint_no,))
    keep_receipt(connection, thread, commit_id, sequence)
    thread.checkpoint_count -= 1
    thread.size -= size
    return 1


def remove_state(connection: sqlite3.Connection, thread: Thread) -> int:
    """Take out all checkpoints, attachments and values. Numbering goes on, in a log of its own; how many checkpoints."""
    number = (thread.thread_no,)
    count, size = connection.execute(_SQL["state_size"], number).fetchone()
    size += connection.execute(_SQL["all_attachments_size"], number).fetchone()[0]
    size += connection.execute(_SQL["values_size"], (thread.log_no,)).fetchone()[0]
    keep_all_receipts(connection, thread)
    _drop_state(connection, thread)
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
    """Take out the whole thread and its lease; how many checkpoints and messages it had."""
    number = (thread.thread_no,)
    _drop_state(connection, thread)
    index.forget_all(thread)
    connection.execute(_SQL["drop_messages"], number)
    connection.execute(_SQL["drop_receipts"], number)
    connection.execute(_SQL["drop_thread"], number)
    connection.execute(_SQL["drop_lease"], (thread.thread_id,))
    return thread.checkpoint_count + thread.message_count


def new_log(
    connection: sqlite3.Connection, thread_no: int | None, parent: int | None = None, parent_end: int = 0
) -> int:
    """The number of a new log that shares the values of `parent` under `parent_end`."""
    number = connection.execute(_SQL["add_log"], (thread_no, parent, parent_end)).lastrowid
    assert number is not None
    return number


def _drop_unneeded(connection: sqlite3.Connection, log_no: int | None) -> None:
    """Drop the log's values that nothing needs any more, and those of its ancestors that it was the last to need."""
    while log_no is not None:
        owner, parent, _ = connection.execute(_SQL["log"], (log_no,)).fetchone()
        if owner is not None:
            return
        (needed_end,) = connection.execute(_SQL["children_end"], (log_no,)).fetchone()
        connection.execute(_SQL["drop_values_from"], (log_no, needed_end or 0))
        if needed_end is not None:
            return
        connection.execute(_SQL["drop_log"], (log_no,))
        log_no = parent
