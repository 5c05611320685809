"""How a checkpointer is doing at this moment: what `astatus` tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from clew.model.plain import Plain
from clew.model.reports import CleanupReport


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatus(Plain):
    """What this process and its hot cache did since it was opened, and whether that answers.

    `hits`: reads whose values all came from the cache; `misses`: others that asked it. `fills` and `writes`: rows of values
    that reads and commits sent there; `dropped`: rows that were not sent, because too many were on their way. `evicted`:
    threads that this process took out, because there were too many or they were not used for too long. `errors`: calls that
    failed, and damaged entries that were met.
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
class BackgroundStatus(Plain):
    """What `durability="background"` has accepted and not yet written, and what of it failed for good."""

    pending: int = 0
    pending_bytes: int = 0
    failed: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStatus(Plain):
    """How the cleanup that goes on by itself is doing in this process; `done` of `total` checkpoints in the run that goes on.

    `skipped` counts the times at which another process had the turn.
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

    _nested: ClassVar[Mapping[str, type[Plain]]] = {"last_report": CleanupReport}
    _times: ClassVar[frozenset[str]] = frozenset({"last_run", "next_run"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Plain):
    """Whether the stores answer, which one serves, and how far what goes on beside is behind.

    Without replication, `secondary_healthy` and `replication_mode` are `None` and the primary serves. `replication_lag` is in
    seconds. A part that the checkpointer does not have is `None`.
    """

    primary_healthy: bool
    secondary_healthy: bool | None = None
    failed_over: bool = False
    failover_count: int = 0
    active_backend: str = "primary"
    replication_mode: str | None = None
    replication_queue_size: int = 0
    replication_lag: float = 0.0
    time_since_failover: float | None = None
    last_error: str | None = None
    cache: CacheStatus | None = None
    background: BackgroundStatus | None = None
    cleanup: CleanupStatus | None = None

    _nested: ClassVar[Mapping[str, type[Plain]]] = {
        "cache": CacheStatus,
        "background": BackgroundStatus,
        "cleanup": CleanupStatus,
    }
