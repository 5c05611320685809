"""Additions to a thread: the parts of a commit, once the rules have let it through."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from clew.model.commit import Commit, ForkSource, ThreadFields
from clew.model.records import Range
from clew.storage.branches import is_within, moves_messages, said_here, visible
from clew.storage.conversions import micros, moment_or_none, pack_ranges, text_bytes
from clew.storage.facts import StoredRow
from clew.storage.protocol import ENDS_KEPT
from clew.storage.rules import next_in_chain
from clew.storage.sqlite.branches import read_points
from clew.storage.sqlite.message_index import MessageIndex
from clew.storage.sqlite.receipts import keep_receipt
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.thread import Thread, other_id

_SQL = named("writes.sql")


def add_values(connection: sqlite3.Connection, thread: Thread, commit: Commit, replaced: Sequence[StoredRow]) -> None:
    """Add the new values, or replace the rows `replaced` with the merged ones."""
    if commit.values:
        thread.next_value = commit.values.end
    for first, _, size in replaced:
        connection.execute(_SQL["drop_value_row"], (thread.log_no, first))
        thread.size -= size
    for row in (commit.values,) if commit.values else commit.merge:
        connection.execute(_SQL["add_values"], (thread.log_no, row.first, row.count, row.digests, row.data))
        thread.size += len(row.digests) + len(row.data)


def add_checkpoint(connection: sqlite3.Connection, thread: Thread, commit: Commit, parent: str | None) -> None:
    """Add the checkpoint, or replace the one with its id, which keeps its sequence number and first time."""
    new = commit.checkpoint
    if new is None:
        return
    covers = pack_ranges(new.covers)
    fields = (micros(commit.at), new.node_name, new.step, new.run_id, new.size, covers, new.metadata, new.body)
    thread.size += len(new.metadata) + len(new.body)
    found = connection.execute(_SQL["checkpoint"], (new.checkpoint_id, thread.thread_no, new.namespace)).fetchone()
    if found:
        number, sequence, _, saved_at, created_at, commit_id, size = found
        keep_receipt(connection, thread, commit_id, sequence)
        first = saved_at if created_at is None else created_at
        if new.created_at is not None:
            first = micros(new.created_at)
        # A damaged time is not kept.
        created = None if moment_or_none(first) is None else first
        replaced = (created, other_id(commit.commit_id, new.checkpoint_id), *fields, number)
        connection.execute(_SQL["replace_checkpoint"], replaced)
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
    number = connection.execute(_SQL["add_checkpoint"], key + fields).lastrowid
    if new.created_at is not None:
        connection.execute(_SQL["set_created"], (micros(new.created_at), number))
    thread.checkpoint_count += 1
    thread.heads[new.namespace] = new.checkpoint_id


def add_attachments(connection: sqlite3.Connection, thread: Thread, commit: Commit) -> None:
    """Add the attachments. Existing keys are replaced, or kept with `keep_attachments`."""
    for each in commit.attachments:
        key = (thread.thread_no, each.namespace, each.checkpoint_id, each.key)
        found = connection.execute(_SQL["attachment_size"], key).fetchone()
        if found and commit.keep_attachments:
            continue
        connection.execute(_SQL["put_attachment"], (*key, each.data))
        thread.size += len(each.data) - (found[0] if found else 0)


def add_messages(connection: sqlite3.Connection, thread: Thread, commit: Commit, index: MessageIndex) -> None:
    """Append the messages. A message with a known id replaces the existing one in its place.

    If only other branches have it, it may move to this one (`said_here`).
    """
    ranges: list[Range] | None = None
    for message in commit.messages:
        text = text_bytes(message.text)
        counts = (message.tool_calls, message.input_tokens, message.output_tokens)
        fields = (*counts, message.run_id, micros(message.created_at), text, message.data)
        thread.size += len(text) + len(message.data)
        key = thread.thread_no, message.message_id
        found = connection.execute(_SQL["message"], key).fetchone()
        if found and thread.points and moves_messages(commit):
            # Read only here: damaged points must not refuse new messages.
            ranges = ranges or said_here(commit, read_points(thread.thread_id, thread.points)) or []
            (sequence,) = connection.execute(_SQL["message_sequence"], key).fetchone()
            if not is_within(ranges, sequence):
                number, old_text, old_size = found
                index.remove(thread, number, old_text)
                connection.execute(_SQL["drop_message"], (number,))
                thread.message_count -= 1
                thread.size -= len(old_text) + old_size
                found = None
        if found:
            number, old_text, old_size = found
            indexed = index.remove(thread, number, old_text)
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
    connection.execute(_SQL["drop_labels"], (thread.thread_no,))
    for label in fields.labels:
        connection.execute(_SQL["add_label"], (thread.thread_no, label.hex()))


def add_journal_entry(connection: sqlite3.Connection, commit: Commit, after: str | None, thread: Thread | None) -> None:
    """Write the commit's journal entry, if it has one.

    `after` is the end of the chain that the commit found; `thread` is the thread that it left, or
    found if it left none.
    """
    if commit.journal is not None:
        incarnation = thread.incarnation if thread else None
        fields = (commit.thread_id, commit.commit_id, after, incarnation, micros(commit.at), commit.journal)
        connection.execute(_SQL["add_entry"], fields)


def advance_chain(connection: sqlite3.Connection, thread: Thread, commit: Commit) -> None:
    """Make `commit`, just applied, the end of the thread's chain, if it belongs to a chain."""
    last = next_in_chain(commit)
    if last is not None:
        thread.chain, thread.chained_at = last, thread.sequence
        connection.execute(_SQL["chain"], (last, thread.sequence, thread.thread_no))


