"""Facts about the threads in memory, for the rules of a commit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from clew.model.commit import Commit, NewCheckpoint
from clew.model.records import LeaseRecord, Range, ValueRow
from clew.storage.facts import StoredRow
from clew.storage.memory.thread import Thread, size_of


class MemoryFacts:
    """Facts from the storage's own dicts."""

    def __init__(
        self,
        threads: Mapping[str, Thread],
        leases: Mapping[tuple[str, str], LeaseRecord],
        ended: Mapping[str, str],
    ) -> None:
        self._threads = threads
        self._leases = leases
        self._ended = ended

    def thread(self, thread_id: str) -> Thread | None:
        return self._threads.get(thread_id)

    def end_of_missing(self, thread_id: str) -> str | None:
        return self._ended.get(thread_id)

    def has_applied(self, thread: Thread, commit: Commit) -> bool:
        return thread.has_applied(commit)

    def last_token(self, thread_id: str, space: str) -> int | None:
        lease = self._leases.get((thread_id, space))
        return lease.token if lease else None

    def head(self, thread: Thread, namespace: str, *, without: frozenset[str]) -> str | None:
        newest = reversed(thread.namespaces.get(namespace, {}))
        return next((each for each in newest if each not in without) if without else newest, None)

    def has_checkpoint(self, thread: Thread, namespace: str, checkpoint_id: str) -> bool:
        return checkpoint_id in thread.namespaces.get(namespace, {})

    def replaces(self, thread: Thread, new: NewCheckpoint) -> bool:
        return self.has_checkpoint(thread, new.namespace, new.checkpoint_id)

    def shared_before(self, thread: Thread) -> int:
        return thread.log.fixed_before

    def rows(self, thread: Thread, first: int, end: int) -> list[StoredRow]:
        return [(row.first, row.count, size_of(row)) for row in overlapping(thread.rows, [(first, end)])]


def overlapping(rows: list[ValueRow], ranges: Iterable[Range]) -> list[ValueRow]:
    """The rows that hold any value of `ranges`, each once, in order. `rows` must be in order."""
    found = {}
    for first, end in ranges:
        position = bisect_right(rows, first, key=lambda row: row.end)
        while first < end and position < len(rows) and rows[position].first < end:
            found[position] = rows[position]
            position += 1
    return [found[position] for position in sorted(found)]
