"""What storages keep: bytes that only the codec reads, beside the few fields that they index."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

Range = tuple[int, int]
"""Value numbers `first` up to but not including `end`."""


class Basis(Struct, frozen=True, kw_only=True):
    """What a writer knows of a thread's value log, and so what its references rely on.

    `incarnation` is drawn when the thread is created: another one means that the thread was deleted meanwhile.
    `epoch` counts the times values were taken out of the log: another one means that a reference may dangle.
    `next_value` is the number that the next value gets.
    """

    incarnation: str
    epoch: int
    next_value: int


class ValueRow(Struct, frozen=True, kw_only=True):
    """`count` values of a thread, numbered from `first`. `digests` has 16 bytes for each; `data` is one frame."""

    first: int
    count: int
    digests: bytes
    data: bytes

    @property
    def end(self) -> int:
        return self.first + self.count


class CheckpointRecord(Struct, frozen=True, kw_only=True):
    """A stored checkpoint. `covers` are the ranges of values that its body needs, a few at most."""

    checkpoint_id: str
    namespace: str
    sequence: int
    parent_id: str | None
    created_at: datetime
    node_name: str | None
    step: int | None
    run_id: str | None
    size: int
    metadata: bytes
    body: bytes
    covers: tuple[Range, ...]


class AttachmentRecord(Struct, frozen=True, kw_only=True):
    """A keyed record that belongs to a checkpoint, ordered by `key`. The checkpoint may come after it."""

    namespace: str
    checkpoint_id: str
    key: str
    data: bytes


class MessageRecord(Struct, frozen=True, kw_only=True):
    """A stored message. `text` is folded for searching; `data` has the message itself.

    `sequence` is the thread's sequence number when the message was added. Storages set it in what they return; in a commit it
    means nothing."""

    message_id: str
    text: str
    tool_calls: int
    run_id: str | None
    created_at: datetime
    data: bytes
    sequence: int = 0


class ThreadRecord(Struct, frozen=True, kw_only=True):
    """A stored thread. `text` is what a search over threads looks at, folded; `data` has name, tags and metadata."""

    thread_id: str
    user_id: str | None
    created_at: datetime
    updated_at: datetime
    run_id: str | None
    text: str
    data: bytes
    forked_from: tuple[str, str] | None
    checkpoint_count: int
    message_count: int
    size: int
    head: CheckpointRecord | None


class LeaseRecord(Struct, frozen=True, kw_only=True):
    """Who has a thread's turn. `token` grows with each new holder and fences off the earlier ones."""

    thread_id: str
    holder: str
    token: int
    since: datetime
    expires_at: datetime


class JournalEntry(Struct, frozen=True, kw_only=True):
    """A commit that waits to be taken to another store. `position` grows within a thread, and with time.

    `after` is the thread's commit before it, `incarnation` that of the thread as it left it (or as it found it, if it left
    none), `at` the commit's own time.
    """

    position: int
    thread_id: str
    commit_id: str
    after: str | None
    incarnation: str | None
    at: datetime
    data: bytes
