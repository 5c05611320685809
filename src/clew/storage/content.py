"""The whole content of a thread: reading, comparing, and writing it again elsewhere."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from clew.errors import EncryptionError
from clew.model.commit import BackTo, NewCheckpoint, ThreadFields
from clew.model.config import ANY_USER
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
from clew.model.records import AttachmentRecord, CheckpointRecord, MessageRecord, Range, ThreadRecord, ValueRow
from clew.storage.branches import LAST_NUMBER, is_within, points_of, visible
from clew.storage.columns import UnreadableFrame, damaged_thread
from clew.storage.conversions import union
from clew.storage.protocol import Storage

_DIGEST: Final = 16


async def read_content(storage: Storage, thread_id: str) -> Content | None:
    """Return everything in the thread, to be written elsewhere; `None` if there is no such thread.

    Raises CorruptRecordError if a record is damaged, and EncryptionError if a key is missing:
    stand-ins must not be written as if they had been stored. Checksums are tested when the copy is
    written (`clew.codec.rows.unbroken`).
    """
    content = await storage.content(thread_id)
    if content is None:
        return None
    for damage in _damage_in(content):
        raise damaged_thread(thread_id, f"it can't be copied: {damage}")
    for name, data in content.frames():
        if isinstance(data, UnreadableFrame):
            if data.error is None:
                raise damaged_thread(thread_id, f"it can't be copied: {name} fails authentication")
            raise EncryptionError(f"thread {thread_id!r}: {data.error}", thread_id=thread_id)
    return content


def _damage_in(content: Content) -> Iterator[str]:
    if content.thread.damage:
        yield content.thread.damage
    for row in content.rows:
        # A stand-in (`clew.storage.columns.value_row`).
        if len(row.digests) != _DIGEST * row.count:
            yield f"its values from number {row.first} on can't be read"
    for each in content.checkpoints:
        if each.damage:
            yield f"checkpoint {each.checkpoint_id!r}: {each.damage}"
    for attachment in content.attachments:
        if attachment.damage:
            yield f"attachment {attachment.key!r} of checkpoint {attachment.checkpoint_id!r}: {attachment.damage}"
    for message in content.messages:
        if message.damage:
            yield f"message {message.message_id!r}: {message.damage}"


def stored_in(content: Content) -> Iterator[bytes]:
    """Yield the data of every record that has some."""
    for _, data in content.frames():
        yield data


def content_queries(thread_id: str) -> tuple[ThreadQuery, ValueQuery, CheckpointQuery, AttachmentQuery, MessageQuery]:
    """The queries for everything in a thread. A storage answers all of them from one snapshot."""
    return (
        ThreadQuery(user=ANY_USER, thread_id=thread_id),
        ValueQuery(thread_id=thread_id, user=ANY_USER, data=True),
        CheckpointQuery(thread_id=thread_id, user=ANY_USER, namespace=None, limit=None, detail="body"),
        AttachmentQuery(thread_id=thread_id, user=ANY_USER),
        MessageQuery(thread_id=thread_id, user=ANY_USER, limit=None),
    )


def content_of(
    threads: Sequence[ThreadRecord],
    values: ValuePage,
    page: CheckpointPage,
    attachments: Iterable[AttachmentRecord],
    messages: Iterable[MessageRecord],
) -> Content | None:
    """The answers to `content_queries` as one `Content`; `None` if there is no such thread.

    Raises CorruptRecordError if its branch points are damaged.
    """
    if not threads or values.basis is None:
        return None
    return Content(
        thread=threads[0],
        basis=values.basis,
        rows=values.rows,
        checkpoints=page.checkpoints[::-1],
        attachments=tuple(attachments),
        messages=tuple(messages),
        points=points_of(threads[0].thread_id, values),
    )


def fields_of(record: ThreadRecord) -> ThreadFields:
    """The describing fields of a thread, to be written again."""
    return ThreadFields(
        text=record.text, data=record.data, run_id=record.run_id, user_id=record.user_id, labels=record.labels
    )


def parts(content: Content, rows: Iterable[ValueRow]) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """Yield time and parts of a copy's commits after the description: values, then checkpoints.

    Each commit relies on the ones before it. `rows` hold the content's values without gaps
    (`clew.codec.rows.unbroken`). The copy has other sequence numbers, and the same branches.
    """
    source = content.thread
    for row in rows:
        yield source.created_at, {"values": row}
    attached: dict[tuple[str, str], list[AttachmentRecord]] = defaultdict(list)
    for each in content.attachments:
        attached[each.namespace, each.checkpoint_id].append(each)
    messages, checkpoints = deque(content.messages), deque(content.checkpoints)
    starts = {start: BackTo(_last_said(content, parent)) for parent, start in content.points}
    # No commit may have messages from before and after one of these numbers.
    cuts = sorted({*(parent for parent, _ in content.points), *(start - 1 for start in starts), LAST_NUMBER})
    begin = 0
    for cut in cuts:
        back_to = starts.get(begin)
        if back_to is not None and not (checkpoints and checkpoints[0].sequence == begin):
            # The checkpoint that began this branch was removed.
            yield source.updated_at, {"back_to": back_to}
            back_to = None
        while checkpoints and checkpoints[0].sequence <= cut:
            checkpoint = checkpoints.popleft()
            # Messages go with the checkpoint they precede, so that a fork gets the right ones.
            yield (
                checkpoint.saved_at,
                {
                    "checkpoint": again(checkpoint),
                    "attachments": tuple(attached.pop((checkpoint.namespace, checkpoint.checkpoint_id), ())),
                    "messages": _taken(messages, checkpoint.sequence),
                    "back_to": back_to,
                },
            )
            back_to = None
        rest = () if cut < LAST_NUMBER else tuple(each for keyed in attached.values() for each in keyed)
        said = _taken(messages, cut)
        if rest or said:
            yield source.updated_at, {"attachments": rest, "messages": said}
        begin = cut + 1


def _taken(messages: deque[MessageRecord], upto: int) -> tuple[MessageRecord, ...]:
    """Take the messages up to a sequence number from the beginning of `messages`."""
    taken: list[MessageRecord] = []
    while messages and messages[0].sequence <= upto:
        taken.append(messages.popleft())
    return tuple(taken)


def _last_said(content: Content, upto: int) -> str | None:
    """The last message of the branch that ends with the sequence number `upto`."""
    ranges = visible(content.points, upto)
    return next((each.message_id for each in reversed(content.messages) if is_within(ranges, each.sequence)), None)


def again(record: CheckpointRecord) -> NewCheckpoint:
    """The checkpoint as a new one, to be written again."""
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
        created_at=None if record.created_at == record.saved_at else record.created_at,
    )


def same_content(one: Content, other: Content) -> bool:
    """Return whether two threads are equal, except for sequence numbers, sizes and fork source."""
    return _comparable(one) == _comparable(other) and _same_values(one, other)


def _comparable(content: Content) -> tuple[object, ...]:
    return (
        replace(content.thread, size=0, forked_from=None, head=None),
        content.basis,
        [replace(each, sequence=0) for each in content.checkpoints],
        content.attachments,
        [replace(each, sequence=0) for each in content.messages],
        [
            (sum(each.sequence < start for each in content.messages), _last_said(content, parent))
            for parent, start in content.points
        ],
    )


def _same_values(one: Content, other: Content) -> bool:
    """Return whether the values that checkpoints need are equal. Others may be missing in a store."""
    needed = union(covered for each in one.checkpoints for covered in each.covers)
    if _digests(one.rows, needed) != _digests(other.rows, needed):
        return False
    # The data can only be compared where both stores packed the same values into a row.
    data = {(row.first, row.count): row.data for row in one.rows}
    return all(data.get((row.first, row.count), row.data) == row.data for row in other.rows)


def same_log(one: Content, other: Content) -> bool:
    """Return whether both threads have the same values under the same numbers, needed or not."""
    everything = [(0, one.basis.next_value)]
    return one.basis == other.basis and _digests(one.rows, everything) == _digests(other.rows, everything)


def _digests(rows: Sequence[ValueRow], needed: Iterable[Range]) -> dict[int, bytes]:
    """The digests of the values in `needed`, by number. Values may be missing."""
    wanted = union(needed)
    starts = [first for first, _ in wanted]
    found: dict[int, bytes] = {}
    for row in rows:
        for at in range(row.count):
            number = row.first + at
            place = bisect_right(starts, number) - 1
            if place >= 0 and number < wanted[place][1]:
                found[number] = row.digests[_DIGEST * at : _DIGEST * (at + 1)]
    return found
