"""The one unit of writing: everything that becomes durable together in one thread."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from clew.model.config import User
from clew.model.records import AttachmentRecord, Basis, MessageRecord, Range, ValueRow

OnConflict = Literal["branch", "reject"]


class TheHead(enum.Enum):
    """The type of `HEAD`."""

    HEAD = "the head at commit time"

    def __repr__(self) -> str:
        return "HEAD"


HEAD: Final = TheHead.HEAD


class NewCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint to add, or to put in the place of the one with the same id.

    `parent` is the id of the one it was made from, `None` for a beginning, or `HEAD` for whatever is the head when
    the commit is applied. If the head of the namespace is another one than `parent`, `on_conflict` decides. A parent that is
    not there is accepted only with a basis: without one, it may be from a thread that was deleted.
    """

    checkpoint_id: str
    namespace: str
    parent: str | None | TheHead
    on_conflict: OnConflict
    node_name: str | None
    step: int | None
    run_id: str | None
    size: int
    metadata: bytes
    body: bytes
    covers: tuple[Range, ...]


class ThreadFields(Struct, frozen=True, kw_only=True):
    """The describing fields of a thread, replaced as a whole. `user_id` moves the thread to another owner (`ANY_USER` may)."""

    text: str
    data: bytes
    run_id: str | None
    user_id: str | None


class ForkSource(Struct, frozen=True, kw_only=True):
    """Where a new thread starts: one checkpoint of another, with its attachments and the messages up to it.

    The copy gets `as_checkpoint_id`, no parent, and shares or copies the values inside the storage.
    """

    thread_id: str
    namespace: str
    checkpoint_id: str | None
    as_checkpoint_id: str


class Removal(Struct, frozen=True, kw_only=True):
    """What a commit takes away. Taking away what is not there is not an error.

    `thread` means everything; `state` all checkpoints with their attachments and values; `checkpoints` are
    (namespace, id) pairs; `values` are ranges that no remaining checkpoint needs, and `as_of` is the thread's sequence number
    for which that was found out: if it has moved since, a new checkpoint may need them, and nothing is taken away.
    """

    thread: bool = False
    state: bool = False
    checkpoints: tuple[tuple[str, str], ...] = ()
    messages: tuple[str, ...] = ()
    values: tuple[Range, ...] = ()
    as_of: int | None = None


class Begin(Struct, frozen=True, kw_only=True):
    """What a thread is known by, if the commit creates it: instead of what the store would draw.

    `incarnation` is at most 20 bytes long, as `clew.ids.new_id` makes them.
    """

    incarnation: str
    epoch: int = 0


class After(Struct, frozen=True):
    """The thread's last commit must be this one of a chain; `None`: the thread has none, or is not there."""

    commit_id: str | None


class Commit(Struct, frozen=True, kw_only=True):
    """Everything that becomes durable together in one thread. Applied atomically; applied twice, it is a no-op.

    A storage goes through it in this order: owner, receipt (has this `commit_id` been applied?), `basis`, `after`, `fence`,
    then `remove`, `fork`, `values`, `merge`, `checkpoint`, `attachments`, `messages`, `thread`.
    `clew.storage.rules` says what may forbid it. `begin`, `after`, `journal` and `receipts` (ids of commits that count as
    applied from now on) are for copies of a store in another.

    Not everything goes together: a fork brings nothing else but a description, and a merge of rows only goes with a removal.
    """

    commit_id: str
    thread_id: str
    user: User
    at: datetime
    basis: Basis | None = None
    fence: int | None = None
    remove: Removal | None = None
    fork: ForkSource | None = None
    values: ValueRow | None = None
    merge: tuple[ValueRow, ...] = ()
    checkpoint: NewCheckpoint | None = None
    attachments: tuple[AttachmentRecord, ...] = ()
    keep_attachments: bool = False
    messages: tuple[MessageRecord, ...] = ()
    thread: ThreadFields | None = None
    begin: Begin | None = None
    after: After | None = None
    journal: bytes | None = None
    receipts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.fork is not None or self.merge:
            self._check_alone()

    def _check_alone(self) -> None:
        others: dict[str, object] = {
            "values": self.values,
            "checkpoint": self.checkpoint,
            "attachments": self.attachments,
            "messages": self.messages,
            "receipts": self.receipts,
        }
        if self.fork is not None:
            others |= {"basis": self.basis, "remove": self.remove, "merge": self.merge}
        else:
            others["thread"] = self.thread
        if found := [name for name, part in others.items() if part]:
            kind = "a fork" if self.fork is not None else "a merge"
            raise ValueError(f"{kind} can't be committed together with {', '.join(found)}: make two commits")


class Applied(Struct, frozen=True, kw_only=True):
    """What came of a commit. `basis` is the thread's after it (`None` if the thread does not exist then).

    `parent_id` and `sequence` are the new checkpoint's; `repeated` says that the commit had been applied before.
    """

    basis: Basis | None
    parent_id: str | None = None
    sequence: int = 0
    created_at: datetime | None = None
    removed: int = 0
    repeated: bool = False
