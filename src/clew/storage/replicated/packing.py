"""A commit as bytes, for the journal: what another store needs to apply it too."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.errors import CorruptRecordError
from clew.model.commit import HEAD, Begin, Commit, ForkSource, NewCheckpoint, OnConflict, Removal, ThreadFields
from clew.model.config import ANY_USER
from clew.model.records import AttachmentRecord, Basis, JournalEntry, MessageRecord, Range, ValueRow
from clew.storage.packing import bytes_text, text_bytes

VERSION: Final = b"\x01"
COPY: Final = b""
"""The data of an entry that stands for the whole thread: whoever takes it over copies the thread as it is then."""


class _Checkpoint(Struct, frozen=True, array_like=True):
    checkpoint_id: str
    namespace: str
    made_from_head: bool
    parent: str | None
    on_conflict: OnConflict
    node_name: str | None
    step: int | None
    run_id: str | None
    size: int
    metadata: bytes
    body: bytes
    covers: tuple[Range, ...]


class _Row(Struct, frozen=True, array_like=True):
    first: int
    count: int
    digests: bytes
    data: bytes


class _Message(Struct, frozen=True, array_like=True):
    message_id: str
    text: bytes
    tool_calls: int
    run_id: str | None
    created_at: datetime
    data: bytes


class _Fields(Struct, frozen=True, array_like=True):
    text: bytes
    data: bytes
    run_id: str | None
    user_id: str | None


class _Commit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`Commit` in types that msgpack tells apart. Text that is searched is kept as bytes: it may hold lone surrogates."""

    commit_id: str
    at: datetime
    any_user: bool = False
    user: str | None = None
    basis: Basis | None = None
    remove: Removal | None = None
    fork: ForkSource | None = None
    values: _Row | None = None
    merge: tuple[_Row, ...] = ()
    checkpoint: _Checkpoint | None = None
    attachments: tuple[tuple[str, str, str, bytes], ...] = ()
    keep_attachments: bool = False
    messages: tuple[_Message, ...] = ()
    thread: _Fields | None = None
    begin: Begin | None = None
    term: int = 0
    lone: bool = False


class Circumstances(Struct, frozen=True):
    """How a commit came into a journal: in which term, and whether its store alone may have acknowledged it (`lone`).

    A commit that is not lone is acknowledged when the other store has it too."""

    term: int = 0
    lone: bool = False


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Commit)
_circumstances: Final = msgspec.msgpack.Decoder(Circumstances)


def pack(commit: Commit, *, term: int = 0, lone: bool = False) -> bytes:
    """The bytes of `commit`, without what only concerns the store that it was made for: fence, chain and journal, and the
    sequence number that `remove.as_of` speaks of. `term` and `lone` are its `Circumstances`."""
    removal, described = commit.remove, commit.thread
    packed = _Commit(
        term=term,
        lone=lone,
        commit_id=commit.commit_id,
        at=commit.at,
        any_user=commit.user is ANY_USER,
        user=None if commit.user is ANY_USER else commit.user,
        basis=commit.basis,
        remove=replace(removal, as_of=None) if removal is not None and removal.as_of is not None else removal,
        fork=commit.fork,
        values=_pack_row(commit.values) if commit.values is not None else None,
        merge=tuple(map(_pack_row, commit.merge)),
        checkpoint=_pack_checkpoint(commit.checkpoint) if commit.checkpoint is not None else None,
        attachments=tuple((each.namespace, each.checkpoint_id, each.key, each.data) for each in commit.attachments),
        keep_attachments=commit.keep_attachments,
        messages=tuple(map(_pack_message, commit.messages)),
        thread=_Fields(text_bytes(described.text), described.data, described.run_id, described.user_id)
        if described is not None
        else None,
        begin=commit.begin,
    )
    return VERSION + _encoder.encode(packed)


