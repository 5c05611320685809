"""What a commit may do to a thread, decided before anything is changed: each raises the error that forbids it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from clew.model.commit import HEAD, Commit, Removal
from clew.model.records import Range, ValueRow
from clew.storage.checks import check_unshared, head_moved, parent_gone, rows_differ
from clew.storage.memory.thread import Thread


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
        raise head_moved(commit, head)
    if new.parent is not None and commit.basis is None and (new.parent not in lineage or new.parent in gone):
        raise parent_gone(commit, head)
    return new.parent


def rows_after_removal(thread: Thread, removal: Removal) -> list[ValueRow]:
    """The thread's rows without those that `removal` drops (the list itself, if it names no values)."""
    if removal.state:
        return []
    if not removal.values:
        return thread.rows
    for first, _ in removal.values:
        check_unshared(thread.thread_id, first, thread.log.fixed_before)
    return [row for row in thread.rows if not _inside(row, removal.values)]


def rows_after_merge(thread: Thread, rows: list[ValueRow], merge: Sequence[ValueRow]) -> list[ValueRow]:
    """`rows` with each of `merge` in the place of those that it covers exactly."""
    for row in merge:
        check_unshared(thread.thread_id, row.first, thread.log.fixed_before)
        old = overlapping(rows, [(row.first, row.end)])
        borders = [each.first for each in old] + [row.end]
        if not old or borders[0] != row.first or [each.end for each in old] != borders[1:]:
            raise rows_differ(thread.thread_id, row)
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
