"""Queries to storages, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Literal, Self

from msgspec import Struct

from clew.model.commit import TheHead
from clew.model.config import User
from clew.model.dict_record import DictRecord
from clew.model.records import (
    AttachmentRecord,
    Basis,
    CheckpointRecord,
    JournalEntry,
    MessageRecord,
    Place,
    Range,
    ThreadRecord,
    ValueRow,
)

Detail = Literal["info", "body", "state"]


class CheckpointQuery(Struct, frozen=True, kw_only=True):
    """Checkpoints of a thread, newest first. `namespace=None` means all namespaces.

    `checkpoint_id` asks for that one only. `before` is the id of a checkpoint: all results are older (than
    the newest with that id, if several namespaces have it). `before_sequence` bounds the sequence numbers,
    and so pages through all namespaces. `detail` says how much to read: the fields (`info`), also the
    `body`, or also the value rows that the bodies need (`state`), except those of the checkpoint `known`,
    which the caller has.
    """

    thread_id: str
    user: User
    namespace: str | None = ""
    checkpoint_id: str | None = None
    before: str | None = None
    before_sequence: int | None = None
    run_id: str | None = None
    limit: int | None = 1
    detail: Detail = "info"
    known: str | None = None


class CheckpointPage(Struct, frozen=True, kw_only=True):
    """The checkpoints found, and the value rows they need. `basis=None`: no such thread."""

    basis: Basis | None
    checkpoints: tuple[CheckpointRecord, ...] = ()
    rows: tuple[ValueRow, ...] = ()


class ValueQuery(Struct, frozen=True, kw_only=True):
    """Value rows that end after `since`, or overlap `ranges`. `data=False` omits the data."""

    thread_id: str
    user: User
    since: int = 0
    ranges: tuple[Range, ...] | None = None
    data: bool = False


class ValuePage(Struct, frozen=True, kw_only=True):
    """Value rows in order.

    Forks share the values under `fixed_before`, which can't be merged or dropped. A fork has the values
    under `inherited` from its source, and they don't count in its size. `sequence` is the thread's (see
    `Removal.as_of`), and so are the branch `points` (see `clew.storage.branches`). If they are damaged,
    `damage` says so, and there are none: nothing else in the page needs them.
    """

    basis: Basis | None
    rows: tuple[ValueRow, ...] = ()
    fixed_before: int = 0
    inherited: int = 0
    sequence: int = 0
    points: tuple[Range, ...] = ()
    damage: str = ""


class Content(Struct, frozen=True, kw_only=True):
    """Everything in a thread as of one moment, oldest first."""

    thread: ThreadRecord
    basis: Basis
    rows: tuple[ValueRow, ...]
    checkpoints: tuple[CheckpointRecord, ...]
    attachments: tuple[AttachmentRecord, ...]
    messages: tuple[MessageRecord, ...]
    points: tuple[Range, ...] = ()

    def frames(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the data of every record. Only a description and metadata may be missing."""
        if self.thread.data:
            yield "its description", self.thread.data
        for row in self.rows:
            if row.count:
                yield f"its values {row.first} to {row.end - 1}", row.data
        for each in self.checkpoints:
            yield f"checkpoint {each.checkpoint_id!r}", each.body
            if each.metadata:
                yield f"the metadata of checkpoint {each.checkpoint_id!r}", each.metadata
        for attachment in self.attachments:
            yield f"attachment {attachment.key!r} of checkpoint {attachment.checkpoint_id!r}", attachment.data
        for message in self.messages:
            yield f"message {message.message_id!r}", message.data


class AttachmentQuery(Struct, frozen=True, kw_only=True):
    """Attachments of one checkpoint, or of all (`checkpoint_id=None`), ordered by key."""

    thread_id: str
    user: User
    namespace: str = ""
    checkpoint_id: str | None = None


class MessageQuery(Struct, frozen=True, kw_only=True):
    """A thread's messages, in order. `search` is folded text; `message_id` asks for one, on any branch.

    `branch` limits the answer to the conversation of the head, or of the checkpoint with this id in
    `namespace`, as of that moment (nothing, if there is no such checkpoint). `None` means all branches.
    `after` and `before` are ids of messages, on any branch: all results come after the one and before the
    other. An unknown one finds nothing. With `newest`, `offset` and `limit` count from the newest message
    on; the results are in order all the same.
    """

    thread_id: str
    user: User
    branch: str | TheHead | None = None
    namespace: str = ""
    search: str | None = None
    message_id: str | None = None
    after: str | None = None
    before: str | None = None
    newest: bool = False
    offset: int = 0
    limit: int | None = 50


class SearchQuery(Struct, frozen=True, kw_only=True):
    """Messages of all threads of a user that contain `search`, newest first.

    `search` is folded text, not empty. The order is that of `FoundMessage.place`, from the greatest:
    by time, then by thread id, then by message id. `before` bounds the places.
    """

    user: User
    search: str
    before: Place | None = None
    limit: int | None = 20


class ThreadQuery(Struct, frozen=True, kw_only=True):
    """Threads of a user, the last active first.

    `thread_id` asks for one thread. `search` is folded text to find in a thread's `text` or folded id.
    A thread must have all of `labels`. `before` is a place in the order: the time of a thread's last
    activity, and the thread's id; all results come after it. Among threads with exactly this time, those
    created before the named thread come after it. If the named thread is gone, all of them do.
    """

    user: User
    thread_id: str | None = None
    search: str | None = None
    labels: tuple[bytes, ...] = ()
    before: tuple[datetime, str] | None = None
    offset: int = 0
    limit: int | None = 50


class JournalQuery(Struct, frozen=True, kw_only=True):
    """The oldest journal entries, of one thread or of all threads except those in `without`.

    `receipts` also asks for the receipts of `thread_id`.
    """

    thread_id: str | None = None
    without: frozenset[str] = frozenset()
    limit: int = 100
    receipts: bool = False


class JournalPage(Struct, frozen=True, kw_only=True):
    """Journal entries, and the number of entries in the whole journal.

    `receipts` are the ids of the thread's commits that the store recognises, oldest first. Commits whose
    checkpoint has the same id and exists may be missing.
    """

    entries: tuple[JournalEntry, ...] = ()
    count: int = 0
    receipts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(DictRecord):
    """Counts over some set of threads. The tokens are those that messages report as their `usage`."""

    messages: int = 0
    tool_calls: int = 0
    checkpoints: int = 0
    bytes: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @classmethod
    def counted(cls, counts: Iterable[int]) -> Self:
        """Return the totals with these counts, in the order of the fields."""
        return cls(**dict(zip(_COUNTS, counts, strict=True)))

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


_COUNTS: Final = tuple(each.name for each in fields(Totals))


class StorageStats(Struct, frozen=True, kw_only=True):
    """Totals of a storage for one user, or for all: by thread and by UTC day (`2026-01-31`).

    `stored_bytes` is the size of the whole store, if it is known.
    """

    by_thread: Mapping[str, Totals] = {}
    by_day: Mapping[str, Totals] = {}
    stored_bytes: int = 0
