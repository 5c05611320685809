"""Helpers for the tests of the hot tier."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

from clew.errors import ClewError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointPage, CheckpointQuery, ThreadQuery, ValuePage, ValueQuery
from clew.model.records import CheckpointRecord, ValueRow
from clew.model.status import CacheStatus, Status
from clew.storage.cached import CachedStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Capabilities
from clew.storage.wrapper import Kind, StorageWrapper
from clew.testing.build import checkpoint, commit, row

P = ParamSpec("P")
T = TypeVar("T")


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Watched(StorageWrapper):
    """A storage that records calls, and lets a test act before them."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.asked: list[str] = []
        self.commits: list[Commit] = []
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        page = await super().checkpoints(query)
        self.asked.append(query.detail)
        return page

    async def values(self, query: ValueQuery) -> ValuePage:
        self.asked.append("values")
        if meanwhile := self.before.pop("values", None):
            await meanwhile()
        return await super().values(query)

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        self.commits += commits
        return await super().apply(commits)


class Away(StorageWrapper):
    """A hot storage that can be made to fail, and records the calls meanwhile."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.away = False
        self.calls = 0

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        if self.away:
            raise TransientStorageError("nobody is there")
        return await operation()


class Slow(StorageWrapper):
    """A hot storage on the network, which answers when a test lets it."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.open = asyncio.Event()
        self.waiting = asyncio.Event()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="slow", durable=True, suspends=True, shares_forks=True)

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[T]]) -> T:
        self.waiting.set()
        await self.open.wait()
        return await operation()


class Both:
    """A cold and a hot storage in memory, and the cached storage over them."""

    def __init__(self, hot: Any = None, **options: Any) -> None:
        self.cold = Watched(MemoryStorage())
        self.kept = MemoryStorage()
        self.hot: Any = Watched(self.kept) if hot is None else hot(self.kept)
        self.storage = self.opened(**options)

    def opened(self, **options: Any) -> CachedStorage:
        """Return another cached storage over the same two, as in another process."""
        return CachedStorage(self.cold, self.hot, **options)

    async def state(self, storage: CachedStorage | None = None, **query: Any) -> CheckpointPage:
        asked = CheckpointQuery(thread_id="t", user=ANY_USER, detail="state", **query)
        return await (storage or self.storage).checkpoints(asked)

    async def truth(self) -> CheckpointPage:
        return await self.cold.inner.checkpoints(CheckpointQuery(thread_id="t", user=ANY_USER, detail="state"))

    async def entries(self) -> tuple[CheckpointRecord, ...]:
        query = CheckpointQuery(thread_id="t", user=ANY_USER, namespace=None, limit=None, detail="body")
        return (await self.kept.checkpoints(query)).checkpoints

    async def threads(self) -> list[str]:
        return [each.thread_id for each in await self.kept.threads(ThreadQuery(user=ANY_USER, limit=None))]

    async def status(self) -> CacheStatus:
        found = await self.storage.status(Status(primary_healthy=True))
        assert found.cache is not None
        return found.cache


async def put(storage: CachedStorage, *commits: Commit) -> list[Applied]:
    done = []
    for each in commits:
        (outcome,) = await storage.apply([each])
        assert isinstance(outcome, Applied), outcome
        done.append(outcome)
    return done


def turns(count: int, *, first: int = 0, thread_id: str = "t", size: int = 1) -> list[Commit]:
    """Return commits of one row each, and of a checkpoint that needs all of them."""
    return [
        commit(
            thread_id,
            values=row(number * size, size, data=b"turn %d" % number),
            checkpoint=checkpoint(f"c{number}", covers=[(0, (number + 1) * size)]),
        )
        for number in range(first, first + count)
    ]


def ranges(rows: Sequence[ValueRow]) -> list[tuple[int, int]]:
    return [(each.first, each.end) for each in rows]
