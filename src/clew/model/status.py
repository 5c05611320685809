"""The status of a checkpointer, as `astatus` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from clew.model.dict_record import DictRecord
from clew.model.reports import CleanupReport


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatus(DictRecord):
    """Counters of the hot cache in this process, and whether the cache is available.

    `hits`: reads whose values all came from the cache; `misses`: other reads that asked it. `fills` and
    `writes`: value rows that reads and commits sent to it; `dropped`: rows not sent, because too many were
    in flight. `evicted`: threads that this process evicted, because there were too many or they were
    unused for too long. `errors`: failed calls and damaged entries.
    """

    hits: int = 0
    misses: int = 0
    fills: int = 0
    writes: int = 0
    dropped: int = 0
    errors: int = 0
    evicted: int = 0
    available: bool = True
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundStatus(DictRecord):
    """Saves with `durability="background"`: not written yet, and permanently failed."""

    pending: int = 0
    pending_bytes: int = 0
    failed: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStatus(DictRecord):
    """Automatic cleanup in this process. `done` and `total` count the current run's checkpoints.

    `skipped` counts the runs for which another process had the turn.
    """

    running: bool = False
    done: int = 0
    total: int = 0
    runs: int = 0
    skipped: int = 0
    last_run: datetime | None = None
    next_run: datetime | None = None
    last_report: CleanupReport | None = None
    last_error: str | None = None

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {"last_report": CleanupReport}
    _times: ClassVar[frozenset[str]] = frozenset({"last_run", "next_run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(DictRecord):
    """The health of the stores, which one serves, and the state of background work.

    Without replication, `secondary_healthy` and `replication_mode` are `None` and the primary serves.
    `enable_replication` is `None` for a single store; `False` for a pair that does not replicate.
    `replication_lag` is in seconds. Parts that the checkpointer does not have are `None`.
    """

    primary_healthy: bool
    secondary_healthy: bool | None = None
    failed_over: bool = False
    failover_count: int = 0
    active_backend: str = "primary"
    replication_mode: str | None = None
    enable_replication: bool | None = None
    replication_queue_size: int = 0
    replication_lag: float = 0.0
    time_since_failover: float | None = None
    last_error: str | None = None
    cache: CacheStatus | None = None
    background: BackgroundStatus | None = None
    cleanup: CleanupStatus | None = None

    _nested: ClassVar[Mapping[str, type[DictRecord]]] = {
        "cache": CacheStatus,
        "background": BackgroundStatus,
        "cleanup": CleanupStatus,
    }
