"""Connections to the server: a pool for each event loop, or the one that the user brought."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from clew.errors import TransientStorageError
from clew.storage.postgres.failures import DRIVER_ERRORS, SETTING_ERRORS, connection_error, storage_error

UNHURRIED = 86_400.0
"""Seconds for what may rightly take long, whatever `command_timeout` is: migrations, indexes, VACUUM."""
RELEASE_TIMEOUT = 5.0
"""Seconds after which a connection that does not come free is cut."""
CLOSE_TIMEOUT = 5.0
"""Seconds that closing waits for a server that does not answer."""
_SPARE_SECONDS = 1.0


class Connections:
    """The connections that one event loop uses: those of `pool`, and of them some at hand if it is our own."""

    def __init__(self, pool: asyncpg.Pool, *, own: bool, acquire_timeout: float) -> None:
        self._pool = pool
        self._own = own
        self._acquire_timeout = acquire_timeout
        self._releases: set[asyncio.Task[None]] = set()
        self._spare: list[Any] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._waiting = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection, for as long as the block lasts. Raises TransientStorageError if all stay taken for too long."""
        connection = await self._acquire()
        try:
            yield connection
        except DRIVER_ERRORS as error:
            raise storage_error(error) from error
        finally:
            self._release(connection)

    async def fetch(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """The rows that the statement gives."""
        connection = await self._acquire()
        try:
            rows: list[Any] = await connection.fetch(statement, *parameters)
        except BaseException as error:
            self._release(connection)
            if isinstance(error, DRIVER_ERRORS):
                raise storage_error(error) from error
            raise
        if not self._own or self._waiting:
            self._release(connection)
        else:
            # The pool would take two turns of the loop to have it back; whoever comes before that takes another.
            self._spare.append(connection)
            if self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().call_later(_SPARE_SECONDS, self._sweep)
        return rows

    async def _acquire(self) -> Any:
        while self._spare:
            connection = self._spare.pop()
            if _is_open(connection):
                return connection
            self._release(connection)
        timeout = self._acquire_timeout
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout) as deadline:
                return await self._pool.acquire()
        except (*SETTING_ERRORS, *DRIVER_ERRORS) as error:
            if not deadline.expired():
                raise connection_error(error) from error
            message = (
                f"no connection was free for {timeout:g} s: all {self._pool.get_max_size()} of the pool are in use; "
                f"raise max_size or acquire_timeout in pool_config, or do less at once"
            )
            raise TransientStorageError(message) from error
        finally:
            self._waiting -= 1

    def _release(self, connection: Any) -> None:
        """Give `connection` back, in a task: whoever waits for the answer need not wait for this."""

        def done(task: asyncio.Task[None]) -> None:
            self._releases.discard(task)
            if task.cancelled():
                # The loop is ending, and cancels everything; the pool waits for this all the same.
                self._release(connection)

        task = asyncio.ensure_future(_released(self._pool, connection))
        self._releases.add(task)
        task.add_done_callback(done)

    def _sweep(self) -> None:
        """Let the pool have what nobody uses just now: it knows when to close it."""
        self._sweeping = None
        while self._spare:
            self._release(self._spare.pop())

    async def close(self, *, pool_too: bool) -> None:
        """Wait until every connection was given back, and close the pool if `pool_too`.

        Our own pool is closed within CLOSE_TIMEOUT, whatever the server does. One that was brought may be in use elsewhere:
        it waits for that.
        """
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweep()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT if self._own else None):
                await self._all_released()
                if pool_too:
                    await self._pool.close()
        except DRIVER_ERRORS:
            # The server is gone, or stands still: there is nobody to say goodbye to.
            if pool_too:
                self._pool.terminate()
                await self._all_released()

    async def _all_released(self) -> None:
        while self._releases:
            await asyncio.wait(self._releases)


def _is_open(connection: Any) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        # It was cut, and has gone back to the pool by itself.
        return False


async def _released(pool: asyncpg.Pool, connection: Any) -> None:
    try:
        # After that the pool cuts it, and opens another when it is needed.
        await pool.release(connection, timeout=RELEASE_TIMEOUT)
    except DRIVER_ERRORS:
        # It is broken and gone, which comes to the same.
        pass
