"""What operations tell about a store and about what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from clew.model.plain import Plain
from clew.model.queries import Totals

Progress = Callable[[int, int], None]
"""Called as `progress(done, total)` while a long operation goes on; `done == total` at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats(Plain):
    """What the writer's memory holds in this process: bounded by `max_bytes`, the least recently used threads go first."""

    threads: int
    bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Plain):
    """What a store holds, for one user or for all. `stored_bytes` is what the whole store takes on its medium."""

    total_sessions: int
    total_checkpoints: int
    total_messages: int
    total_tool_calls: int
    total_bytes: int
    stored_bytes: int
    checkpoints_per_session: Mapping[str, int]
    by_thread: Mapping[str, Totals]
    by_day: Mapping[str, Totals]
    index: IndexStats

    _nested: ClassVar[Mapping[str, type[Plain]]] = {"by_thread": Totals, "by_day": Totals, "index": IndexStats}
    _mappings: ClassVar[frozenset[str]] = frozenset({"by_thread", "by_day"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport(Plain):
    """What a cleanup removed, or would remove (`dry_run`), of how many threads.

    `values` are parts of states that nothing refers to any more. `bytes` is by how much the threads got smaller, as
    `ThreadInfo.size` counts it: that of the checkpoints, their attachments and the values. `over_limit` is how many threads
    still take more than their `max_bytes`: by their heads, milestones and messages, or by what their forks share.
    """

    threads: int = 0
    checkpoints: int = 0
    attachments: int = 0
    values: int = 0
    bytes: int = 0
    checkpoint_bytes: int = 0
    attachment_bytes: int = 0
    value_bytes: int = 0
    over_limit: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResealReport(Plain):
    """What was sealed anew: how many threads there are, and of how many the records.

    `left` are threads that still hold records which are not sealed with the current key: those that a fork shares, damaged
    ones, and what others wrote meanwhile. If there are none, the other keys are not needed any more.
    """

    threads: int
    resealed: int
    left: tuple[str, ...] = ()

    _tuples: ClassVar[frozenset[str]] = frozenset({"left"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport(Plain):
    """What a compaction did: rows of values before and after, and the bytes that the threads took."""

    threads: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncReport(Plain):
    """What a comparison of two stores found: the threads that differed and were made the same, and those that only the store
    has that does not serve (`extra`); `removed` says how many of these were deleted."""

    threads: int = 0
    repaired: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    removed: int = 0

    _tuples: ClassVar[frozenset[str]] = frozenset({"repaired", "extra"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage(Plain):
    """One damaged record: which checkpoint or message of which thread, and what is wrong with it."""

    thread_id: str
    problem: str
    checkpoint_id: str | None = None
    namespace: str = ""
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport(Plain):
    """What a verification read, and every damaged record that it found."""

    threads: int = 0
    checkpoints: int = 0
    messages: int = 0
    damage: tuple[Damage, ...] = field(default_factory=tuple)

    _nested: ClassVar[Mapping[str, type[Plain]]] = {"damage": Damage}
    _tuples: ClassVar[frozenset[str]] = frozenset({"damage"})

    @property
    def ok(self) -> bool:
        return not self.damage
