"""Stored records: bytes that only the codec reads, and the few fields that storages index.

Stored fields may be damaged. A storage still returns such a record, with stand-ins, and `damage` says
what is wrong.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

Range = tuple[int, int]
"""Value numbers from `first` to before `end`."""
LABEL_SIZE: Final = 16
"""Bytes of a label."""
MOST_TOKENS: Final = (1 << 40) - 1
"""Tokens that one message may count, of each kind."""


class Basis(Struct, frozen=True, kw_only=True, array_like=True):
    """A writer's view of a thread's value log, which its references rely on.

    `incarnation` is drawn when the thread is created. If it differs, the thread was deleted meanwhile.
    `epoch` counts removals of values from the log. If it differs, references may dangle. `next_value` is
    the number of the next value.
    """

    incarnation: str
    epoch: int
    next_value: int


class ValueRow(Struct, frozen=True, kw_only=True, array_like=True):
    """`count` values, numbered from `first`. `digests` has 16 bytes each; `data` is a frame."""

    first: int
    count: int
    digests: bytes
    data: bytes

    @property
    def end(self) -> int:
        return self.first + self.count


class CheckpointRecord(Struct, frozen=True, kw_only=True):
    """A stored checkpoint. `covers` are the few ranges of values that its body needs.

    `saved_at` is the time of the commit that wrote it, `created_at` that of the first one with its id.
    They differ if it was replaced. They are readings of clocks: `saved_at` may be the earlier one.
    """

    checkpoint_id: str
    namespace: str
    sequence: int
    parent_id: str | None
    created_at: datetime
    saved_at: datetime
    node_name: str | None
    step: int | None
    run_id: str | None
    size: int
    metadata: bytes
    body: bytes
    covers: tuple[Range, ...]
    damage: str = ""


class AttachmentRecord(Struct, frozen=True, kw_only=True, array_like=True):
    """A keyed record that belongs to a checkpoint. It may be stored before its checkpoint."""

    namespace: str
    checkpoint_id: str
    key: str
    data: bytes
    damage: str = ""


class MessageRecord(Struct, frozen=True, kw_only=True, array_like=True):
    """A stored message. `text` is folded for searching; `data` has the message itself.

    `sequence` is the thread's sequence number when the message was added. Storages set it in results; in
    a commit it is ignored. Storages sum the tokens in `stats`; each is at most `MOST_TOKENS`.
    """

    message_id: str
    text: str
    tool_calls: int
    run_id: str | None
    created_at: datetime
    data: bytes
    sequence: int = 0
    damage: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


Place = tuple[datetime, str, str]
"""A message's place among those of all threads: its time, its thread's id and its own id."""


class FoundMessage(Struct, frozen=True, kw_only=True):
    """A message that a search across threads found, with its thread and the thread's owner."""

    thread_id: str
    user_id: str | None
    message: MessageRecord

    @property
    def place(self) -> Place:
        return self.message.created_at, self.thread_id, self.message.message_id


class ThreadRecord(Struct, frozen=True, kw_only=True):
    """A stored thread. `text` is folded for searching; `data` has name, tags and metadata.

    `labels` are digests of the tags and of the metadata, for filters (`ThreadQuery.labels`).
    """

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
    labels: tuple[bytes, ...] = ()
    damage: str = ""


class TurnRecord(Struct, frozen=True, kw_only=True):
    """The holder of a turn, and its time. `token` grows with each new holder."""

    holder: str
    token: int
    since: datetime
    expires_at: datetime


class LeaseRecord(TurnRecord, frozen=True, kw_only=True):
    """A thread's lease. The token fences off earlier holders."""

    thread_id: str


class JournalEntry(Struct, frozen=True, kw_only=True):
    """A commit to be shipped to another store. `position` grows within a thread, and with time.

    `after` is the thread's previous commit in the chain. `incarnation` is the thread's incarnation after the
    commit, or before it if the commit deleted the thread. `at` is the commit's time.
    """

    position: int
    thread_id: str
    commit_id: str
    after: str | None
    incarnation: str | None
    at: datetime
    data: bytes
    damage: str = ""
