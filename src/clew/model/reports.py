"""Reports of operations: statistics, and the results of cleanup, verification and the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from clew.model.dict_record import DictRecord
from clew.model.queries import Totals

Progress = Callable[[int, int], None]
"""Called as `progress(done, total)` during a long operation; at its end, `done == total`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats(DictRecord):
    """The size of this process's thread indexes: an LRU cache bounded by `max_bytes`."""

    threads: int
    bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(DictRecord):
    """Totals of a store, for one user or for all. `stored_bytes` is the size of the whole store."""

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
    total_input_tokens: int = 0
    total_output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together, as the messages' `usage` counts them."""
        return self.total_input_tokens + self.total_output_tokens

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"by_thread": Totals, "by_day": Totals, "index": IndexStats}
    _mappings: ClassVar[frozenset[str]] = frozenset({"by_thread", "by_day"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport(DictRecord):
    """The result of a cleanup: what it removed, or would remove (`dry_run`).

    `values` are parts of states that no checkpoint refers to. `bytes` is how much smaller the threads
    got, as `ThreadInfo.size` counts it: checkpoints, attachments and values. `over_limit` is the number of
    threads that still exceed their `max_bytes`, because of their heads, milestones and messages, or
    because of values that forks share. `threads` counts those from which something was removed, and
    `expired` those that were removed as a whole. `expiry_skipped`: the clock had jumped forward, so
    nothing was removed because of a time to live.
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
    expired: int = 0
    thread_bytes: int = 0
    messages: int = 0
    message_bytes: int = 0
    expiry_skipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResealReport(DictRecord):
    """The result of re-encryption: the number of threads, and of those re-encrypted.

    `left` are threads with records that are not encrypted with the current key: shared with a fork,
    damaged, or written meanwhile. If it is empty, the other keys are not needed any more.
    """

    threads: int
    resealed: int
    left: tuple[str, ...] = ()

    _tuples: ClassVar[frozenset[str]] = frozenset({"left"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport(DictRecord):
    """The result of a compaction: value rows and bytes of the threads, before and after."""

    threads: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage(DictRecord):
    """One damaged record: a checkpoint, message or attachment, and what is wrong with it.

    For an attachment, `attachment` is its key and `checkpoint_id` its checkpoint. Without any of these
    ids, the thread's own record is damaged.
    """

    thread_id: str
    problem: str
    checkpoint_id: str | None = None
    namespace: str = ""
    message_id: str | None = None
    attachment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncReport(DictRecord):
    """The result of comparing two stores.

    `repaired` are threads that differed and were copied again. `extra` are threads that only the store
    that does not serve has; `removed` is how many of them were deleted. `refused` are threads with a
    damaged record in the serving store. They were not copied, and each problem says what to do.
    """

    threads: int = 0
    repaired: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    removed: int = 0
    refused: tuple[Damage, ...] = ()

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"refused": Damage}
    _tuples: ClassVar[frozenset[str]] = frozenset({"repaired", "extra", "refused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport(DictRecord):
    """The result of a verification: what it read, and every damaged record."""

    threads: int = 0
    checkpoints: int = 0
    messages: int = 0
    attachments: int = 0
    damage: tuple[Damage, ...] = field(default_factory=tuple)

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"damage": Damage}
    _tuples: ClassVar[frozenset[str]] = frozenset({"damage"})

    @property
    def ok(self) -> bool:
        """Whether no record is damaged."""
        return not self.damage
