"""Queries: arguments for the scripts that answer them, and records from their answers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from clew.errors import CorruptRecordError
from clew.model.message import folded
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    MessageQuery,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, MessageRecord, ThreadRecord
from clew.storage.branches import checked_points
from clew.storage.columns import THREAD as COLUMNS
from clew.storage.columns import damaged_thread, pack_labels, unpack_labels
from clew.storage.content import content_of, content_queries
from clew.storage.conversions import text_bytes, union
from clew.storage.redis.caller import Argument, Caller
from clew.storage.redis.header import Header, read_header
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import (
    digits_micros,
    group_name,
    read_attachment,
    read_checkpoint,
    read_fields,
    read_message,
    read_origin,
    read_points,
    read_rows,
    user_field,
)
from clew.storage.redis.scripts import ATTACHMENTS, CHECKPOINTS, CONTENT, MESSAGES, VALUES, Script

SCANNED_AT_ONCE = 20_000
"""Messages that one script call searches. The server is blocked while a script runs."""


def _optional(text: str | None) -> bytes:
    return b"" if text is None else b"+" + text_bytes(text)


def _number(number: int | None) -> Argument:
    return b"" if number is None else number


async def ask(caller: Caller, script: Script, keys: Keys, thread_id: str, *arguments: Argument) -> Any:
    """Return the answer to a question about one thread. Raises CorruptRecordError with its name."""
    try:
        return await caller.call(script, keys.thread(thread_id), *arguments)
    except CorruptRecordError as error:
        raise damaged_thread(thread_id, str(error)) from error


async def checkpoints(caller: Caller, keys: Keys, query: CheckpointQuery) -> CheckpointPage:
    answer = await ask(caller, CHECKPOINTS, keys, query.thread_id, *_checkpoint_arguments(query))
    return _checkpoint_page(answer, query.thread_id)


def _checkpoint_arguments(query: CheckpointQuery) -> list[Argument]:
    return [
        user_field(query.user),
        _optional(query.namespace),
        _optional(query.checkpoint_id),
        _optional(query.before),
        _number(query.before_sequence),
        _optional(query.run_id),
        _number(query.limit),
        query.detail,
        _optional(query.known),
    ]


def _checkpoint_page(answer: Any, thread_id: str) -> CheckpointPage:
    if not answer:
        return CheckpointPage(basis=None)
    header, found, rows = answer
    return CheckpointPage(
        basis=read_header(header, thread_id).basis,
        checkpoints=tuple(map(read_checkpoint, found)),
        rows=read_rows(rows),
    )


async def values(caller: Caller, keys: Keys, query: ValueQuery) -> ValuePage:
    answer = await ask(caller, VALUES, keys, query.thread_id, *_value_arguments(query))
    return _value_page(answer, query.thread_id)


def _value_arguments(query: ValueQuery) -> list[Argument]:
    arguments: list[Argument] = [user_field(query.user), query.since, 1 if query.data else 0]
    if query.ranges is not None:
        ranges = union(query.ranges)
        arguments[1] = b""
        arguments.append(len(ranges))
        for first, end in ranges:
            arguments += (first, end)
    return arguments


def _value_page(answer: Any, thread_id: str) -> ValuePage:
    if not answer:
        return ValuePage(basis=None)
    header = read_header(answer[0], thread_id)
    points, damage = checked_points(read_points(answer[2]), header.sequence)
    rows = read_rows(answer[1])
    return ValuePage(basis=header.basis, rows=rows, sequence=header.sequence, points=points, damage=damage)


async def attachments(caller: Caller, keys: Keys, query: AttachmentQuery) -> list[AttachmentRecord]:
    return _attachment_records(await ask(caller, ATTACHMENTS, keys, query.thread_id, *_attachment_arguments(query)))


def _attachment_arguments(query: AttachmentQuery) -> list[Argument]:
    group = b"" if query.checkpoint_id is None else group_name(query.namespace, query.checkpoint_id)
    return [user_field(query.user), group]


def _attachment_records(answer: Any) -> list[AttachmentRecord]:
    return sorted(map(read_attachment, answer), key=lambda each: (each.namespace, each.checkpoint_id, each.key))


async def messages(caller: Caller, keys: Keys, query: MessageQuery) -> list[MessageRecord]:
    """Return the messages. Searching a very long thread takes several calls: not one snapshot."""
    if query.newest and query.search:
        # The scripts can only count messages from the end. So all matching messages are found first.
        matching = await messages(caller, keys, replace(query, newest=False, offset=0, limit=None))
        stop = None if query.limit is None else query.offset + query.limit
        return matching[::-1][query.offset : stop][::-1]
    found: list[MessageRecord] = []
    after, skip, limit = b"0", query.offset, query.limit
    while True:
        asked = _message_arguments(query, after, skip, limit)
        answer: list[Any] = await ask(caller, MESSAGES, keys, query.thread_id, *asked)
        after, skipped, *records = answer
        page = list(map(read_message, records))
        found = page + found if query.newest else found + page
        if not after:
            return found
        skip -= skipped
        if limit is not None:
            limit -= len(records)


def _message_arguments(query: MessageQuery, after: bytes, skip: int, limit: int | None) -> list[Argument]:
    return [
        user_field(query.user),
        _optional(query.message_id),
        text_bytes(query.search or ""),
        after,
        skip,
        _number(limit),
        SCANNED_AT_ONCE,
        _optional(query.branch) if query.branch is None or isinstance(query.branch, str) else b"^",
        text_bytes(query.namespace),
        _optional(query.after),
        _optional(query.before),
        1 if query.newest else 0,
    ]


async def content(caller: Caller, keys: Keys, thread_id: str) -> Content | None:
    """Return everything in the thread, from one snapshot."""
    of_threads, of_values, of_checkpoints, of_attachments, of_messages = content_queries(thread_id)
    thread, rows, page, attached, said = await ask(
        caller,
        CONTENT,
        keys,
        thread_id,
        *thread_arguments(of_threads, thread_id),
        *_value_arguments(of_values),
        *_checkpoint_arguments(of_checkpoints),
        *_attachment_arguments(of_attachments),
        *_message_arguments(of_messages, b"0", 0, None),
    )
    found = thread_record(thread, thread_id)
    return content_of(
        [found[1]] if found is not None and found[1] is not None else [],
        _value_page(rows, thread_id),
        _checkpoint_page(page, thread_id),
        _attachment_records(attached),
        map(read_message, said[2:]),
    )


def thread_arguments(query: ThreadQuery, thread_id: str) -> list[Argument]:
    """Return the thread script's arguments. A match in the id makes the search needless."""
    needle = query.search or ""
    searched = b"" if needle in folded(thread_id) else text_bytes(needle)
    return [user_field(query.user), searched, pack_labels(query.labels)]


def thread_record(answer: list[bytes], thread_id: str) -> tuple[Header, ThreadRecord | None] | None:
    """Return header and record; None if there is no thread, no record if it does not match."""
    if not answer:
        return None
    header = read_header(answer[0], thread_id)
    if len(answer) == 1:
        return header, None
    _, fields, origin, head, labels = answer
    text, run_id, data = read_fields(fields)
    made = read_checkpoint(head) if head else None
    unusable = header.unusable or ("sequence" if made is not None and made.sequence > header.sequence else None)
    columns = (
        *(thread_id, header.user_id, digits_micros(header.created), digits_micros(header.updated), run_id, text, data),
        *read_origin(origin),
        *(header.checkpoints, header.messages, header.size, unusable),
        unpack_labels(labels),
    )
    record = COLUMNS.record(columns)
    return header, record if made is None else replace(record, head=made)
