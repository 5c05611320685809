"""Connections to the server: one pool for each event loop, or a pool of the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

import asyncpg

from clew.errors import TransientStorageError
from clew.storage.execution import run_to_end
from clew.storage.fresh_context import in_fresh_context
from clew.storage.postgres.failures import DRIVER_ERRORS, SETTING_ERRORS, connection_error, storage_error

MAINTENANCE_TIMEOUT = 86_400.0
"""Seconds for statements that may exceed `command_timeout`: migrations, index creation, VACUUM."""
RELEASE_TIMEOUT = 5.0
"""Seconds after which a connection that can't be released is terminated."""
CLOSE_TIMEOUT = 5.0
"""Seconds that `close` waits for a server that does not answer."""
_IDLE_SECONDS = 1.0


class Connections:
    """The connections of one event loop, from `pool`.

    Callers get one in the order in which they asked. The pool alone does not keep that order: a newcomer can take
    the free connection, and the caller that waited for it goes to the end of the queue. If it is Clew's `own` pool,
    idle connections are kept for a second, which saves its overhead.
    """

    def __init__(self, pool: asyncpg.Pool, *, own: bool, acquire_timeout: float, where: str) -> None:
        self._pool = pool
        self._where = where
        self._own = own
        self._acquire_timeout = acquire_timeout
        self._releases: set[asyncio.Task[None]] = set()
        self._idle: list[Any] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._permits = asyncio.Semaphore(self.most)
        """One for each connection in use. Callers wait for it in the order in which they came."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Yield a connection. Raises TransientStorageError if none becomes free in time."""
        connection = await self._acquire()
        try:
            yield connection
        except BaseException as error:
            await self._give_up(connection, error)
            raise
        self._release(connection)

    async def fetch(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        """Return the rows of a statement."""
        connection = await self._acquire()
        try:
            rows: list[Any] = await connection.fetch(statement, *parameters)
        except BaseException as error:
            await self._give_up(connection, error)
            raise
        if not self._own:
            self._release(connection)
            return rows
        # A release takes two turns of the loop, and a call in between would take another.
        self._idle.append(connection)
        self._permits.release()
        if self._sweeping is None:
            later = asyncio.get_running_loop().call_later
            self._sweeping = later(_IDLE_SECONDS, self._sweep, context=Context())
        return rows

    @property
    def most(self) -> int:
        """The maximum number of connections."""
        return int(self._pool.get_max_size())

    async def keep(self) -> Any:
        """Return a connection to keep until `give_back`. Raises TransientStorageError."""
        return await self._acquire()

    def give_back(self, connection: Any) -> None:
        """Release a connection that was kept."""
        self._release(connection)

    async def _give_up(self, connection: Any, error: BaseException) -> None:
        """Release `connection` after `error`. Raises Clew's error for a driver's error."""
        released = self._release(connection)
        if isinstance(error, DRIVER_ERRORS):
            raise storage_error(error, self._where) from error
        if isinstance(error, asyncio.CancelledError):
            # The server may still apply the cancelled statement, which must not overtake the
            # caller's next one. The driver releases the connection only when the server has
            # confirmed the end of the statement.
            await run_to_end(_ended(released))

    async def _acquire(self) -> Any:
        if not self._permits.locked() and (connection := self._reserved()) is not None:
            await self._permits.acquire()  # At once, because nobody waits.
            return connection
        timeout = self._acquire_timeout
        try:
            async with asyncio.timeout(timeout) as deadline:
                await self._permits.acquire()
                try:
                    # This may open a connection, which outlives the call and must not keep its context.
                    return self._reserved() or await in_fresh_context(self._from_pool())
                except BaseException:
                    self._permits.release()
                    raise
        except (*SETTING_ERRORS, *DRIVER_ERRORS) as error:
            if not deadline.expired():
                raise connection_error(error, self._where) from error
            message = (
                f"no connection became free within {timeout:g} s: all {self._pool.get_max_size()} of the pool are in use; "
                f"raise max_size or acquire_timeout in pool_config, or run fewer calls at once"
            )
            raise TransientStorageError(message) from error

    def _reserved(self) -> Any | None:
        """Return an idle connection, if there is an open one."""
        while self._idle:
            connection = self._idle.pop()
            if _is_open(connection):
                return connection
            self._release(connection, in_use=False)
        return None

    async def _from_pool(self) -> Any:
        return await self._pool.acquire()

    def _release(self, connection: Any, *, in_use: bool = True) -> asyncio.Task[None]:
        """Release `connection` in a task, so that no caller waits for it."""

        def done(task: asyncio.Task[None]) -> None:
            self._releases.discard(task)
            if task.cancelled():
                # The loop is ending and cancels all tasks, but the pool waits for this one.
                self._release(connection, in_use=in_use)
            elif in_use:
                self._permits.release()

        # In an empty context: the pool's idle timer would keep the caller's.
        task = asyncio.get_running_loop().create_task(_released(self._pool, connection), context=Context())
        self._releases.add(task)
        task.add_done_callback(done)
        return task

    def _sweep(self) -> None:
        """Release the reserved connections, so that the pool can close idle ones."""
        self._sweeping = None
        while self._idle:
            self._release(self._idle.pop(), in_use=False)

    async def close(self, *, pool_too: bool) -> None:
        """Wait until all connections are released, and close the pool if `pool_too`.

        Clew's own pool is closed within CLOSE_TIMEOUT, whatever the server does. A caller's pool
        may be in use elsewhere, so this waits without a limit.
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
            # The server is gone or does not answer: close the sockets without waiting for it.
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
        # The connection broke, and the pool has already taken it back.
        return False


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait((task,))


async def _released(pool: asyncpg.Pool, connection: Any) -> None:
    try:
        # On timeout the pool terminates the connection, and opens another when needed.
        await pool.release(connection, timeout=RELEASE_TIMEOUT)
    except DRIVER_ERRORS:
        # The connection is broken, so there is nothing left to release.
        pass
