"""Queries as arguments of the scripts that answer them, and their answers as records."""

from __future__ import annotations

from typing import Any

from clew.model.message import folded
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    MessageQuery,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, MessageRecord, ThreadRecord
from clew.storage.packing import text_bytes, union
from clew.storage.redis.calling import Argument, Caller
from clew.storage.redis.committing import user_field
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import (
    Header,
    digits_time,
    group_name,
    read_attachment,
    read_checkpoint,
    read_fields,
    read_header,
    read_message,
    read_origin,
    read_row,
)
from clew.storage.redis.scripts import ATTACHMENTS, CHECKPOINTS, MESSAGES, VALUES

SCANNED_AT_ONCE = 20_000
"""How many messages one script call looks through: the server does nothing else meanwhile."""


def _optional(text: str | None) -> bytes:
    return b"" if text is None else b"+" + text_bytes(text)


def _number(number: int | None) -> Argument:
    return b"" if number is None else number


async def checkpoints(caller: Caller, keys: Keys, query: CheckpointQuery) -> CheckpointPage:
    answer = await caller.call(
        CHECKPOINTS,
        keys.thread(query.thread_id),
        user_field(query.user),
        _optional(query.namespace),
        _optional(query.checkpoint_id),
        _optional(query.before),
        _number(query.before_sequence),
        _optional(query.run_id),
        _number(query.limit),
        query.detail,
        _optional(query.known),
    )
    if not answer:
        return CheckpointPage(basis=None)
    header, found, rows = answer
    return CheckpointPage(
        basis=read_header(header, query.thread_id).basis,
        checkpoints=tuple(map(read_checkpoint, found)),
        rows=tuple(map(read_row, rows)),
    )


async def values(caller: Caller, keys: Keys, query: ValueQuery) -> ValuePage:
    arguments: list[Argument] = [user_field(query.user), query.since, 1 if query.data else 0]
    if query.ranges is not None:
        ranges = union(query.ranges)
        arguments[1] = b""
        arguments.append(len(ranges))
        for first, end in ranges:
            arguments += (first, end)
    answer = await caller.call(VALUES, keys.thread(query.thread_id), *arguments)
    if not answer:
        return ValuePage(basis=None)
    header = read_header(answer[0], query.thread_id)
    return ValuePage(basis=header.basis, rows=tuple(map(read_row, answer[1])), sequence=header.sequence)


async def attachments(caller: Caller, keys: Keys, query: AttachmentQuery) -> list[AttachmentRecord]:
    group = b"" if query.checkpoint_id is None else group_name(query.namespace, query.checkpoint_id)
    answer = await caller.call(ATTACHMENTS, keys.thread(query.thread_id), user_field(query.user), group)
    found = map(read_attachment, answer)
    return sorted(found, key=lambda each: (each.namespace, each.checkpoint_id, each.key))


async def messages(caller: Caller, keys: Keys, query: MessageQuery) -> list[MessageRecord]:
    """A search of a very long thread takes several calls, and so may see what was added between them."""
    found: list[MessageRecord] = []
    after, skip, limit = b"0", query.offset, query.limit
    while True:
        answer: list[Any] = await caller.call(
            MESSAGES,
            keys.thread(query.thread_id),
            user_field(query.user),
            _optional(query.message_id),
            text_bytes(query.search or ""),
            after,
            skip,
            _number(limit),
            SCANNED_AT_ONCE,
        )
        after, skipped, *records = answer
        found += map(read_message, records)
        if not after:
            return found
        skip -= skipped
        if limit is not None:
            limit -= len(records)


def thread_arguments(query: ThreadQuery, thread_id: str) -> list[Argument]:
    """The arguments of the thread script. A thread whose id has the text needs no other."""
    needle = query.search or ""
    return [user_field(query.user), b"" if needle in folded(thread_id) else text_bytes(needle)]


def thread_record(answer: list[bytes], thread_id: str) -> tuple[Header, ThreadRecord | None] | None:
    """The thread and its header; `None` if there is none, no record if it is not what was asked for."""
    if not answer:
        return None
    header = read_header(answer[0], thread_id)
    if len(answer) == 1:
        return header, None
    _, fields, origin, head = answer
    text, run_id, data = read_fields(fields)
    record = ThreadRecord(
        thread_id=thread_id,
        user_id=header.user_id,
        created_at=digits_time(header.created),
        updated_at=digits_time(header.updated),
        run_id=run_id,
        text=text,
        data=data,
        forked_from=read_origin(origin),
        checkpoint_count=header.checkpoints,
        message_count=header.messages,
        size=header.size,
        head=read_checkpoint(head) if head else None,
    )
    return header, record
