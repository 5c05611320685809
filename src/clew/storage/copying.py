"""A whole thread, to be written again elsewhere: what is in it, and the commits that make another like it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from clew.model.commit import NewCheckpoint, ThreadFields
from clew.model.config import ANY_USER
from clew.model.queries import AttachmentQuery, CheckpointQuery, MessageQuery, ThreadQuery, ValueQuery
from clew.model.records import AttachmentRecord, Basis, CheckpointRecord, MessageRecord, ThreadRecord, ValueRow
from clew.storage.protocol import Storage


class Content(Struct, frozen=True, kw_only=True):
    """Everything in a thread, oldest first."""

    thread: ThreadRecord
    basis: Basis
    rows: tuple[ValueRow, ...]
    checkpoints: tuple[CheckpointRecord, ...]
    attachments: tuple[AttachmentRecord, ...]
    messages: tuple[MessageRecord, ...]


async def read_content(storage: Storage, thread_id: str) -> Content | None:
    """Everything in the thread; `None` if there is none. What is written to it meanwhile may be in it or not."""
    while True:
        found = await storage.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id))
        values = await storage.values(ValueQuery(thread_id=thread_id, user=ANY_USER, data=True))
        asked = CheckpointQuery(thread_id=thread_id, user=ANY_USER, namespace=None, limit=None, detail="body")
        page = await storage.checkpoints(asked)
        if not found or page.basis is None:
            return None
        # Else it was written to between the reads.
        if page.basis == values.basis:
            break
    return Content(
        thread=found[0],
        basis=page.basis,
        rows=values.rows,
        checkpoints=page.checkpoints[::-1],
        attachments=tuple(await storage.attachments(AttachmentQuery(thread_id=thread_id, user=ANY_USER))),
        messages=tuple(await storage.messages(MessageQuery(thread_id=thread_id, user=ANY_USER, limit=None))),
    )


def fields_of(record: ThreadRecord) -> ThreadFields:
    """What describes the thread."""
    return ThreadFields(text=record.text, data=record.data, run_id=record.run_id, user_id=record.user_id)


def parts(content: Content, rows: Iterable[ValueRow]) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """When and what each commit of a copy brings: the thread, its values, its checkpoints. Each relies on those before it.

    `rows` hold the content's values and lie side by side (`clew.codec.rows.unbroken`).
    """
    source = content.thread
    yield source.created_at, {"thread": fields_of(source)}
    for row in rows:
        yield source.created_at, {"values": row}
    attached: dict[tuple[str, str], list[AttachmentRecord]] = defaultdict(list)
    for each in content.attachments:
        attached[each.namespace, each.checkpoint_id].append(each)
    messages = deque(content.messages)
    for checkpoint in content.checkpoints:
        said: list[MessageRecord] = []
        # What was said up to a checkpoint comes with it, so that a fork of the copy brings what it should.
        while messages and messages[0].created_at <= checkpoint.created_at:
            said.append(messages.popleft())
        yield (
            checkpoint.created_at,
            {
                "checkpoint": again(checkpoint),
                "attachments": tuple(attached.pop((checkpoint.namespace, checkpoint.checkpoint_id), ())),
                "messages": tuple(said),
            },
        )
    rest = tuple(each for keyed in attached.values() for each in keyed)
    if rest or messages:
        yield source.updated_at, {"attachments": rest, "messages": tuple(messages)}


def again(record: CheckpointRecord) -> NewCheckpoint:
    """The checkpoint, to be written again."""
    return NewCheckpoint(
        checkpoint_id=record.checkpoint_id,
        namespace=record.namespace,
        parent=record.parent_id,
        on_conflict="branch",
        node_name=record.node_name,
        step=record.step,
        run_id=record.run_id,
        size=record.size,
        metadata=record.metadata,
        body=record.body,
        covers=record.covers,
    )
