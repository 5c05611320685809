"""A store that may hang: after a while it is asked whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from clew.errors import StorageError, TransientStorageError
from clew.storage.offload import inline
from clew.storage.protocol import Storage
from clew.storage.wrapper import Kind, StorageWrapper

_T = TypeVar("_T")


class WatchedStorage(StorageWrapper):
    """A storage whose operations end: one that takes longer than `timeout` seconds goes on only while the store answers a ping.

    So a store that hangs (paused, cut off without a word) counts as one that can't be reached, and a slow query does not.
    """

    def __init__(self, inner: Storage, name: str, timeout: float) -> None:
        super().__init__(inner)
        self.name = name
        self._timeout = timeout

    async def ping(self) -> None:
        await self.within(self._timeout, lambda store: store.ping())

    async def setup(self) -> None:
        await self._around("apply", self.inner.setup)

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[_T]]) -> _T:
        if not self.inner.capabilities.suspends or inline.get():
            return await operation()
        task = asyncio.ensure_future(operation())
        try:
            while not (await asyncio.wait({task}, timeout=self._timeout))[0]:
                await self.ping()
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        return task.result()

    async def within(self, seconds: float, operation: Callable[[Storage], Awaitable[_T]]) -> _T:
        """The result of an operation that a store does in next to no time. Raises TransientStorageError if it does not."""
        seconds = min(seconds, self._timeout)
        if not self.inner.capabilities.suspends or inline.get():
            return await operation(self.inner)
        try:
            async with asyncio.timeout(seconds):
                return await operation(self.inner)
        except TimeoutError as error:
            raise TransientStorageError(f"the {self.name} did not answer within {seconds:g} seconds") from error


async def answers(store: Storage) -> bool:
    """Whether `store` answers a ping."""
    try:
        await store.ping()
    except StorageError:
        return False
    return True
