"""Helpers for the tests of the Redis storage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from clew.errors import TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.redis import RedisStorage
from clew.testing.driver import DrivenStorage

R = TypeVar("R")


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
