"""What lists and totals show: everything but replication's own thread."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from clew.model.queries import StorageStats
from clew.model.records import ThreadRecord
from clew.storage.protocol import RESERVED


def without_reserved(found: Sequence[ThreadRecord]) -> list[ThreadRecord]:
    """The threads, without the reserved one. It is the last in every list, so no page lacks another for it."""
    return [each for each in found if each.thread_id != RESERVED]


def without_reserved_stats(stats: StorageStats) -> StorageStats:
    """The totals, without the reserved thread, which has nothing that counts for a day."""
    by_thread = {name: totals for name, totals in stats.by_thread.items() if name != RESERVED}
    return replace(stats, by_thread=by_thread)
