"""What every storage decides about a commit before it changes anything: each raises the error that forbids it."""

from __future__ import annotations

from clew.errors import ConflictError, LeaseError, PermissionDeniedError, ThreadDeletedError
from clew.model.commit import Commit
from clew.model.config import ANY_USER, User
from clew.model.records import Basis, LeaseRecord
from clew.storage.protocol import StaleBasisError


def adds(commit: Commit) -> bool:
    """Whether `commit` puts anything in, and so creates its thread."""
    parts = (commit.fork, commit.values, commit.merge, commit.checkpoint, commit.attachments, commit.messages)
    return any(parts) or commit.thread is not None


def made_checkpoint(commit: Commit) -> tuple[str, str] | None:
    """Namespace and id of the checkpoint that `commit` makes."""
    if commit.checkpoint:
        return commit.checkpoint.namespace, commit.checkpoint.checkpoint_id
    return (commit.fork.namespace, commit.fork.as_checkpoint_id) if commit.fork else None


def is_open_to(owner: str | None, user: User) -> bool:
    """Whether `user` may see and change what `owner` owns."""
    return owner is None or user is ANY_USER or owner == user


def owner_of_new(commit: Commit, source_owner: str | None = None) -> str | None:
    """Who owns the thread that `commit` creates: its user, or whoever owns what `ANY_USER` forks."""
    return source_owner if commit.user is ANY_USER else commit.user


def check_owner(thread_id: str, owner: str | None, user: User) -> None:
    if not is_open_to(owner, user):
        message = f"thread {thread_id!r} belongs to another user than {user!r}"
        raise PermissionDeniedError(message, thread_id=thread_id, user=user)


def check_new_owner(owner: str | None, commit: Commit) -> None:
    if commit.thread and commit.thread.user_id != owner and commit.user is not ANY_USER:
        message = f"thread {commit.thread_id!r}: only ANY_USER may change its owner"
        raise PermissionDeniedError(message, thread_id=commit.thread_id, user=commit.user)


def check_basis(now: Basis | None, commit: Commit) -> None:
    """That the thread (`None`: there is none) is still the one that the commit's references rely on."""
    basis, thread_id = commit.basis, commit.thread_id
    if basis is None or (now is None and commit.remove and commit.remove.thread):
        # A deletion that comes again, because its answer was lost, finds what it wants.
        return
    if now is None or now.incarnation != basis.incarnation:
        raise ThreadDeletedError(f"thread {thread_id!r} was deleted after it was read", thread_id=thread_id)
    if now.epoch != basis.epoch:
        message = f"thread {thread_id!r}: values were taken out of it; read it again"
        raise StaleBasisError(message, thread_id=thread_id, expected=basis.epoch, actual=now.epoch)


def check_as_of(commit: Commit, sequence: int) -> None:
    """That the thread is still as it was when it was found out which values nobody needs."""
    as_of = commit.remove.as_of if commit.remove else None
    if as_of is not None and as_of != sequence:
        message = f"thread {commit.thread_id!r} was written to since; find out again what is not needed"
        raise StaleBasisError(message, thread_id=commit.thread_id, expected=as_of, actual=sequence)


def check_first(commit: Commit, next_value: int) -> None:
    """That the new values are numbered on from `next_value`."""
    if commit.values and commit.values.first != next_value:
        message = f"thread {commit.thread_id!r}: its next value is number {next_value}; read it again"
        raise StaleBasisError(message, thread_id=commit.thread_id, expected=commit.values.first, actual=next_value)


def check_fence(commit: Commit, last_token: int | None) -> None:
    """That the lease under which the commit was made is the last one that was given."""
    if commit.fence is not None and commit.fence != last_token:
        message = f"thread {commit.thread_id!r}: the lease with token {commit.fence} is not the last one; take it again"
        raise LeaseError(message, thread_id=commit.thread_id, fence=commit.fence, last=last_token)


def check_unshared(thread_id: str, first: int, fixed_before: int) -> None:
    """That value `first` is this thread's alone."""
    if first < fixed_before:
        message = f"thread {thread_id!r}: value {first} is shared with a fork and has to stay as it is"
        raise ConflictError(message, thread_id=thread_id, fixed_before=fixed_before)


def head_moved(commit: Commit, head: str | None) -> ConflictError:
    """The error for a checkpoint that was not made from the head, and may only be."""
    expected = commit.checkpoint.parent if commit.checkpoint else None
    message = f"thread {commit.thread_id!r}: the head is {head!r}, not {expected!r}; load it and decide again"
    return ConflictError(message, thread_id=commit.thread_id, expected=expected, actual=head)


def parent_gone(commit: Commit, head: str | None) -> ConflictError:
    """The error for a checkpoint whose parent is not there, of a writer that does not know the thread."""
    expected = commit.checkpoint.parent if commit.checkpoint else None
    message = f"thread {commit.thread_id!r}: checkpoint {expected!r} is not there (any more); load the head"
    return ConflictError(message, thread_id=commit.thread_id, expected=expected, actual=head)


def lease_held(record: LeaseRecord, *, advice: str) -> LeaseError:
    """The error for whoever waited in vain for a thread's turn."""
    return LeaseError(
        f"thread {record.thread_id!r} is held by {record.holder} since {record.since:%H:%M:%S} "
        f"until {record.expires_at:%H:%M:%S} UTC unless renewed; try later, or {advice}",
        thread_id=record.thread_id,
        holder=record.holder,
        since=record.since,
    )
