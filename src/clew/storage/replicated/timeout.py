"""Timeouts for stores that may hang: an operation continues while the store answers pings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from clew.errors import StoreUnreachableError
from clew.storage.execution import may_block
from clew.storage.protocol import Storage
from clew.storage.wrapper import Kind, StorageWrapper

_T = TypeVar("_T")


class TimeoutStorage(StorageWrapper):
    """A storage whose operations end. After each `timeout` seconds, the store must answer a ping.

    A store that hangs (paused, or cut off without a TCP reset) counts as unreachable; a slow query
    does not.
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
        if not self.inner.capabilities.suspends or may_block():
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
        """Return the result of a fast operation. Raises StoreUnreachableError after `seconds`."""
        seconds = min(seconds, self._timeout)
        if not self.inner.capabilities.suspends or may_block():
            return await operation(self.inner)
        try:
            async with asyncio.timeout(seconds):
                return await operation(self.inner)
        except TimeoutError as error:
            raise StoreUnreachableError(f"the {self.name} did not answer within {seconds:g} seconds") from error
