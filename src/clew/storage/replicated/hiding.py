"""What lists and totals show: everything but replication's own thread."""

from __future__ import annotations

from collections.abc import Sequence

from clew.model.queries import StorageStats, Totals
from clew.model.records import ThreadRecord
from clew.storage.replicated.roles import LONG_AGO, RESERVED


def without_reserved(found: Sequence[ThreadRecord]) -> list[ThreadRecord]:
    """The threads, without the reserved one. It is the last in every list, so no page lacks another for it."""
    return [each for each in found if each.thread_id != RESERVED]


def without_reserved_stats(stats: StorageStats) -> StorageStats:
    """The totals, without those of the reserved thread. It has only checkpoints, all of one day."""
    mine = stats.by_thread.get(RESERVED)
    if mine is None:
        return stats
    day = LONG_AGO.date().isoformat()
    by_thread = {name: totals for name, totals in stats.by_thread.items() if name != RESERVED}
    by_day = dict(stats.by_day)
    rest = _less(by_day.pop(day, mine), mine)
    if rest.messages or rest.checkpoints:
        by_day[day] = rest
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=stats.stored_bytes)


def _less(totals: Totals, mine: Totals) -> Totals:
    return Totals(
        messages=totals.messages - mine.messages,
        tool_calls=totals.tool_calls - mine.tool_calls,
        checkpoints=totals.checkpoints - mine.checkpoints,
        bytes=totals.bytes - mine.bytes,
    )
