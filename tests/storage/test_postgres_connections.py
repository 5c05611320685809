"""The order in which callers get the connections of a pool."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from clew.errors import TransientStorageError
from clew.storage.postgres.connections import Connections
from clew.testing.servers import shared_postgres

PATIENCE = 60.0


class Watched(Connections):
    """Connections that note who gets one, in order."""

    def __init__(self, pool: asyncpg.Pool, *, own: bool, acquire_timeout: float) -> None:
        super().__init__(pool, own=own, acquire_timeout=acquire_timeout, where="here")
        self.asked: list[str] = []
        self.served: list[str] = []

    @classmethod
    async def of_two(cls, *, own: bool = True, acquire_timeout: float = PATIENCE) -> Watched:
        """Return those of a pool of two. Closing it waits for ever if one of them is lost."""
        pool = await asyncpg.create_pool(shared_postgres(), min_size=2, max_size=2)
        return cls(pool, own=own, acquire_timeout=acquire_timeout)

    async def call(self, caller: str) -> None:
        self.asked.append(caller)
        assert await self.fetch("SELECT $1::text", (caller,)) == [(caller,)]

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
        connections = await Watched.of_two(own=own)

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
        connections = await Watched.of_two()
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
        connections = await Watched.of_two(acquire_timeout=1.0)
        kept = [await connections.keep_as(str(number)) for number in range(2)]
        with pytest.raises(TransientStorageError, match="all 2 of the pool are in use"):
            await connections.call("late")
        for connection in kept:
            connections.give_back(connection)
        await connections._all_released()
        await connections.call("again")
        await connections.close(pool_too=True)

    asyncio.run(asyncio.wait_for(test(), PATIENCE))
