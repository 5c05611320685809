"""Builders of commits and their parts, with defaults for what a test does not care about."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from clew.ids import new_id
from clew.model.commit import (
    HEAD,
    After,
    BackTo,
    Begin,
    Commit,
    ForkSource,
    NewCheckpoint,
    OnConflict,
    Removal,
    TheHead,
    ThreadFields,
)
from clew.model.config import User
from clew.model.message import folded
from clew.model.records import LABEL_SIZE, AttachmentRecord, Basis, MessageRecord, Range, ValueRow

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def later(seconds: float) -> datetime:
    """Return the time `seconds` after noon."""
    return NOON + timedelta(seconds=seconds)


def checkpoint(
    checkpoint_id: str,
    *,
    namespace: str = "",
    parent: str | TheHead | None = HEAD,
    on_conflict: OnConflict = "branch",
    node_name: str | None = "node",
    step: int | None = 1,
    run_id: str | None = None,
    size: int = 11,
    metadata: bytes = b"metadata",
    body: bytes | None = None,
    covers: Sequence[Range] = (),
    created_at: datetime | None = None,
) -> NewCheckpoint:
    return NewCheckpoint(
        checkpoint_id=checkpoint_id,
        namespace=namespace,
        parent=parent,
        on_conflict=on_conflict,
        node_name=node_name,
        step=step,
        run_id=run_id,
        size=size,
        metadata=metadata,
        body=f"body of {checkpoint_id}".encode() if body is None else body,
        covers=tuple(covers),
        created_at=created_at,
    )


def row(first: int, count: int = 1, *, data: bytes | None = None) -> ValueRow:
    """Return a row of `count` values from `first`, with digests and data made from the numbers."""
    digests = b"".join(
        hashlib.blake2b(b"%d" % number, digest_size=16).digest() for number in range(first, first + count)
    )
    return ValueRow(first=first, count=count, digests=digests, data=b"%d values" % count if data is None else data)


def message(
    message_id: str,
    text: str = "hello",
    *,
    tool_calls: int = 0,
    run_id: str | None = None,
    created_at: datetime = NOON,
    data: bytes | None = None,
    tokens: tuple[int, int] = (0, 0),
) -> MessageRecord:
    """Return a message. `tokens` are its input and output tokens."""
    return MessageRecord(
        message_id=message_id,
        text=folded(text),
        tool_calls=tool_calls,
        run_id=run_id,
        created_at=created_at,
        data=text.encode() if data is None else data,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
    )


def messages(*texts: str) -> tuple[MessageRecord, ...]:
    """Return messages `m0`, `m1`, … with these texts."""
    return tuple(message(f"m{number}", text) for number, text in enumerate(texts))


def attachment(checkpoint_id: str, key: str, data: bytes = b"attached", *, namespace: str = "") -> AttachmentRecord:
    return AttachmentRecord(namespace=namespace, checkpoint_id=checkpoint_id, key=key, data=data)


def fields(
    text: str = "",
    *,
    data: bytes = b"fields",
    run_id: str | None = None,
    user_id: str | None = None,
    labels: Sequence[str] = (),
) -> ThreadFields:
    return ThreadFields(text=folded(text), data=data, run_id=run_id, user_id=user_id, labels=labels_of(*labels))


def labels_of(*names: str) -> tuple[bytes, ...]:
    """Return labels made from names, as a description has them: distinct and in order."""
    return tuple(sorted({hashlib.blake2b(name.encode(), digest_size=LABEL_SIZE).digest() for name in names}))


def fork_of(
    thread_id: str, checkpoint_id: str | None = None, *, namespace: str = "", as_checkpoint_id: str = "copy"
) -> ForkSource:
    return ForkSource(
        thread_id=thread_id, namespace=namespace, checkpoint_id=checkpoint_id, as_checkpoint_id=as_checkpoint_id
    )


def commit(
    thread_id: str = "t",
    *,
    commit_id: str | None = None,
    user: User = None,
    at: datetime = NOON,
    basis: Basis | None = None,
    fence: int | None = None,
    remove: Removal | None = None,
    fork: ForkSource | None = None,
    values: ValueRow | None = None,
    merge: Sequence[ValueRow] = (),
    checkpoint: NewCheckpoint | None = None,
    attachments: Sequence[AttachmentRecord] = (),
    keep_attachments: bool = False,
    messages: Sequence[MessageRecord] = (),
    move_messages: bool = False,
    thread: ThreadFields | None = None,
    begin: Begin | None = None,
    after: After | None = None,
    journal: bytes | None = None,
    receipts: Sequence[str] = (),
    back_to: BackTo | None = None,
) -> Commit:
    return Commit(
        commit_id=new_id() if commit_id is None else commit_id,
        thread_id=thread_id,
        user=user,
        at=at,
        basis=basis,
        fence=fence,
        remove=remove,
        fork=fork,
        values=values,
        merge=tuple(merge),
        checkpoint=checkpoint,
        attachments=tuple(attachments),
        keep_attachments=keep_attachments,
        messages=tuple(messages),
        move_messages=move_messages,
        thread=thread,
        begin=begin,
        after=after,
        journal=journal,
        receipts=tuple(receipts),
        back_to=back_to,
    )


def deletion(thread_id: str = "t", *, user: User = None, basis: Basis | None = None) -> Commit:
    """Return a commit that deletes a thread."""
    return commit(thread_id, user=user, basis=basis, remove=Removal(thread=True))
