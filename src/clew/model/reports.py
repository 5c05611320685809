"""What operations tell about a store and about what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from clew.errors import ConfigError
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
class RetentionPolicy:
    """Which checkpoints may go. A head is always kept; so is, with `keep_every`, every n-th one of a namespace by its sequence.

    `max_age`: those older than this. `max_history`: all but the newest so many of each namespace.
    A checkpoint goes if either rule lets it go. Messages and threads stay.
    """

    max_age: timedelta | None = None
    max_history: int | None = None
    keep_every: int | None = None

    def __post_init__(self) -> None:
        for name, kind in (("max_age", timedelta), ("max_history", int), ("keep_every", int)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
                raise ConfigError(f"{name} must be a {kind.__name__}, not {type(value).__name__}: {value!r:.60}")
        if self.max_age is None and self.max_history is None:
            raise ConfigError("a RetentionPolicy needs max_age or max_history; without them it would keep everything")
        if self.max_history is not None and self.max_history < 1:
            raise ConfigError("max_history must be at least 1: the head is always kept")
        if self.keep_every is not None and self.keep_every < 1:
            raise ConfigError("keep_every must be at least 1")
        if self.max_age is not None and self.max_age < timedelta(0):
            raise ConfigError("max_age can't be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport(Plain):
    """What a cleanup removed, or would remove (`dry_run`)."""

    threads: int
    checkpoints: int
    bytes: int
    dry_run: bool


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
