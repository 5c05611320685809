"""Answers to queries from the threads in memory: pages of a thread's messages, and totals of threads."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC

from clew.model.queries import MessageQuery, StorageStats, Totals
from clew.model.records import CheckpointRecord, MessageRecord, Range
from clew.storage.branches import is_within, visible
from clew.storage.memory.thread import Thread, size_of

Said = tuple[int, MessageRecord]
"""The thread's sequence number when the message was added, and the message."""


def page_of(thread: Thread, query: MessageQuery) -> list[Said]:
    """The messages of `thread` that `query` asks for, in order."""
    found = _between(thread.messages, query)
    if query.message_id is not None:
        found = [each for each in found if each[1].message_id == query.message_id]
    elif isinstance(query.branch, str) or (query.branch is not None and thread.points):
        ranges = _branch(thread, query)
        found = [each for each in found if is_within(ranges, each[0])]
    needle = query.search or ""
    found = [each for each in found if needle in each[1].text]
    stop = None if query.limit is None else query.offset + query.limit
    return found[::-1][query.offset : stop][::-1] if query.newest else found[query.offset : stop]


def _between(messages: dict[str, Said], query: MessageQuery) -> list[Said]:
    """The messages after `query.after` and before `query.before`."""
    if query.after is None and query.before is None:
        return list(messages.values())
    places = {name: place for place, name in enumerate(messages)}
    if not all(name is None or name in places for name in (query.after, query.before)):
        return []
    start = 0 if query.after is None else places[query.after] + 1
    stop = None if query.before is None else places[query.before]
    return list(messages.values())[start:stop]


def _branch(thread: Thread, query: MessageQuery) -> list[Range]:
    """The sequence numbers of the branch that `query` asks for."""
    if isinstance(query.branch, str):
        number = thread.of_checkpoint(query.namespace, query.branch)
        return [] if number is None else visible(thread.points, number)
    return visible(thread.points)


def stats_of(threads: Iterable[Thread], stored_bytes: int) -> StorageStats:
    """The totals of `threads`, by thread and by day."""
    by_thread: dict[str, Totals] = {}
    by_day: defaultdict[str, Totals] = defaultdict(Totals)
    for thread in threads:
        records: list[CheckpointRecord | MessageRecord] = list(thread.newest_first(None))
        records += [message for _, message in thread.messages.values()]
        ones = [_totals_of(record) for record in records]
        by_thread[thread.thread_id] = dataclasses.replace(_sum(ones), bytes=thread.size)
        for record, one in zip(records, ones, strict=True):
            at = record.saved_at if isinstance(record, CheckpointRecord) else record.created_at
            day = at.astimezone(UTC).date().isoformat()
            by_day[day] = _sum([by_day[day], one])
    return StorageStats(by_thread=by_thread, by_day=dict(by_day), stored_bytes=stored_bytes)


def _totals_of(record: CheckpointRecord | MessageRecord) -> Totals:
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
