"""Commits: the only unit of writing, and its parts."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from clew.errors import ConfigError, shown
from clew.model.config import User
from clew.model.records import AttachmentRecord, Basis, MessageRecord, Range, ValueRow

OnConflict = Literal["branch", "reject"]


def checked_conflict(on_conflict: OnConflict) -> OnConflict:
    """Return `on_conflict` if it is one of the choices; otherwise raise ConfigError."""
    if on_conflict not in ("branch", "reject"):
        raise ConfigError(f'on_conflict must be "branch" or "reject", not {shown(on_conflict)}')
    return on_conflict


class TheHead(enum.Enum):
    """The type of `HEAD`."""

    # An int, because msgspec can't decode a union of a string and an enum of strings.
    HEAD = 1

    def __repr__(self) -> str:
        return "HEAD"


HEAD: Final = TheHead.HEAD


class NewCheckpoint(Struct, frozen=True, kw_only=True, array_like=True):
    """A checkpoint to add. It replaces the one with the same id, if there is one.

    `parent` is the id of the checkpoint it was made from, `None` for a first one, or `HEAD` for the head
    at commit time. If the namespace's head is not `parent`, `on_conflict` decides. A parent that does not
    exist is accepted only with a basis: without one, it may belong to a thread that was deleted.

    `created_at` is set only in a copy of a checkpoint that was replaced: it is the time of the first save.
    Without it, a new checkpoint gets the commit's time, and a replacement keeps the time of the checkpoint
    that it replaces.
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
    created_at: datetime | None = None


class ThreadFields(Struct, frozen=True, kw_only=True, array_like=True):
    """The describing fields of a thread, replaced as a whole. `user_id` is the owner.

    `labels` are distinct, in order, and have `LABEL_SIZE` bytes each.
    """

    text: str
    data: bytes
    run_id: str | None
    user_id: str | None
    labels: tuple[bytes, ...] = ()


class ForkSource(Struct, frozen=True, kw_only=True, array_like=True):
    """The start of a fork: another thread's checkpoint, its attachments and the messages up to it.

    The copy has the id `as_checkpoint_id` and no parent. The storage shares or copies the values.
    """

    thread_id: str
    namespace: str
    checkpoint_id: str | None
    as_checkpoint_id: str


class Removal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a commit that removes records. Missing records are ignored.

    `thread` removes everything; `state` all checkpoints with their attachments and values; `checkpoints`
    are (namespace, id) pairs. `values` are ranges that no remaining checkpoint needs. `as_of` is the thread's
    sequence number at the time when this was determined. If the thread has another one now, a new checkpoint
    may need the values, and the commit is refused. With `thread`, it is the expected sequence number of the
    thread to remove; a thread that is already gone is not an error.
    """

    thread: bool = False
    state: bool = False
    checkpoints: tuple[tuple[str, str], ...] = ()
    messages: tuple[str, ...] = ()
    values: tuple[Range, ...] = ()
    as_of: int | None = None


class Begin(Struct, frozen=True, kw_only=True, array_like=True):
    """Incarnation and epoch of the thread that the commit creates, instead of the store's own.

    `incarnation` has at most 20 bytes, like the ids of `clew.ids.new_id`.
    """

    incarnation: str
    epoch: int = 0


class BackTo(Struct, frozen=True, array_like=True):
    """The start of a branch of the conversation: after the new checkpoint's parent, or after a message.

    With `parent`, the branch begins even if the parent is the head. Otherwise it begins after the commit that
    added the message `message_id`; `None` means before all messages. A message that does not exist begins no
    branch.
    """

    message_id: str | None = None
    parent: bool = False


class After(Struct, frozen=True):
    """The required end of the thread's chain. `None`: it has no chain, or does not exist."""

    commit_id: str | None


class Commit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes to one thread that become durable together. Applied atomically and idempotently.

    A storage checks the owner, the receipt (has this `commit_id` been applied?), `basis`, `after` and
    `fence`, then applies `remove`, `fork`, `values`, `merge`, `checkpoint`, `attachments`, `messages` and
    `thread`, in this order. `clew.storage.rules` has the rules that may refuse it. `back_to` begins a branch
    of the conversation with this commit. `begin`, `after`, `journal` and `receipts` (ids of commits that
    count as applied from now on) are for replication.

    A message with a known id is replaced in place. With a checkpoint, or with `move_messages`, a message
    that only other branches have moves to this one.

    Some parts exclude each other: a fork takes only a description, and a merge of rows only a removal.

    Journals store commits as msgpack of these structs: a change to their fields needs a new version number in
    `clew.storage.replicated.journal_format`.
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
    move_messages: bool = False
    thread: ThreadFields | None = None
    back_to: BackTo | None = None
    begin: Begin | None = None
    after: After | None = None
    journal: bytes | None = None
    receipts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.fork is not None or self.merge:
            self._check_combination()

    def _check_combination(self) -> None:
        others: dict[str, object] = {
            "values": self.values,
            "checkpoint": self.checkpoint,
            "attachments": self.attachments,
            "messages": self.messages,
            "receipts": self.receipts,
            "back_to": self.back_to,
        }
        if self.fork is not None:
            others |= {"basis": self.basis, "remove": self.remove, "merge": self.merge}
        else:
            others["thread"] = self.thread
        if found := [name for name, part in others.items() if part]:
            kind = "a fork" if self.fork is not None else "a merge"
            raise ValueError(f"{kind} can't be committed together with {', '.join(found)}: make two commits")


class Applied(Struct, frozen=True, kw_only=True):
    """The outcome of an applied commit. `basis` is the thread's new one (`None` if it was deleted).

    `parent_id`, `sequence` and the times are the new checkpoint's (`CheckpointRecord`). `repeated`: the
    commit had been applied before.
    """

    basis: Basis | None
    parent_id: str | None = None
    sequence: int = 0
    created_at: datetime | None = None
    saved_at: datetime | None = None
    removed: int = 0
    repeated: bool = False
