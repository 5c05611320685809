"""Events: what a watcher is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from clew.model.checkpoint import CheckpointInfo
from clew.model.dict_record import DictRecord
from clew.model.message import Message
from clew.model.thread import ThreadInfo

EventKind = Literal["checkpoint", "messages", "thread", "removed", "deleted", "gap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(DictRecord):
    """A change of a thread. `position` resumes the watch after it (`since=event.position`).

    - `checkpoint`: one was added, or replaced under the same id: `checkpoint`, with its id in `checkpoint_ids`.
    - `messages`: some were added or replaced: `messages`, with all their ids in `message_ids`.
    - `thread`: the thread was described, forked or given to another owner: `thread`.
    - `removed`: records were removed: `checkpoint_ids`, `message_ids`; `all_checkpoints` if all of them were.
    - `deleted`: the thread was deleted, or given to another user.
    - `gap`: the store no longer knows everything that happened since the position: read the threads again.

    Contents are read when the event is delivered: a record that was removed since is left out, and one
    that was replaced again is as it is now. `sequence` is the commit's number in the thread.
    """

    kind: EventKind
    position: str
    thread_id: str | None = None
    user_id: str | int | None = None
    sequence: int = 0
    checkpoint: CheckpointInfo | None = None
    checkpoint_ids: tuple[str, ...] = ()
    all_checkpoints: bool = False
    messages: tuple[Message, ...] = ()
    message_ids: tuple[str, ...] = ()
    thread: ThreadInfo | None = None

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {
        "checkpoint": CheckpointInfo,
        "messages": Message,
        "thread": ThreadInfo,
    }
    _tuples: ClassVar[frozenset[str]] = frozenset({"checkpoint_ids", "messages", "message_ids"})
