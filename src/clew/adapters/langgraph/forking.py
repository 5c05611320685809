"""What of a thread belongs to a fork of it that begins at a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from clew.adapters.langgraph.ids import outer_id
from clew.errors import ConflictError
from clew.model.records import CheckpointRecord
from clew.storage.copying import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The checkpoint that a fork begins at."""

    checkpoint_id: str
    made: datetime
    """When, by the clock that messages have their times from."""
    messages: frozenset[str]
    """The ids of those that its state holds: saving them again on another branch has given them another time."""


def whole(content: Content) -> Content:
    return content


def until(content: Content, beginning: Beginning, parents: Callable[[CheckpointRecord], Mapping[str, Any]]) -> Content:
    """The thread as it was when the graph was at this checkpoint: with what came before it, in all namespaces.

    `parents` says for a checkpoint of a subgraph which ones of the graphs above it belongs to. If the graph went on from
    the beginning, what was written or begun there since is the past of another future, and left out; if it waits there,
    it stays.
    """
    checkpoint_id = beginning.checkpoint_id
    graphs = [each for each in content.checkpoints if not each.namespace]
    origin = next((each for each in graphs if each.checkpoint_id == checkpoint_id), None)
    if origin is None:
        raise no_such_checkpoint(content.thread.thread_id, checkpoint_id)
    if graphs[-1] is origin:
        return content
    waits = all(each.parent_id != checkpoint_id for each in graphs)

    def stays(each: CheckpointRecord) -> bool:
        if each.sequence <= origin.sequence:
            return True
        return waits and bool(each.namespace) and parents(each).get("") == outer_id(checkpoint_id)

    checkpoints = tuple(each for each in content.checkpoints if stays(each))
    attached_to = {(each.namespace, each.checkpoint_id) for each in checkpoints if waits or each is not origin}
    # Those are in the order in which they were first said, whatever was done to them since.
    said = [
        at
        for at, each in enumerate(content.messages, 1)
        if each.created_at <= beginning.made or each.message_id in beginning.messages
    ]
    return replace(
        content,
        checkpoints=checkpoints,
        attachments=tuple(each for each in content.attachments if (each.namespace, each.checkpoint_id) in attached_to),
        messages=content.messages[: max(said, default=0)],
    )


def no_such_checkpoint(thread_id: str, checkpoint_id: str) -> ConflictError:
    message = f"thread {thread_id!r}, to fork from, has no checkpoint {checkpoint_id!r}"
    return ConflictError(message, thread_id=thread_id, checkpoint_id=checkpoint_id)
