"""Errors of refused commits. Each says what the check found, and what to do."""

from __future__ import annotations

from clew.errors import ClewError, ConflictError, LeaseError, PermissionDeniedError, ThreadDeletedError
from clew.model.commit import Commit
from clew.model.config import User
from clew.storage.protocol import StaleBasisError


def not_the_owner(thread_id: str, user: User) -> PermissionDeniedError:
    if user is None:
        message = f"thread {thread_id!r} has an owner; pass user_id in the config"
    else:
        message = f"thread {thread_id!r} belongs to another user than {user!r}"
    return PermissionDeniedError(message, thread_id=thread_id, user=user)


def thread_gone(commit: Commit, _named: str | None, _number: int | None) -> ClewError:
    thread_id = commit.thread_id
    return ThreadDeletedError(f"thread {thread_id!r} was deleted after it was read", thread_id=thread_id)


def epoch_moved(commit: Commit, _named: str | None, epoch: int | None) -> ClewError:
    expected = commit.basis.epoch if commit.basis else None
    return _stale(commit, "values were removed since it was read; read it again", expected, epoch)


def chain_moved(commit: Commit, last: str | None, _number: int | None) -> ClewError:
    expected = commit.after.commit_id if commit.after else None
    return _stale(commit, f"its last commit is {last!r}, not {expected!r}", expected, last)


def written_since(commit: Commit, _named: str | None, sequence: int | None) -> ClewError:
    expected = commit.remove.as_of if commit.remove else None
    return _stale(commit, "it was written to meanwhile; check again what is not needed", expected, sequence)


def values_moved(commit: Commit, _named: str | None, next_value: int | None) -> ClewError:
    expected = commit.values.first if commit.values else None
    return _stale(commit, f"its next value is number {next_value}; read it again", expected, next_value)


def _stale(commit: Commit, what: str, expected: str | int | None, actual: str | int | None) -> StaleBasisError:
    message = f"thread {commit.thread_id!r}: {what}"
    return StaleBasisError(message, thread_id=commit.thread_id, expected=expected, actual=actual)


def lease_moved(commit: Commit, _named: str | None, last_token: int | None) -> ClewError:
    message = f"thread {commit.thread_id!r}: the lease with token {commit.fence} is not the last one; take it again"
    return LeaseError(message, thread_id=commit.thread_id, fence=commit.fence, last=last_token)


def fork_exists(commit: Commit, _named: str | None, _number: int | None) -> ClewError:
    return ConflictError(f"thread {commit.thread_id!r} exists already: fork into a new one", thread_id=commit.thread_id)


def source_missing(commit: Commit, _named: str | None, _number: int | None) -> ClewError:
    source = commit.fork.thread_id if commit.fork else None
    return ConflictError(f"can't fork thread {source!r}: it does not exist", thread_id=source)


def origin_missing(commit: Commit, _named: str | None, _number: int | None) -> ClewError:
    fork = commit.fork
    assert fork is not None
    which = "" if fork.checkpoint_id is None else f" {fork.checkpoint_id!r}"
    message = f"can't fork thread {fork.thread_id!r}: it has no checkpoint{which} in namespace {fork.namespace!r}"
    return ConflictError(message, thread_id=fork.thread_id, checkpoint_id=fork.checkpoint_id)


def values_shared(commit: Commit, _named: str | None, fixed_before: int | None) -> ClewError:
    message = f"thread {commit.thread_id!r}: a fork shares the values before number {fixed_before}; keep them"
    return ConflictError(message, thread_id=commit.thread_id, fixed_before=fixed_before)


def rows_differ(commit: Commit, _named: str | None, place: int | None) -> ClewError:
    row = commit.merge[(place or 1) - 1]
    message = f"thread {commit.thread_id!r}: no rows hold exactly the values {row.first} to {row.end}; read it again"
    return StaleBasisError(message, thread_id=commit.thread_id, first=row.first, end=row.end)


def head_moved(commit: Commit, head: str | None, _number: int | None) -> ClewError:
    return _wrong_parent(commit, head, f"the head is {head!r}, not {{!r}}; load it and decide again")


def parent_gone(commit: Commit, head: str | None, _number: int | None) -> ClewError:
    return _wrong_parent(commit, head, "checkpoint {!r} does not exist (any more); load the head")


def _wrong_parent(commit: Commit, head: str | None, what: str) -> ConflictError:
    expected = commit.checkpoint.parent if commit.checkpoint else None
    message = f"thread {commit.thread_id!r}: {what.format(expected)}"
    return ConflictError(message, thread_id=commit.thread_id, expected=expected, actual=head)


def owner_stays(commit: Commit, _named: str | None, _number: int | None) -> ClewError:
    message = f"thread {commit.thread_id!r}: only ANY_USER may change its owner"
    return PermissionDeniedError(message, thread_id=commit.thread_id, user=commit.user)
