"""Who gets a connection of the pool, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.errors import TransientStorageError
from clew.storage.postgres.connections import Connections

PATIENCE = 60.0


class Connection:
    """A connection whose statements take one turn of the loop."""

    def is_closed(self) -> bool:
        return False

    async def fetch(self, caller: str) -> list[str]:
        await asyncio.sleep(0)
        return [caller]


class Pool:
    """A pool that hands out connections as asyncpg's does: to whoever runs first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        for _ in range(size):
            self._free.put_nowait(Connection())

    def get_max_size(self) -> int:
        return self._size

    async def acquire(self) -> Connection:
        return await self._free.get()

    async def release(self, connection: Connection, *, timeout: float) -> None:
        await asyncio.sleep(0)
        self._free.put_nowait(connection)

    async def close(self) -> None:
        assert self._free.qsize() == self._size, "a connection was not released"


class Watched(Connections):
    """Connections that note who gets one, in order."""

    def __init__(self, *, own: bool, acquire_timeout: float = PATIENCE) -> None:
        pool: Any = Pool(2)
        super().__init__(pool, own=own, acquire_timeout=acquire_timeout, where="here")
        self.asked: list[str] = []
        self.served: list[str] = []

    async def call(self, caller: str) -> None:
        self.asked.append(caller)
        await self.fetch(caller, ())

    async def keep_as(self, caller: str) -> Any:
        self.asked.append(caller)
        return await self.keep()

    async def _acquire(self) -> Any:
        caller = self.asked[-1]
        connection = await super()._acquire()
        self.served.append(caller)
        return connection


@pytest.mark.parametrize("own", [True, False])
def test_callers_get_connections_in_the_order_in_which_they_asked(own):
    async def test():
        connections = Watched(own=own)

        async def caller(number: int) -> None:
            for turn in range(20):
                # They come at different moments, also between a release and the turn of who waits for it.
                for _ in range((number + turn) % 5):
                    await asyncio.sleep(0)
                await connections.call(f"{number}, {turn}")

        await asyncio.gather(*(caller(number) for number in range(10)))
        assert connections.served == connections.asked
        await connections.close(pool_too=True)

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


def test_callers_that_give_up_leave_their_place_to_the_next():
    async def test():
        connections = Watched(own=True)
        kept = [await connections.keep_as(str(number)) for number in range(2)]
        waiting = [asyncio.create_task(connections.call(name)) for name in "abc"]
        await asyncio.sleep(0)
        waiting[0].cancel()
        for connection in kept:
            connections.give_back(connection)
        await asyncio.gather(*waiting, return_exceptions=True)
        assert connections.served[2:] == ["b", "c"]
        await connections.close(pool_too=True)

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


def test_a_caller_that_waited_too_long_is_told_and_the_connection_is_not_lost():
    async def test():
        connections = Watched(own=True, acquire_timeout=0.01)
        kept = [await connections.keep_as(str(number)) for number in range(2)]
        with pytest.raises(TransientStorageError, match="all 2 of the pool are in use"):
            await connections.call("late")
        for connection in kept:
            connections.give_back(connection)
        await connections.call("again")
        await connections.close(pool_too=True)

    asyncio.run(asyncio.wait_for(test(), PATIENCE))
