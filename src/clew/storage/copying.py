"""A whole thread, to be written again elsewhere: what is in it, and the commits that make another like it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from clew.model.commit import NewCheckpoint, ThreadFields
from clew.model.config import ANY_USER
from clew.model.queries import AttachmentQuery, CheckpointQuery, MessageQuery, ThreadQuery, ValueQuery
from clew.model.records import AttachmentRecord, Basis, CheckpointRecord, MessageRecord, Range, ThreadRecord, ValueRow
from clew.storage.packing import union
from clew.storage.protocol import Storage

_DIGEST: Final = 16


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
        while messages and messages[0].sequence <= checkpoint.sequence:
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


def same_content(one: Content, other: Content) -> bool:
    """Whether two threads hold the same: everything but sequence numbers, sizes and where a fork came from."""
    return _plain(one) == _plain(other) and _same_values(one, other)


def _plain(content: Content) -> tuple[object, ...]:
    return (
        _plain_thread(content.thread),
        content.basis,
        [replace(each, sequence=0) for each in content.checkpoints],
        content.attachments,
        [replace(each, sequence=0) for each in content.messages],
    )


def _plain_thread(thread: ThreadRecord) -> ThreadRecord:
    return replace(thread, size=0, forked_from=None, head=None)


def _same_values(one: Content, other: Content) -> bool:
    """Whether the values that checkpoints need are the same; the others may be gone in one of the stores."""
    needed = union(covered for each in one.checkpoints for covered in each.covers)
    if _digests(one.rows, needed) != _digests(other.rows, needed):
        return False
    # What is behind the digests is only looked at where it was packed in the same way.
    data = {(row.first, row.count): row.data for row in one.rows}
    return all(data.get((row.first, row.count), row.data) == row.data for row in other.rows)


def same_log(one: Content, other: Content) -> bool:
    """Whether both threads have the same values under the same numbers, also those that no checkpoint needs."""
    everything = [(0, one.basis.next_value)]
    return one.basis == other.basis and _digests(one.rows, everything) == _digests(other.rows, everything)


def _digests(rows: Sequence[ValueRow], needed: Iterable[Range]) -> dict[int, bytes]:
    digests = {
        row.first + at: row.digests[_DIGEST * at : _DIGEST * (at + 1)] for row in rows for at in range(row.count)
    }
    return {number: digests.get(number, b"") for first, end in needed for number in range(first, end)}
