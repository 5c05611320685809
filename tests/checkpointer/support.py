"""Helpers for tests of the public API: stores, storages that observe, processes."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest

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
from tests.storage.postgres_support import shared_schema
from tests.storage.redis_support import remove_keys

T = TypeVar("T")


class Store:
    """A store that outlives its checkpointers. Opening it twice simulates two processes."""

    path: Path
    url: str
    """The URL for another process, if the store can be shared."""

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
        self._shared = shared_schema()
        self.schema = self._shared.__enter__()
        self.url = f"{shared_postgres()}?{urlencode({'schema': self.schema})}"

    def storage(self) -> Storage:
        return PgStorage(shared_postgres(), schema=self.schema, pool_config={"max_size": 4})

    def close(self) -> None:
        super().close()
        self._shared.__exit__(None, None, None)


class RedisStore(Store):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.prefix = f"{directory.parent.name}/{directory.name}"
        self.url = f"{shared_redis()}?{urlencode({'prefix': self.prefix})}"

    def storage(self) -> Storage:
        return RedisStorage(shared_redis(), prefix=self.prefix, pool_size=4)

    def close(self) -> None:
        super().close()
        remove_keys(shared_redis(), self.prefix)


def no_thread_stays(name: str) -> None:
    """Check that all OS threads of this name end. The last step of one lets its caller go on, so it may still be ending."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(120)
            assert not thread.is_alive()


class SpyStorage(StorageWrapper):
    """A storage that records commits and counts reads."""

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
    """The bytes that `commit` adds, without those that it only moves."""
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
    """Cancel the stalled `task` twice, let it `go_on`, and check that it ends as cancelled."""
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


def text(seed: object, size: int = 400) -> str:
    """`size` characters derived from `seed` that don't compress, so that stored bytes can be counted."""
    return _text(str(seed), size)


@cache
def _text(block: str, size: int) -> str:
    out = ""
    while len(out) < size:
        block = hashlib.sha256(block.encode()).hexdigest()
        out += block
    return out[:size]


def python(script: str, *args: object, check: bool = True, timeout: float = 120) -> str:
    """The output of `script` in a new process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Script(subprocess.Popen[str]):
    """A process that a test started. It is killed if the test fails: it may wait for input, or be stopped."""

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *more)


def start(script: str, *args: object) -> Any:
    """Start `script` in a new process, with its output as a pipe."""
    return Script(
        [sys.executable, "-W", "error", "-c", script, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class CachedSQLiteStore(SQLiteStore):
    """A store with a cache in memory, which outlives its checkpointers too."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.hot = MemoryStorage()

    def storage(self) -> Storage:
        return CachedStorage(super().storage(), self.hot, timeout=60, intact=intact)


class CachedPostgresStore(PostgresStore):
    """A store with a cache in Redis."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.cache = RedisStore(directory)

    def storage(self) -> Storage:
        return CachedStorage(super().storage(), self.cache.storage(), timeout=60, intact=intact)

    def close(self) -> None:
        super().close()
        self.cache.close()
