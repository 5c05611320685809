"""A thread's row as the writer knows it, and what a commit may do to it: decided before anything is written."""

from __future__ import annotations

from clew.errors import ConflictError, PermissionDeniedError, ThreadDeletedError
from clew.model.commit import Commit
from clew.model.config import ANY_USER, User
from clew.model.records import Basis
from clew.storage.protocol import StaleBasisError

POSITION_BITS = 32
ThreadRow = tuple[int, str | None, int, str, int, int, int, int, int, int, int, int, int, int]
"""What the statement `thread` gives, in its order."""


class Thread:
    """The row of one thread, changed in memory and written at the end of the transaction.

    `heads` has the newest checkpoint's id of each namespace that was looked at; `has_receipts` says that the
    receipts table may have some of this thread.
    """

    __slots__ = (
        "checkpoint_count",
        "epoch",
        "has_receipts",
        "heads",
        "incarnation",
        "indexed_messages",
        "log_no",
        "message_count",
        "next_message",
        "next_value",
        "sequence",
        "size",
        "thread_id",
        "thread_no",
        "updated_at",
        "user_id",
    )

    def __init__(self, thread_id: str, row: ThreadRow) -> None:
        self.thread_id = thread_id
        (
            self.thread_no,
            self.user_id,
            self.log_no,
            self.incarnation,
            self.epoch,
            self.next_value,
            self.sequence,
            self.next_message,
            self.message_count,
            self.indexed_messages,
            self.checkpoint_count,
            self.size,
            self.updated_at,
            self.has_receipts,
        ) = row
        self.heads: dict[str, str | None] = {}

    def changes(self) -> tuple[str | int | None, ...]:
        """The parameters of `change_thread`."""
        return (
            self.user_id,
            self.log_no,
            self.epoch,
            self.next_value,
            self.sequence,
            self.next_message,
            self.message_count,
            self.indexed_messages,
            self.checkpoint_count,
            self.size,
            self.updated_at,
            self.thread_no,
        )

    @property
    def basis(self) -> Basis:
        return Basis(incarnation=self.incarnation, epoch=self.epoch, next_value=self.next_value)

    @property
    def first_message_no(self) -> int:
        """The number of the message at position 0."""
        return self.thread_no << POSITION_BITS

    def open_to(self, user: User) -> bool:
        return self.user_id is None or user is ANY_USER or self.user_id == user


def adds(commit: Commit) -> bool:
    """Whether `commit` puts anything in, and so creates its thread."""
    parts = (commit.fork, commit.values, commit.merge, commit.checkpoint, commit.attachments, commit.messages)
    return any(parts) or commit.thread is not None


def made_checkpoint(commit: Commit) -> tuple[str, str] | None:
    """Namespace and id of the checkpoint that `commit` makes."""
    if commit.checkpoint:
        return commit.checkpoint.namespace, commit.checkpoint.checkpoint_id
    return (commit.fork.namespace, commit.fork.as_checkpoint_id) if commit.fork else None


def other_id(commit_id: str, checkpoint_id: str) -> str | None:
    """What a checkpoint's row keeps of its commit's id: nothing, if it is the checkpoint's own."""
    return None if commit_id == checkpoint_id else commit_id


def check_owner(thread: Thread, user: User) -> None:
    if not thread.open_to(user):
        message = f"thread {thread.thread_id!r} belongs to another user than {user!r}"
        raise PermissionDeniedError(message, thread_id=thread.thread_id, user=user)


def check_new_owner(owner: str | None, commit: Commit) -> None:
    if commit.thread and commit.thread.user_id != owner and commit.user is not ANY_USER:
        message = f"thread {commit.thread_id!r}: only ANY_USER may change its owner"
        raise PermissionDeniedError(message, thread_id=commit.thread_id, user=commit.user)


def check_basis(thread: Thread | None, commit: Commit) -> None:
    basis, thread_id = commit.basis, commit.thread_id
    if basis is None:
        return
    if thread is None or thread.incarnation != basis.incarnation:
        raise ThreadDeletedError(f"thread {thread_id!r} was deleted after it was read", thread_id=thread_id)
    if thread.epoch != basis.epoch:
        message = f"thread {thread_id!r}: values were taken out of it; read it again"
        raise StaleBasisError(message, thread_id=thread_id, expected=basis.epoch, actual=thread.epoch)


def check_first(commit: Commit, next_value: int) -> None:
    """That the new values are numbered on from `next_value`."""
    if commit.values and commit.values.first != next_value:
        message = f"thread {commit.thread_id!r}: its next value is number {next_value}; read it again"
        raise StaleBasisError(message, thread_id=commit.thread_id, expected=commit.values.first, actual=next_value)


def check_parent(commit: Commit, expected: str | None, head: str | None) -> None:
    """That the head is the one that the new checkpoint was made from, or that this does not matter."""
    if commit.checkpoint and commit.checkpoint.on_conflict == "reject" and expected != head:
        message = f"thread {commit.thread_id!r}: the head is {head!r}, not {expected!r}; load it and decide again"
        raise ConflictError(message, thread_id=commit.thread_id, expected=expected, actual=head)


def check_unshared(thread: Thread, first: int, shared_before: int) -> None:
    """That value `first` is this thread's alone."""
    if first < shared_before:
        message = f"thread {thread.thread_id!r}: value {first} is shared with a fork and has to stay as it is"
        raise ConflictError(message, thread_id=thread.thread_id, fixed_before=shared_before)
