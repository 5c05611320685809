"""What storages are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from clew.model.config import User
from clew.model.plain import Plain
from clew.model.records import Basis, CheckpointRecord, JournalEntry, Range, ValueRow

Detail = Literal["info", "body", "state"]


class CheckpointQuery(Struct, frozen=True, kw_only=True):
    """Checkpoints of a thread, newest first. `namespace=None` means all of them.

    With `checkpoint_id`, that one only; `before` is the id of one that all results are older than (the newest one with the id,
    if several namespaces have it), `before_sequence` a number that theirs are under: the way to page through all namespaces.
    `detail` says how much of each to read: the fields, the `body` too, or the value rows as well that the bodies need (but
    not those of the checkpoint `known`, which the caller has).
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
    """The checkpoints found, and the value rows that their bodies need, by number. `basis=None`: there is no such thread."""

    basis: Basis | None
    checkpoints: tuple[CheckpointRecord, ...] = ()
    rows: tuple[ValueRow, ...] = ()


class ValueQuery(Struct, frozen=True, kw_only=True):
    """The value log of a thread: rows that reach past `since`, or that overlap `ranges`; `data=False` leaves out the data."""

    thread_id: str
    user: User
    since: int = 0
    ranges: tuple[Range, ...] | None = None
    data: bool = False


class ValuePage(Struct, frozen=True, kw_only=True):
    """Value rows by number. Values numbered under `fixed_before` are shared with a fork: they can't be merged or dropped. Those
    under `inherited` are the source's of this fork, and don't count in its size. `sequence` is the thread's, see
    `Removal.as_of`."""

    basis: Basis | None
    rows: tuple[ValueRow, ...] = ()
    fixed_before: int = 0
    inherited: int = 0
    sequence: int = 0


class AttachmentQuery(Struct, frozen=True, kw_only=True):
    """Attachments of one checkpoint, or of all of a thread's with `checkpoint_id=None`, in the order of their keys."""

    thread_id: str
    user: User
    namespace: str = ""
    checkpoint_id: str | None = None


class MessageQuery(Struct, frozen=True, kw_only=True):
    """Messages of a thread in their order. `search` is folded text to find; `message_id` asks for one."""

    thread_id: str
    user: User
    search: str | None = None
    message_id: str | None = None
    offset: int = 0
    limit: int | None = 50


class ThreadQuery(Struct, frozen=True, kw_only=True):
    """Threads of a user, the newest activity first. `thread_id` asks for one; `search` is folded text to find in the thread's
    `text` or in its folded id."""

    user: User
    thread_id: str | None = None
    search: str | None = None
    offset: int = 0
    limit: int | None = 50


class JournalQuery(Struct, frozen=True, kw_only=True):
    """The oldest entries of the journal, of one thread or of all but those in `without`.

    `receipts` asks for the receipts of `thread_id` too."""

    thread_id: str | None = None
    without: frozenset[str] = frozenset()
    limit: int = 100
    receipts: bool = False


class JournalPage(Struct, frozen=True, kw_only=True):
    """Entries, and how many the whole journal has, whatever was asked for.

    `receipts` are the ids of the thread's commits that the store recognises, oldest first; those whose checkpoint of the
    same id is there may be missing."""

    entries: tuple[JournalEntry, ...] = ()
    count: int = 0
    receipts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Plain):
    """Counts over some set of threads."""

    messages: int = 0
    tool_calls: int = 0
    checkpoints: int = 0
    bytes: int = 0


class StorageStats(Struct, frozen=True, kw_only=True):
    """What a storage holds for one user, or for all: totals by thread and by UTC day (`2026-01-31`).

    `stored_bytes` is what the whole store takes, where it can tell.
    """

    by_thread: Mapping[str, Totals] = {}
    by_day: Mapping[str, Totals] = {}
    stored_bytes: int = 0
