"""Copying a whole thread: every checkpoint with its id, its parent and its attachments, and the messages."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from clew.checkpointer.blocking import blocking
from clew.checkpointer.sweeping import Sweeping
from clew.codec.rows import unbroken
from clew.errors import ClewError, ConfigError, ConflictError
from clew.ids import new_id
from clew.model.commit import Commit, NewCheckpoint, Removal, ThreadFields
from clew.model.config import ANY_USER, Config, read_config
from clew.model.queries import AttachmentQuery, MessageQuery, ThreadQuery
from clew.model.records import AttachmentRecord, Basis, CheckpointRecord, MessageRecord, ThreadRecord, ValueRow


class CopyMethods(Sweeping):
    """Methods that copy threads."""

    async def acopy_thread(self, config: Config | str, thread_id: str) -> dict[str, Any]:
        """Copy the thread with all its history under another id; returns the copy's config. (`afork` begins a thread at one
        checkpoint, and copies nothing.)

        Checkpoints keep their ids, parents, times and attachments, in all namespaces; messages and the description come
        too. The copy belongs to the source's owner, and refers to nothing of the source. Raises ConflictError if there is
        no such thread, or if `thread_id` is taken; what a failure cuts short is removed again.
        """
        address = read_config(config)
        target = read_config({"thread_id": thread_id}).thread_id
        if target == address.thread_id:
            raise ConfigError(f"a copy needs a thread of its own; {target!r} is the source")
        found = await self._thread_page(ThreadQuery(user=address.user, thread_id=address.thread_id))
        if not found:
            raise ConflictError(f"thread {address.thread_id!r}, to copy, does not exist", thread_id=address.thread_id)
        if await self._thread_page(ThreadQuery(user=ANY_USER, thread_id=target)):
            raise ConflictError(f"thread {target!r} exists: copy into a new one", thread_id=target)
        source = found[0]
        content = await self._content(source)
        owner = {} if source.user_id is None else {"user_id": source.user_id}
        copy = read_config({"thread_id": target, **owner})
        basis: Basis | None = None
        try:
            for at, part in _parts(source, content):
                # With the basis of the one before, so that nobody else's thread of this id is written to.
                commit = Commit(commit_id=new_id(), thread_id=target, user=copy.user, at=at, basis=basis, **part)
                basis = (await self._apply(commit)).basis
        except ClewError:
            if basis is not None:
                await self._apply(self._plain_commit(copy, basis=basis, remove=Removal(thread=True)))
            self._forget(copy)
            raise
        return {"thread_id": target, **owner}

    copy_thread = blocking(acopy_thread)

    async def _content(self, source: ThreadRecord) -> _Content:
        while True:
            values = await self._value_rows(source)
            page = await self._checkpoint_page(source, detail="body")
            if page.basis is None:
                raise ConflictError(f"thread {source.thread_id!r}, to copy, was deleted", thread_id=source.thread_id)
            # Else it was written to between the two reads.
            if page.basis == values.basis:
                break
        asked = MessageQuery(thread_id=source.thread_id, user=ANY_USER, limit=None)
        every = AttachmentQuery(thread_id=source.thread_id, user=ANY_USER)
        return _Content(
            rows=list(unbroken(values.rows, page.basis.next_value)),
            checkpoints=page.checkpoints[::-1],
            attachments=await self._try(lambda: self._storage.attachments(every)),
            messages=await self._try(lambda: self._storage.messages(asked)),
        )


class _Content(Struct, frozen=True, kw_only=True):
    """Everything in a thread, oldest first."""

    rows: list[ValueRow]
    checkpoints: tuple[CheckpointRecord, ...]
    attachments: list[AttachmentRecord]
    messages: list[MessageRecord]


def _parts(source: ThreadRecord, content: _Content) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """When and what each commit of a copy brings: the thread, its values, its checkpoints. Each relies on those before it."""
    fields = ThreadFields(text=source.text, data=source.data, run_id=source.run_id, user_id=source.user_id)
    yield source.created_at, {"thread": fields}
    for row in content.rows:
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
                "checkpoint": _again(checkpoint),
                "attachments": tuple(attached.pop((checkpoint.namespace, checkpoint.checkpoint_id), ())),
                "messages": tuple(said),
            },
        )
    rest = tuple(each for keyed in attached.values() for each in keyed)
    if rest or messages:
        yield source.updated_at, {"attachments": rest, "messages": tuple(messages)}


def _again(record: CheckpointRecord) -> NewCheckpoint:
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
