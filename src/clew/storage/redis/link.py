"""A connection that many tasks share by pipelining: answers arrive in the order of the calls.

redis-py opens the connection (address, TLS, user, database, Sentinel), and its stream is then
driven here: redis-py's own client uses a connection for one call at a time, and makes several
hundred Python calls for each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from clew.errors import StoreUnreachableError
from clew.storage.redis.failures import unreachable
from clew.storage.redis.settings import Limits

Answer = Any
"""Bytes, a number, None, a list of these, or a `hiredis.ReplyError`."""

_MORE = object()
_PushNotification = getattr(hiredis, "PushNotification", ())


class Link(asyncio.Protocol):
    """One connection. If it is lost, the result of its calls is a TransientStorageError."""

    def __init__(self, where: str, limits: Limits) -> None:
        self.where = where
        self.alive = False
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._waiting: deque[asyncio.Future[Answer]] = deque()
        self._unsent: list[bytes] = []
        self._written = self._taken = 0
        self._jammed = False
        self._last_progress = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()

    async def open(self, connect: Callable[[], Awaitable[AbstractConnection]]) -> None:
        """Connect. Raises TransientStorageError or StorageError if that fails."""
        try:
            connection = await connect()
        except (RedisError, OSError, TimeoutError) as error:
            raise unreachable(error, self.where) from error
        # The link owns the stream now: redis-py must neither close it nor complain.
        self._writer = cast(asyncio.StreamWriter, connection._writer)
        connection._reader = connection._writer = None
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        if self._transport.is_closing():
            # `connection_lost` is called once, and may have gone to redis-py already.
            raise unreachable(ConnectionResetError("the server closed the connection at once"), self.where)
        self.alive = True
        self._last_progress = self._loop.time()
        self._arm()
        if str(connection.protocol) != "2":
            # An existing client may use RESP3, in which some answers have another shape.
            await self.call("HELLO", 2)

    @property
    def load(self) -> int:
        """The number of calls in flight."""
        return len(self._waiting)

    def call(self, *command: bytes | str | int) -> asyncio.Future[Answer]:
        """Send a command and return the answer's future. Concurrent commands share a write."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        if not self.alive:
            future.set_result(self._lost(None))
            return future
        packed = hiredis.pack_command(command)  # type: ignore[arg-type]
        if not self._waiting:
            self._last_progress = self._loop.time()
        try:
            self._waiting.append(future)
            if not self._unsent:
                self._loop.call_soon(self._send)
            self._unsent.append(packed)
        except BaseException as error:
            # A Ctrl-C here could pair later answers with the wrong calls.
            self._interrupted(error)
            raise
        return future

    def _send(self) -> None:
        try:
            unsent, self._unsent = self._unsent, []
            if self.alive and unsent:
                data = unsent[0] if len(unsent) == 1 else b"".join(unsent)
                self._written += len(data)
                self._transport.write(data)
        except BaseException as error:
            self._interrupted(error)
            raise

    def data_received(self, data: bytes) -> None:
        reader, waiting = self._reader, self._waiting
        try:
            reader.feed(data)
            while (answer := reader.gets()) is not _MORE:
                if isinstance(answer, _PushNotification):
                    continue
                future = waiting[0]
                # It is done already if its caller was cancelled.
                if not future.done():
                    future.set_result(answer)
                # Only now: an interrupt before this must not leave a caller without an answer.
                waiting.popleft()
        except (hiredis.ProtocolError, IndexError) as error:
            self.drop(error)
        except BaseException as error:
            self._interrupted(error)
            raise
        if waiting:
            self._last_progress = self._loop.time()

    # Timeouts

    def _arm(self) -> None:
        self._timer = self._loop.call_later(
            min(self._limits.read_timeout, self._limits.write_timeout) / 2, self._check_timeout
        )

    def _check_timeout(self) -> None:
        if not self.alive:
            return
        # First, so that the next check happens even if this one fails.
        self._arm()
        limits, now = self._limits, self._loop.time()
        unsent = self._transport.get_write_buffer_size()
        taken = self._written - unsent
        if self._jammed and taken > self._taken:
            # A large request is still being sent over a slow network.
            self._last_progress = now
        self._jammed, self._taken = unsent > 0, taken
        silence = now - self._last_progress
        if self._waiting and silence >= (limits.write_timeout if unsent else limits.read_timeout):
            trouble = "the server accepts no data" if unsent else "no answer"
            self.drop(TimeoutError(f"{trouble} for {silence:.1f} s"))
            return
        if not self._waiting and limits.health_check and silence >= limits.health_check:
            self.call("PING")

    # Closing

    def drop(self, error: Exception | None) -> None:
        """Abort the connection. Calls in flight get an error."""
        if self.alive:
            self._end(error)
            # The transports of a closed loop can't be aborted.
            if not self._loop.is_closed():
                self._transport.abort()

    def _interrupted(self, error: BaseException) -> None:
        """Abort the connection: an interrupt left its state unknown."""
        self.drop(RuntimeError(f"interrupted by {type(error).__name__}"))

    async def close(self) -> None:
        """Wait for the calls in flight, up to the read timeout, then close the connection."""
        if self.alive and self._waiting:
            await asyncio.wait([*self._waiting], timeout=self._limits.read_timeout)
        if self.alive and not self._waiting:
            self._end(None)
            self._transport.close()
            # TLS has a closing handshake.
            await asyncio.wait([self._gone], timeout=self._limits.read_timeout)
        if not self._gone.done():
            self._end(None)
            self._transport.abort()
        await asyncio.wait([self._gone], timeout=self._limits.read_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        if not self._gone.done():
            self._gone.set_result(None)

    def _end(self, error: Exception | None) -> None:
        self.alive = False
        if self._timer:
            self._timer.cancel()
        if self._loop.is_closed():
            # No caller is left.
            self._waiting.clear()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(self._lost(error))

    def _lost(self, error: Exception | None) -> StoreUnreachableError:
        message = f"the connection to Redis at {self.where} was lost; calls in flight may have been executed"
        lost = StoreUnreachableError(f"{message} ({error})" if error else message, where=self.where)
        lost.__cause__ = error
        return lost
