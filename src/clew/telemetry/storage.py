"""The observed storage: the outermost one, below the public calls.

Spans of storage operations are made only inside a sampled span. So a trace shows where a call's time
went, and nothing is spent on calls that nobody traces.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from clew.errors import ClewError, ConflictError
from clew.model.commit import Applied, Commit
from clew.model.queries import CheckpointPage, ValuePage
from clew.storage.cached import CachedStorage
from clew.storage.protocol import Storage
from clew.storage.replicated import ReplicatedStorage
from clew.storage.wrapper import StorageWrapper
from clew.telemetry import names
from clew.telemetry.recorder import Recorder, error_attributes, sampled_span, taken_along


class ObservedStorage(StorageWrapper):
    """A storage whose operations are spans, and whose bytes, conflicts and cache lookups are counted."""

    def __init__(self, inner: Storage, recorder: Recorder) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self.attributes = recorder.attributes
        self.pending: Callable[[], int] | None = None
        """The number of background saves that wait, if there are any."""
        layers = list(_layers(inner))
        self._cache = next((each.hot for each in layers if isinstance(each, CachedStorage)), None)
        self._hits = self._misses = 0
        self._written, self._read = recorder.sum(names.WRITTEN), recorder.sum(names.READ)
        if self._cache is not None:
            self._found, self._missed = (
                recorder.sum(names.CACHE_LOOKUPS, **{names.CACHE_RESULT: each}) for each in ("hit", "miss")
            )
        self._monitor = next((each.monitor for each in layers if isinstance(each, ReplicatedStorage)), None)
        recorder.instruments.opened(self)

    def gauges(self) -> Iterator[tuple[str, float]]:
        if self.pending is not None:
            yield names.PENDING, self.pending()
        if self._monitor is not None:
            yield names.LAG, self._monitor.lag()
            yield names.QUEUE, self._monitor.queued

    async def close(self) -> None:
        self._recorder.instruments.closed(self)
        await self.inner.close()

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        if sampled_span() is not None:
            with self._recorder.storage_span("apply", len(commits)):
                outcomes = await self.inner.apply(commits)
        else:
            taken_along()
            outcomes = await self.inner.apply(commits)
        written, recorder = 0, self._recorder
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, Applied):
                written += _written(commit)
            elif isinstance(outcome, ConflictError):
                kind = error_attributes(outcome)[names.ERROR]
                recorder.instruments.add(recorder.sum(names.CONFLICTS, **{names.ERROR: kind}), 1)
        if written:
            recorder.instruments.add(self._written, written)
        return outcomes

    def _count_read(self, found: object) -> None:
        size, add = _read(found), self._recorder.instruments.add
        if size:
            add(self._read, size)
        if self._cache is not None:
            # The counts of the cache since the last look, for all calls together.
            hits, misses = self._cache.hits, self._cache.misses
            new_hits, self._hits = hits - self._hits, hits
            new_misses, self._misses = misses - self._misses, misses
            if new_hits > 0:
                add(self._found, new_hits)
            if new_misses > 0:
                add(self._missed, new_misses)


def _observed(name: str) -> Any:
    async def operation(self: ObservedStorage, *args: Any, **kwargs: Any) -> Any:
        if sampled_span() is not None:
            with self._recorder.storage_span(name):
                found = await getattr(self.inner, name)(*args, **kwargs)
        else:
            found = await getattr(self.inner, name)(*args, **kwargs)
        self._count_read(found)
        return found

    operation.__name__ = name
    return operation


OPERATIONS: Final = [name for name, each in vars(Storage).items() if inspect.iscoroutinefunction(each)]
"""Drawn from the protocol, so that a new operation can't be forgotten."""
for _name in OPERATIONS:
    if _name not in ("apply", "close"):
        setattr(ObservedStorage, _name, _observed(_name))


def _layers(storage: Storage) -> Iterator[Storage]:
    yield storage
    if isinstance(storage, StorageWrapper):
        for each in storage.around:
            yield from _layers(each)


def _written(commit: Commit) -> int:
    size = 0
    if commit.values is not None:
        size += len(commit.values.data) + len(commit.values.digests)
    if commit.checkpoint is not None:
        size += len(commit.checkpoint.body) + len(commit.checkpoint.metadata)
    for row in commit.merge:
        size += len(row.data)
    for message in commit.messages:
        size += len(message.data)
    for attachment in commit.attachments:
        size += len(attachment.data)
    return size


def _read(found: object) -> int:
    if isinstance(found, CheckpointPage):
        return sum(len(each.body) for each in found.checkpoints) + sum(len(row.data) for row in found.rows)
    if isinstance(found, ValuePage):
        return sum(len(row.data) + len(row.digests) for row in found.rows)
    if isinstance(found, list):
        return sum(len(getattr(each, "data", b"")) for each in found)
    return 0
