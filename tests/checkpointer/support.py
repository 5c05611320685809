"""What the tests of the public API share: stores to open, storages to look through, processes to start."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import asyncpg
import pytest
import redis

import clew
from clew.codec.frame import intact
from clew.errors import ClewError
from clew.model.commit import Applied, Commit
from clew.storage.cached import CachedStorage
from clew.storage.memory import MemoryStorage
from clew.storage.postgres import PgStorage
from clew.storage.protocol import Storage
from clew.storage.redis import RedisStorage
from clew.storage.sqlite import SQLiteStorage
from clew.storage.wrapper import Kind, StorageWrapper
from clew.testing.servers import shared_postgres, shared_redis

T = TypeVar("T")


class Store:
    """A place that outlives its checkpointers. Opening it twice is what two processes do."""

    path: Path
    url: str
    """Where another process finds it, if it can."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "clew.db"
        self.opened: list[clew.BaseCheckpointer] = []

    def storage(self) -> Storage:
        raise NotImplementedError

    def open(self, wrap: Callable[[Storage], Storage] | None = None, **options: Any) -> clew.BaseCheckpointer:
        storage = self.storage()
        checkpointer = clew.BaseCheckpointer(wrap(storage) if wrap else storage, **options)
        self.opened.append(checkpointer)
        return checkpointer

    def close(self) -> None:
        for checkpointer in self.opened:
            checkpointer.release()


class MemoryStore(Store):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._storage = MemoryStorage()

    def storage(self) -> Storage:
        return self._storage


class SQLiteStore(Store):
    def storage(self) -> Storage:
        return SQLiteStorage(self.path)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.url = f"sqlite:///{self.path}"


class PostgresStore(Store):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.schema = f"{directory.parent.name}/{directory.name}"[-63:]
        self.url = f"{shared_postgres()}?{urlencode({'schema': self.schema})}"

    def storage(self) -> Storage:
        return PgStorage(shared_postgres(), schema=self.schema, pool_config={"max_size": 4})

    def close(self) -> None:
        super().close()
        asyncio.run(self._drop())

    async def _drop(self) -> None:
        connection = await asyncpg.connect(shared_postgres())
        await connection.execute(f'DROP SCHEMA IF EXISTS "{self.schema}" CASCADE')
        await connection.close()


class RedisStore(Store):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.prefix = f"{directory.parent.name}/{directory.name}"
        self.url = f"{shared_redis()}?{urlencode({'prefix': self.prefix})}"

    def storage(self) -> Storage:
        return RedisStorage(shared_redis(), prefix=self.prefix, pool_size=4)

    def close(self) -> None:
        super().close()
        with redis.Redis.from_url(shared_redis()) as client:
            for key in client.scan_iter(f"{self.prefix}*", count=10_000):
                client.unlink(key)


class SpyStorage(StorageWrapper):
    """A storage that remembers the commits that went through it, and counts what was read."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.commits: list[Commit] = []
        self.reads = 0

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[T]]) -> T:
        if kind == "read":
            self.reads += 1
        return await operation()

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes = await self.inner.apply(commits)
        self.commits += [
            commit for commit, outcome in zip(commits, outcomes, strict=True) if isinstance(outcome, Applied)
        ]
        return outcomes


def written(commit: Commit) -> int:
    """The bytes that `commit` brings, without those that it only puts in another place."""
    size = 0
    if commit.checkpoint is not None:
        size += len(commit.checkpoint.body) + len(commit.checkpoint.metadata) + 4 * len(commit.checkpoint.covers)
    if commit.values is not None:
        size += len(commit.values.digests) + len(commit.values.data)
    return size + sum(len(message.data) + len(message.text.encode()) for message in commit.messages)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def at(checkpoint: clew.Checkpoint | clew.CheckpointInfo, **more: Any) -> dict[str, Any]:
    """The config that names a checkpoint."""
    return {**checkpoint.config, **more}


async def give_up(task: asyncio.Task[Any], go_on: asyncio.Event) -> None:
    """Cancel `task`, which stalls, twice; let it `go_on`, and see that it ends as cancelled."""
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


def text(seed: object, size: int = 400) -> str:
    """`size` characters that belong to `seed` and compress badly, so that bytes written are bytes said."""
    block, out = str(seed), ""
    while len(out) < size:
        block = hashlib.sha256(block.encode()).hexdigest()
        out += block
    return out[:size]


def python(script: str, *args: object, check: bool = True, timeout: float = 60) -> str:
    """What `script` prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(script: str, *args: object) -> Any:
    """`script` in a process of its own, its lines to be read as they come."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class CachedSQLiteStore(SQLiteStore):
    """With a cache in memory, which outlives its checkpointers too."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.hot = MemoryStorage()

    def storage(self) -> Storage:
        return CachedStorage(super().storage(), self.hot, timeout=10, intact=intact)


class CachedPostgresStore(PostgresStore):
    """With a cache in Redis."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.cache = RedisStore(directory)

    def storage(self) -> Storage:
        return CachedStorage(super().storage(), self.cache.storage(), timeout=10, intact=intact)

    def close(self) -> None:
        super().close()
        self.cache.close()