def unpack(entry: JournalEntry) -> Commit:
    """The commit that `entry` holds. Raises CorruptRecordError if it is damaged, or a newer version's."""
    try:
        if entry.data[:1] != VERSION:
            raise CorruptRecordError(
                f"a journal entry of thread {entry.thread_id!r} has version {entry.data[:1].hex() or 'none'}; "
                f"this Clew reads version 1",
                thread_id=entry.thread_id,
            )
        return _unpacked(_decoder.decode(memoryview(entry.data)[1:]), entry.thread_id)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(entry, error) from error


def circumstances(entry: JournalEntry) -> Circumstances:
    """How the commit of `entry` came into the journal. Raises CorruptRecordError if the entry is damaged."""
    if entry.data == COPY:
        return Circumstances()
    try:
        return _circumstances.decode(memoryview(entry.data)[1:])
    except msgspec.MsgspecError as error:
        raise _damaged(entry, error) from error


def _damaged(entry: JournalEntry, error: Exception) -> CorruptRecordError:
    message = f"a journal entry of thread {entry.thread_id!r} is damaged: {error}"
    return CorruptRecordError(message, thread_id=entry.thread_id)


def _unpacked(packed: _Commit, thread_id: str) -> Commit:
    described = packed.thread
    return Commit(
        commit_id=packed.commit_id,
        thread_id=thread_id,
        user=ANY_USER if packed.any_user else packed.user,
        at=packed.at,
        basis=packed.basis,
        remove=packed.remove,
        fork=packed.fork,
        values=_row(packed.values) if packed.values is not None else None,
        merge=tuple(map(_row, packed.merge)),
        checkpoint=_checkpoint(packed.checkpoint) if packed.checkpoint is not None else None,
        attachments=tuple(
            AttachmentRecord(namespace=namespace, checkpoint_id=checkpoint_id, key=key, data=data)
            for namespace, checkpoint_id, key, data in packed.attachments
        ),
        keep_attachments=packed.keep_attachments,
        messages=tuple(map(_message, packed.messages)),
        thread=ThreadFields(
            text=bytes_text(described.text), data=described.data, run_id=described.run_id, user_id=described.user_id
        )
        if described is not None
        else None,
        begin=packed.begin,
    )


def _pack_row(row: ValueRow) -> _Row:
    return _Row(row.first, row.count, row.digests, row.data)


def _row(row: _Row) -> ValueRow:
    return ValueRow(first=row.first, count=row.count, digests=row.digests, data=row.data)


def _pack_checkpoint(new: NewCheckpoint) -> _Checkpoint:
    return _Checkpoint(
        checkpoint_id=new.checkpoint_id,
        namespace=new.namespace,
        made_from_head=new.parent is HEAD,
        parent=None if new.parent is HEAD else new.parent,
        on_conflict=new.on_conflict,
        node_name=new.node_name,
        step=new.step,
        run_id=new.run_id,
        size=new.size,
        metadata=new.metadata,
        body=new.body,
        covers=new.covers,
    )


def _checkpoint(packed: _Checkpoint) -> NewCheckpoint:
    return NewCheckpoint(
        checkpoint_id=packed.checkpoint_id,
        namespace=packed.namespace,
        parent=HEAD if packed.made_from_head else packed.parent,
        on_conflict=packed.on_conflict,
        node_name=packed.node_name,
        step=packed.step,
        run_id=packed.run_id,
        size=packed.size,
        metadata=packed.metadata,
        body=packed.body,
        covers=packed.covers,
    )


def _pack_message(message: MessageRecord) -> _Message:
    return _Message(
        message_id=message.message_id,
        text=text_bytes(message.text),
        tool_calls=message.tool_calls,
        run_id=message.run_id,
        created_at=message.created_at,
        data=message.data,
    )


def _message(packed: _Message) -> MessageRecord:
    return MessageRecord(
        message_id=packed.message_id,
        text=bytes_text(packed.text),
        tool_calls=packed.tool_calls,
        run_id=packed.run_id,
        created_at=packed.created_at,
        data=packed.data,
    )
