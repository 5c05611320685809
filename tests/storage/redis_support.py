"""What the tests of the Redis storage share."""

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
    """A storage driven from plain code, closed in the end."""
    driven = DrivenStorage(lambda: RedisStorage(url, **options))
    try:
        yield driven
    finally:
        driven.close()


async def persistent(call: Callable[[], Awaitable[R]], *, seconds: float = 30) -> R:
    """The result of `call`, tried again while the storage says that it may pass."""
    until = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await call()
        except TransientStorageError:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(0.02)


async def saved(storage: RedisStorage, commit: Commit, *, seconds: float = 30) -> Applied:
    """The outcome of `commit`, sent again until it is known."""

    async def once() -> Applied:
        (outcome,) = await storage.apply([commit])
        if isinstance(outcome, Applied):
            return outcome
        raise outcome

    return await persistent(once, seconds=seconds)
