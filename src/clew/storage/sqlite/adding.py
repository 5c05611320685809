"""Adding the parts of a commit to its thread, once everything about them is decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from clew.model.commit import Commit, ThreadFields
from clew.storage.packing import micros, pack_ranges, text_bytes
from clew.storage.rules import StoredRow
from clew.storage.sqlite.indexing import MessageIndex
from clew.storage.sqlite.receipts import keep_receipt
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, other_id

_SQL = named("writes.sql")


def add_values(connection: sqlite3.Connection, thread: Thread, commit: Commit, replaced: Sequence[StoredRow]) -> None:
    """Add the new values, or put the merged rows in the place of those in `replaced`."""
    if commit.values:
        thread.next_value = commit.values.end
    for first, _, size in replaced:
        connection.execute(_SQL["drop_value_row"], (thread.log_no, first))
        thread.size -= size
    for row in (commit.values,) if commit.values else commit.merge:
        connection.execute(_SQL["add_values"], (thread.log_no, row.first, row.count, row.digests, row.data))
        thread.size += len(row.digests) + len(row.data)


def add_checkpoint(connection: sqlite3.Connection, thread: Thread, commit: Commit, parent: str | None) -> None:
    """Add the checkpoint, or replace the one with its id in its place."""
    new = commit.checkpoint
    if new is None:
        return
    covers = pack_ranges(new.covers)
    fields = (micros(commit.at), new.node_name, new.step, new.run_id, new.size, covers, new.metadata, new.body)
    thread.size += len(new.metadata) + len(new.body)
    found = connection.execute(_SQL["checkpoint"], (new.checkpoint_id, thread.thread_no, new.namespace)).fetchone()
    if found:
        number, sequence, _, _, commit_id, size = found
        keep_receipt(connection, thread, commit_id, sequence)
        connection.execute(_SQL["replace_checkpoint"], (other_id(commit.commit_id, new.checkpoint_id), *fields, number))
        thread.size -= size
        return
    key = (
        thread.thread_no,
        thread.sequence,
        new.namespace,
        new.checkpoint_id,
        other_id(commit.commit_id, new.checkpoint_id),
        parent,
    )
    connection.execute(_SQL["add_checkpoint"], key + fields)
    thread.checkpoint_count += 1
    thread.heads[new.namespace] = new.checkpoint_id


def add_attachments(connection: sqlite3.Connection, thread: Thread, commit: Commit) -> None:
    """Add the attachments; those with a key that is there replace it, or are left out with `keep_attachments`."""
    for each in commit.attachments:
        key = (thread.thread_no, each.namespace, each.checkpoint_id, each.key)
        found = connection.execute(_SQL["attachment_size"], key).fetchone()
        if found and commit.keep_attachments:
            continue
        connection.execute(_SQL["put_attachment"], (*key, each.data))
        thread.size += len(each.data) - (found[0] if found else 0)


def add_messages(connection: sqlite3.Connection, thread: Thread, commit: Commit, index: MessageIndex) -> None:
    """Add the messages at the end, or replace those with a known id in their place."""
    for message in commit.messages:
        text = text_bytes(message.text)
        fields = (message.tool_calls, message.run_id, micros(message.created_at), text, message.data)
        thread.size += len(text) + len(message.data)
        found = connection.execute(_SQL["message"], (thread.thread_no, message.message_id)).fetchone()
        if found:
            number, old_text, old_size = found
            indexed = index.forget(thread, number, old_text)
            connection.execute(_SQL["replace_message"], (*fields, number))
            if indexed:
                index.restore(number, text)
            thread.size -= len(old_text) + old_size
        else:
            number = thread.first_message_no + thread.next_message
            connection.execute(
                _SQL["add_message"], (number, thread.thread_no, thread.sequence, message.message_id, *fields)
            )
            thread.next_message += 1
            thread.message_count += 1
    if commit.messages:
        index.advance(thread, len(commit.messages))


def describe(connection: sqlite3.Connection, thread: Thread, fields: ThreadFields) -> None:
    """Replace the describing fields."""
    thread.owner = fields.user_id
    described = (text_bytes(fields.text), fields.data, fields.run_id, thread.thread_no)
    connection.execute(_SQL["describe_thread"], described)
