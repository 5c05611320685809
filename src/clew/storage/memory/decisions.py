"""What a commit may do to a thread, decided before anything is changed: each raises the error that forbids it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from clew.errors import ConflictError, PermissionDeniedError, ThreadDeletedError
from clew.model.commit import HEAD, Commit, Removal
from clew.model.config import ANY_USER, User
from clew.model.records import Range, ValueRow
from clew.storage.memory.thread import Thread
from clew.storage.protocol import StaleBasisError


def adds(commit: Commit) -> bool:
    """Whether `commit` puts anything in, and so creates its thread."""
    parts = (commit.fork, commit.values, commit.merge, commit.checkpoint, commit.attachments, commit.messages)
    return any(parts) or commit.thread is not None


def check_owner(thread: Thread, user: User) -> None:
    if not thread.open_to(user):
        message = f"thread {thread.thread_id!r} belongs to another user than {user!r}"
        raise PermissionDeniedError(message, thread_id=thread.thread_id, user=user)


def check_new_owner(thread: Thread, commit: Commit) -> None:
    if commit.thread and commit.thread.user_id != thread.owner and commit.user is not ANY_USER:
        message = f"thread {thread.thread_id!r}: only ANY_USER may change its owner"
        raise PermissionDeniedError(message, thread_id=thread.thread_id, user=commit.user)


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


def parent_of_new(thread: Thread, commit: Commit) -> str | None:
    """The parent that the commit's checkpoint gets. A replaced one keeps its own, and meets no conflict."""
    new = commit.checkpoint
    if new is None:
        return None
    removal = commit.remove or Removal()
    lineage = {} if removal.state else thread.namespaces.get(new.namespace, {})
    gone = {key for namespace, key in removal.checkpoints if namespace == new.namespace}
    if new.checkpoint_id in lineage and new.checkpoint_id not in gone:
        return lineage[new.checkpoint_id].parent_id
    head = next((key for key in reversed(lineage) if key not in gone), None)
    if new.parent is HEAD:
        return head
    if new.parent != head and new.on_conflict == "reject":
        message = f"thread {thread.thread_id!r}: the head is {head!r}, not {new.parent!r}; load it and decide again"
        raise ConflictError(message, thread_id=thread.thread_id, expected=new.parent, actual=head)
    if new.parent is not None and commit.basis is None and (new.parent not in lineage or new.parent in gone):
        message = f"thread {thread.thread_id!r}: checkpoint {new.parent!r} is not there (any more); load the head"
        raise ConflictError(message, thread_id=thread.thread_id, expected=new.parent, actual=head)
    return new.parent


def rows_after_removal(thread: Thread, removal: Removal) -> list[ValueRow]:
    """The thread's rows without those that `removal` drops (the list itself, if it names no values)."""
    if removal.state:
        return []
    if not removal.values:
        return thread.rows
    for row in thread.rows:
        if _inside(row, removal.values):
            _check_free(thread, row)
    return [row for row in thread.rows if not _inside(row, removal.values)]


def rows_after_merge(thread: Thread, rows: list[ValueRow], merge: Sequence[ValueRow]) -> list[ValueRow]:
    """`rows` with each of `merge` in the place of those that it covers exactly."""
    for row in merge:
        _check_free(thread, row)
        old = overlapping(rows, [(row.first, row.end)])
        borders = [each.first for each in old] + [row.end]
        if not old or borders[0] != row.first or [each.end for each in old] != borders[1:]:
            message = f"thread {thread.thread_id!r}: no rows make up exactly the values {row.first} to {row.end}"
            raise StaleBasisError(message, thread_id=thread.thread_id, first=row.first, end=row.end)
        start = rows.index(old[0])
        rows = [*rows[:start], row, *rows[start + len(old) :]]
    return rows


def overlapping(rows: list[ValueRow], ranges: Iterable[Range]) -> list[ValueRow]:
    """Those of `rows`, which are in order, that hold any value of `ranges`: each once, in order."""
    found = {}
    for first, end in ranges:
        position = bisect_right(rows, first, key=lambda row: row.end)
        while first < end and position < len(rows) and rows[position].first < end:
            found[position] = rows[position]
            position += 1
    return [found[position] for position in sorted(found)]


def _inside(row: ValueRow, ranges: Iterable[Range]) -> bool:
    return any(first <= row.first and row.end <= end for first, end in ranges)


def _check_free(thread: Thread, row: ValueRow) -> None:
    fixed = thread.log.fixed_before
    if row.first < fixed:
        message = f"thread {thread.thread_id!r}: value {row.first} is shared with a fork and has to stay as it is"
        raise ConflictError(message, thread_id=thread.thread_id, fixed_before=fixed)
