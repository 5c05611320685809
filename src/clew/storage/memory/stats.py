"""Totals of threads in memory."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC

from clew.model.queries import StorageStats, Totals
from clew.model.records import CheckpointRecord, MessageRecord
from clew.storage.memory.thread import Thread, size_of


def stats_of(threads: Iterable[Thread], stored_bytes: int) -> StorageStats:
    """The totals of `threads`, by thread and by day."""
    by_thread: dict[str, Totals] = {}
    by_day: defaultdict[str, Totals] = defaultdict(Totals)
    for thread in threads:
        records: list[CheckpointRecord | MessageRecord] = list(thread.newest_first(None))
        records += [message for _, message in thread.messages.values()]
        ones = [_one(record) for record in records]
        by_thread[thread.thread_id] = dataclasses.replace(_sum(ones), bytes=thread.size)
        for record, one in zip(records, ones, strict=True):
            at = record.saved_at if isinstance(record, CheckpointRecord) else record.created_at
            day = at.astimezone(UTC).date().isoformat()
            by_day[day] = _sum([by_day[day], one])
    return StorageStats(by_thread=by_thread, by_day=dict(by_day), stored_bytes=stored_bytes)


def _one(record: CheckpointRecord | MessageRecord) -> Totals:
    if isinstance(record, CheckpointRecord):
        return Totals(checkpoints=1, bytes=size_of(record))
    return Totals(
        messages=1,
        tool_calls=record.tool_calls,
        bytes=size_of(record),
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
    )


def _sum(totals: Iterable[Totals]) -> Totals:
    counts = [dataclasses.astuple(each) for each in totals]
    return Totals.counted(map(sum, zip(*counts, strict=True))) if counts else Totals()
