"""What every storage decides about a commit before it changes anything: each raises the error that forbids it.

A storage that decides elsewhere (in its server) makes the same errors from what was found there.
"""

from __future__ import annotations

from clew.errors import ConflictError, LeaseError, PermissionDeniedError, ThreadDeletedError
from clew.model.commit import Commit, ForkSource
from clew.model.config import ANY_USER, User
from clew.model.records import Basis, LeaseRecord, ValueRow
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
        raise not_the_owner(thread_id, user)


def check_new_owner(owner: str | None, commit: Commit) -> None:
    if commit.thread and commit.thread.user_id != owner and commit.user is not ANY_USER:
        raise owner_stays(commit)


def check_basis(now: Basis | None, commit: Commit) -> None:
    """That the thread (`None`: there is none) is still the one that the commit's references rely on."""
    basis, thread_id = commit.basis, commit.thread_id
    if basis is None or (now is None and commit.remove and commit.remove.thread):
        # A deletion that comes again, because its answer was lost, finds what it wants.
        return
    if now is None or now.incarnation != basis.incarnation:
        raise thread_gone(thread_id)
    if now.epoch != basis.epoch:
        raise epoch_moved(commit, now.epoch)


def check_after(commit: Commit, last: str | None) -> None:
    """That the thread's chain ends with the commit that this one comes after."""
    if commit.after is not None and commit.after.commit_id != last:
        raise chain_moved(commit, last)


def next_in_chain(commit: Commit) -> str | None:
    """What the thread's chain ends with once `commit` is applied."""
    return commit.commit_id if commit.journal is not None or commit.after is not None else None


def check_as_of(commit: Commit, sequence: int) -> None:
    """That the thread is still as it was when it was found out which values nobody needs."""
    as_of = commit.remove.as_of if commit.remove else None
    if as_of is not None and as_of != sequence:
        raise written_since(commit, sequence)


def check_first(commit: Commit, next_value: int) -> None:
    """That the new values are numbered on from `next_value`."""
    if commit.values and commit.values.first != next_value:
        raise values_moved(commit, next_value)


def check_fence(commit: Commit, last_token: int | None) -> None:
    """That the lease under which the commit was made is the last one that was given."""
    if commit.fence is not None and commit.fence != last_token:
        raise lease_moved(commit, last_token)


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


def not_the_owner(thread_id: str, user: User) -> PermissionDeniedError:
    message = f"thread {thread_id!r} belongs to another user than {user!r}"
    return PermissionDeniedError(message, thread_id=thread_id, user=user)


def owner_stays(commit: Commit) -> PermissionDeniedError:
    message = f"thread {commit.thread_id!r}: only ANY_USER may change its owner"
    return PermissionDeniedError(message, thread_id=commit.thread_id, user=commit.user)


def thread_gone(thread_id: str) -> ThreadDeletedError:
    return ThreadDeletedError(f"thread {thread_id!r} was deleted after it was read", thread_id=thread_id)


def epoch_moved(commit: Commit, epoch: int) -> StaleBasisError:
    message = f"thread {commit.thread_id!r}: values were taken out of it; read it again"
    expected = commit.basis.epoch if commit.basis else None
    return StaleBasisError(message, thread_id=commit.thread_id, expected=expected, actual=epoch)


def chain_moved(commit: Commit, last: str | None) -> StaleBasisError:
    expected = commit.after.commit_id if commit.after else None
    message = f"thread {commit.thread_id!r}: its last commit is {last!r}, not {expected!r}; the two stores differ"
    return StaleBasisError(message, thread_id=commit.thread_id, expected=expected, actual=last)


def written_since(commit: Commit, sequence: int) -> StaleBasisError:
    message = f"thread {commit.thread_id!r} was written to since; find out again what is not needed"
    expected = commit.remove.as_of if commit.remove else None
    return StaleBasisError(message, thread_id=commit.thread_id, expected=expected, actual=sequence)


def values_moved(commit: Commit, next_value: int) -> StaleBasisError:
    message = f"thread {commit.thread_id!r}: its next value is number {next_value}; read it again"
    expected = commit.values.first if commit.values else None
    return StaleBasisError(message, thread_id=commit.thread_id, expected=expected, actual=next_value)


def lease_moved(commit: Commit, last_token: int | None) -> LeaseError:
    message = f"thread {commit.thread_id!r}: the lease with token {commit.fence} is not the last one; take it again"
    return LeaseError(message, thread_id=commit.thread_id, fence=commit.fence, last=last_token)


def rows_differ(thread_id: str, row: ValueRow) -> StaleBasisError:
    """The error for a merged row that doesn't take the place of whole rows."""
    message = f"thread {thread_id!r}: no rows make up exactly the values {row.first} to {row.end}"
    return StaleBasisError(message, thread_id=thread_id, first=row.first, end=row.end)


def fork_exists(thread_id: str) -> ConflictError:
    return ConflictError(f"thread {thread_id!r} exists: fork into a new one", thread_id=thread_id)


def source_missing(fork: ForkSource) -> ConflictError:
    return ConflictError(f"thread {fork.thread_id!r}, to fork from, does not exist", thread_id=fork.thread_id)


def origin_missing(fork: ForkSource, checkpoint_id: str | None) -> ConflictError:
    which = "" if checkpoint_id is None else f" {checkpoint_id!r}"
    message = f"thread {fork.thread_id!r}, to fork from, has no checkpoint{which} in namespace {fork.namespace!r}"
    return ConflictError(message, thread_id=fork.thread_id, checkpoint_id=checkpoint_id)


def lease_held(record: LeaseRecord, *, advice: str) -> LeaseError:
    """The error for whoever waited in vain for a thread's turn."""
    return LeaseError(
        f"thread {record.thread_id!r} is held by {record.holder} since {record.since:%H:%M:%S} "
        f"until {record.expires_at:%H:%M:%S} UTC unless renewed; try later, or {advice}",
        thread_id=record.thread_id,
        holder=record.holder,
        since=record.since,
        expires_at=record.expires_at,
    )