def end_chain(connection: sqlite3.Connection, commit: Commit) -> None:
    """Remember `commit`, after which the thread does not exist, as the end of the thread's chain, if it
    belongs to a chain."""
    last = next_in_chain(commit)
    if last is not None:
        connection.execute(_SQL["end_chain"], (commit.thread_id, last))
        connection.execute(_SQL["forget_ends"], (ENDS_KEPT,))


def new_log(
    connection: sqlite3.Connection, thread_no: int | None, parent: int | None = None, parent_end: int = 0
) -> int:
    """Create a log that shares the values of `parent` under `parent_end`, and return its number."""
    number = connection.execute(_SQL["add_log"], (thread_no, parent, parent_end)).lastrowid
    assert number is not None
    return number


def fork_log(connection: sqlite3.Connection, source: Thread) -> int:
    """Create a log that continues the source's, and return its number."""
    return new_log(connection, None, source.log_no, source.next_value)


def copy_origin(
    connection: sqlite3.Connection, thread: Thread, commit: Commit, fork: ForkSource, source: Thread, origin_id: str
) -> None:
    """Copy the source's checkpoint, its attachments and the messages up to it to the new `thread`.

    The values are shared, not copied.
    """
    number, copy_id, namespace = thread.thread_no, fork.as_checkpoint_id, fork.namespace
    thread.next_value = source.next_value
    origin = connection.execute(_SQL["checkpoint"], (origin_id, source.thread_no, namespace)).fetchone()
    origin_no, origin_sequence = origin[:2]
    commit_id = other_id(commit.commit_id, copy_id)
    connection.execute(_SQL["fork_checkpoint"], (number, thread.sequence, copy_id, commit_id, origin_no))
    attached = (source.thread_no, namespace, origin_id)
    connection.execute(_SQL["fork_attachments"], (number, copy_id, *attached))
    said = json.dumps(visible(read_points(source.thread_id, source.points), origin_sequence))
    connection.execute(_SQL["fork_messages"], (number, thread.sequence, source.thread_no, said))
    connection.execute(_SQL["describe_fork"], (source.thread_no, source.thread_id, origin_id, number))
    connection.execute(_SQL["fork_labels"], (number, source.thread_no))
    count, size = connection.execute(_SQL["messages_size"], (number,)).fetchone()
    thread.message_count, thread.next_message = count, source.next_message
    thread.checkpoint_count = 1
    thread.heads[namespace] = copy_id
    thread.size = size + connection.execute(_SQL["attachments_size"], attached).fetchone()[0]
    thread.size += connection.execute(_SQL["checkpoint"], (copy_id, number, namespace)).fetchone()[6]
