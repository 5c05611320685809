"""Helpers for the tests of the Redis storage."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import redis

from clew.errors import TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.redis import RedisStorage
from clew.testing.driver import DrivenStorage

R = TypeVar("R")
_SPECIAL = str.maketrans({each: f"\\{each}" for each in "\\*?[]^"})
"""Characters of a pattern, escaped."""


def remove_keys(url: str, prefix: str) -> None:
    """Delete every key that begins with `prefix` from the server, or from its cluster."""
    client = _client(url)
    for key in client.scan_iter(f"{prefix.translate(_SPECIAL)}*", count=10_000):
        client.unlink(key)


@cache
def _client(url: str) -> Any:
    """A client for the time between tests. Opening one takes longer than most tests."""
    client: Any = redis.Redis.from_url(url)
    if client.info("cluster")["cluster_enabled"]:
        client.close()
        client = redis.RedisCluster.from_url(url)
    # Registered after the server's own handler, and so called before it.
    atexit.register(client.close)
    return client


@contextmanager
def opened(url: str, **options: Any) -> Iterator[DrivenStorage]:
    """Open a storage that sync code can drive, and close it at the end."""
    driven = DrivenStorage(lambda: RedisStorage(url, **options))
    try:
        yield driven
    finally:
        driven.close()


async def persistent(call: Callable[[], Awaitable[R]], *, seconds: float = 120) -> R:
    """Return the result of `call`. Transient errors are retried."""
    until = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await call()
        except TransientStorageError:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(0.02)


async def saved(storage: RedisStorage, commit: Commit, *, seconds: float = 120) -> Applied:
    """Return the outcome of `commit`. Transient errors are retried."""

    async def once() -> Applied:
        (outcome,) = await storage.apply([commit])
        if isinstance(outcome, Applied):
            return outcome
        raise outcome

    return await persistent(once, seconds=seconds)
