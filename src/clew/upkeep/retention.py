"""Which checkpoints a retention policy lets go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Protocol, TypeVar

from msgspec import Struct

from clew.model.records import Range, ThreadRecord
from clew.model.retention import RetentionPolicy
from clew.upkeep.compaction import RowSize, freed


class Dated(Protocol):
    """What the rules of age and history go by."""

    @property
    def namespace(self) -> str: ...
    @property
    def checkpoint_id(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def created_at(self) -> datetime: ...


D = TypeVar("D", bound=Dated)


class Held(Struct, frozen=True, kw_only=True):
    """A checkpoint without its state: what it takes, and the values that it needs (`None`: it is damaged, so who knows)."""

    namespace: str
    checkpoint_id: str
    sequence: int
    created_at: datetime
    size: int
    needs: tuple[Range, ...] | None


def may_touch(record: ThreadRecord, policy: RetentionPolicy, now: datetime) -> bool:
    """Whether `policy` may let anything of the thread go, by what its own record tells: most threads are not read further.

    A fork's first checkpoint may be older than its thread; it is found once the thread is old, too.
    """
    if record.checkpoint_count < 2:
        return False
    if policy.max_history is not None and record.checkpoint_count > policy.max_history:
        return True
    if policy.max_bytes is not None and record.size > policy.max_bytes:
        return True
    return policy.max_age is not None and now - record.created_at > policy.max_age


def due(checkpoints: Iterable[D], policy: RetentionPolicy, now: datetime) -> list[D]:
    """Those of a thread's `checkpoints` that are too old or too many at `now`: never a head, never a kept milestone."""
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
    """The oldest of `held` that have to go besides `gone`, so that a thread of `size` bytes is within `max_bytes`.

    As few as will do by what their bytes and those of the values that only they need come to; all that may go, if that is not
    enough. Oldest is by sequence, in all namespaces together. Values that stay whatever goes don't count, or a history would go
    and free nothing: those that a fork shares (`shared`), and all of them if a damaged checkpoint stays that may need any.
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
    """The bytes of those of `rows` that stay whatever the thread lets go."""
    return sum(row.size for row in rows if row.first < fixed_before)


def needed(held: Iterable[Held]) -> list[Range] | None:
    """The values that any of `held` needs; `None` if one can't tell."""
    ranges: list[Range] = []
    for each in held:
        if each.needs is None:
            return None
        ranges += each.needs
    return ranges


def _may_go(checkpoints: Iterable[D], policy: RetentionPolicy) -> Iterable[tuple[int, D]]:
    """Each checkpoint that is neither a head nor a milestone, with how many newer ones its namespace has."""
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
    """Whether it is the first of its namespace from a multiple of `keep_every` on, by sequence number.

    The numbers count all commits of the thread, so its namespace may have none at the multiple itself. Which one is the first
    never changes: new ones come after it, and a cleanup leaves it. How many came before it is not known once they are gone.
    """
    if policy.keep_every is None:
        return False
    stretch = checkpoint.sequence // policy.keep_every
    return stretch > (next_older.sequence // policy.keep_every if next_older is not None else 0)


def _is_old(checkpoint: Dated, age: int, policy: RetentionPolicy, now: datetime) -> bool:
    if policy.max_history is not None and age >= policy.max_history:
        return True
    return policy.max_age is not None and now - checkpoint.created_at > policy.max_age
