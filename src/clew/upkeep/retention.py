"""Retention: which checkpoints a policy removes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Protocol, TypeVar

from msgspec import Struct

from clew.model.records import Range, ThreadRecord
from clew.model.retention import RetentionPolicy
from clew.upkeep.compaction import RowSize, freed


class Dated(Protocol):
    """The fields that rules of age and history use."""

    @property
    def namespace(self) -> str: ...
    @property
    def checkpoint_id(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def saved_at(self) -> datetime: ...


D = TypeVar("D", bound=Dated)


class Held(Struct, frozen=True, kw_only=True):
    """A checkpoint without its state: its size, and the values that it needs (`None` if it is damaged)."""

    namespace: str
    checkpoint_id: str
    sequence: int
    saved_at: datetime
    size: int
    needs: tuple[Range, ...] | None
    damaged: bool = False
    """Whether its fields can't be trusted. Such a checkpoint stays."""


def may_touch(record: ThreadRecord, policy: RetentionPolicy, now: datetime) -> bool:
    """Return whether `policy` may remove anything from the thread, judged by its record alone.

    Most threads are not read further. The first checkpoint of a fork may be older than its thread;
    it is found when the thread is old too.
    """
    if record.checkpoint_count < 2:
        return False
    if policy.max_history is not None and record.checkpoint_count > policy.max_history:
        return True
    if policy.max_bytes is not None and record.size > policy.max_bytes:
        return True
    return policy.max_age is not None and now - record.created_at > policy.max_age


def is_idle(record: ThreadRecord, ttl: timedelta, now: datetime) -> bool:
    """Return whether nothing was written to the thread for longer than `ttl`. A damaged time tells nothing."""
    return not record.damage and now - record.updated_at > ttl


def due(checkpoints: Iterable[D], policy: RetentionPolicy, now: datetime) -> list[D]:
    """The checkpoints of a thread that are too old or too many at `now`; never a head or a milestone."""
    return [checkpoint for age, checkpoint in _may_go(checkpoints, policy) if _is_old(checkpoint, age, policy, now)]


def due_by_size(
    held: Sequence[Held],
    policy: RetentionPolicy,
    *,
    gone: Collection[Held],
    keep: Collection[tuple[str, str]],
    size: int,
    rows: Sequence[RowSize],
    fixed_before: int,
) -> list[Held]:
    """The oldest of `held` that must be removed besides `gone` to bring a thread of `size` bytes
    within `max_bytes`.

    As few as possible, counting their bytes and those of the values that only they need. If removing all of
    the removable ones is not enough, all of them. The order is by sequence, across namespaces. Values that
    can't be removed don't count: those that a fork shares (`shared`), and all values while a damaged
    checkpoint stays, which may need any of them. Otherwise a history would be removed without freeing
    anything.
    """
    if policy.max_bytes is None:
        return []
    out = {(each.namespace, each.checkpoint_id) for each in gone} | set(keep)
    candidates = sorted(
        (each for _, each in _may_go(held, policy) if (each.namespace, each.checkpoint_id) not in out),
        key=lambda each: each.sequence,
    )

    def needs_without(count: int) -> list[Range] | None:
        going = {(each.namespace, each.checkpoint_id) for each in chain(gone, candidates[:count])}
        return needed(each for each in held if (each.namespace, each.checkpoint_id) not in going)

    every = needs_without(len(candidates)) is None
    room = policy.max_bytes + (sum(row.size for row in rows) if every else shared(rows, fixed_before))

    def fits(count: int) -> bool:
        less = sum(each.size for each in chain(gone, candidates[:count]))
        needs = needs_without(count)
        return size - less - (0 if needs is None else freed(rows, needs, fixed_before)) <= room

    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return candidates[:low]


def shared(rows: Iterable[RowSize], fixed_before: int) -> int:
    """The bytes of `rows` that can't be freed, because forks share them."""
    return sum(row.size for row in rows if row.first < fixed_before)


def needed(held: Iterable[Held]) -> list[Range] | None:
    """The values that the checkpoints need; `None` if one of them is damaged."""
    ranges: list[Range] = []
    for each in held:
        if each.needs is None:
            return None
        ranges += each.needs
    return ranges


def _may_go(checkpoints: Iterable[D], policy: RetentionPolicy) -> Iterable[tuple[int, D]]:
    """Yield each checkpoint that is neither a head nor a milestone, and how many newer ones its
    namespace has."""
    by_namespace: dict[str, list[D]] = defaultdict(list)
    for checkpoint in checkpoints:
        by_namespace[checkpoint.namespace].append(checkpoint)
    for lineage in by_namespace.values():
        lineage.sort(key=lambda each: -each.sequence)
        older: Iterable[D | None] = chain(lineage[1:], [None])
        for age, (checkpoint, next_older) in enumerate(zip(lineage, older, strict=True)):
            if age > 0 and not _is_milestone(checkpoint, next_older, policy):
                yield age, checkpoint


def _is_milestone(checkpoint: Dated, next_older: Dated | None, policy: RetentionPolicy) -> bool:
    """Return whether it is the first of its namespace at or after a multiple of `keep_every`, by sequence number.

    Sequence numbers count all commits of the thread, so a namespace may have no checkpoint at the multiple
    itself. The first one after it never changes: new checkpoints come later, and cleanups keep it. A count
    within the namespace would change, because removed checkpoints are not counted any more.
    """
    if policy.keep_every is None:
        return False
    stretch = checkpoint.sequence // policy.keep_every
    return stretch > (next_older.sequence // policy.keep_every if next_older is not None else 0)


def _is_old(checkpoint: Dated, age: int, policy: RetentionPolicy, now: datetime) -> bool:
    if policy.max_history is not None and age >= policy.max_history:
        return True
    return policy.max_age is not None and now - checkpoint.saved_at > policy.max_age
