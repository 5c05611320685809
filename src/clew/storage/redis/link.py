"""A connection that carries the calls of many tasks: each is written when it comes, and answers arrive in the same order.

redis-py opens the connection (address, TLS, user, database, Sentinel), and its stream is then driven here: its own client
takes a connection for one call at a time, and several hundred Python calls for each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from clew.errors import TransientStorageError
from clew.storage.redis.failures import unreachable

Command = Sequence[bytes | str | int]
Answer = Any
"""What Redis answers: bytes, a number, None, a list of these, or a `hiredis.ReplyError`."""

_MORE = object()
_PushNotification = getattr(hiredis, "PushNotification", ())


class Link(asyncio.Protocol):
    """One connection. A call's answer is a future; if the connection is lost, the answer is the error that says so."""

    def __init__(self, where: str, *, read_timeout: float, write_timeout: float, health_check: float) -> None:
        self.where = where
        self.alive = False
        self._read_timeout, self._write_timeout, self._health_check = read_timeout, write_timeout, health_check
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._waiting: deque[asyncio.Future[Answer]] = deque()
        self._unsent: list[bytes] = []
        self._written = self._taken = 0
        self._jammed = False
        self._heard = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()

    async def open(self, connect: Callable[[], Awaitable[AbstractConnection]]) -> None:
        """Connect. Raises TransientStorageError or StorageError if that fails."""
        try:
            connection = await connect()
        except (RedisError, OSError, TimeoutError) as error:
            raise unreachable(error, self.where) from error
        # From here on the stream is this link's: redis-py's object must not close it, or complain that nobody did.
        self._writer = cast(asyncio.StreamWriter, connection._writer)
        connection._reader = connection._writer = None
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        if self._transport.is_closing():
            # Its end may have been told to redis-py already, and is told once.
            raise unreachable(ConnectionResetError("the server closed the connection at once"), self.where)
        self.alive = True
        self._heard = self._loop.time()
        self._arm()
        if str(connection.protocol) != "2":
            # An existing client may speak the newer protocol, in which some answers have another shape.
            await self.call("HELLO", 2)

    @property
    def load(self) -> int:
        """How many answers are awaited."""
        return len(self._waiting)

    def call(self, *command: bytes | str | int) -> asyncio.Future[Answer]:
        """Send a command; the future gets its answer. Those of one turn of the event loop go out together."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        if not self.alive:
            future.set_result(self._lost(None))
            return future
        packed = hiredis.pack_command(command)  # type: ignore[arg-type]
        if not self._waiting:
            self._heard = self._loop.time()
        try:
            self._waiting.append(future)
            if not self._unsent:
                self._loop.call_soon(self._send)
            self._unsent.append(packed)
        except BaseException as error:
            # Ctrl-C in between: from here on, answers would be given to others than those who asked.
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
                # Done already: its caller was cancelled.
                if not future.done():
                    future.set_result(answer)
                # Not before it is told: whoever is interrupted in between leaves nobody without an answer.
                waiting.popleft()
        except (hiredis.ProtocolError, IndexError) as error:
            self.drop(error)
        except BaseException as error:
            self._interrupted(error)
            raise
        if waiting:
            self._heard = self._loop.time()

    # Watching over it

    def _arm(self) -> None:
        self._watch = self._loop.call_later(min(self._read_timeout, self._write_timeout) / 2, self._look)

    def _look(self) -> None:
        if not self.alive:
            return
        # First of all: whatever befalls the rest, it is looked at again.
        self._arm()
        now = self._loop.time()
        unsent = self._transport.get_write_buffer_size()
        taken = self._written - unsent
        if self._jammed and taken > self._taken:
            # A long request on a slow line is no silence.
            self._heard = now
        self._jammed, self._taken = unsent > 0, taken
        quiet = now - self._heard
        if self._waiting and quiet >= (self._write_timeout if unsent else self._read_timeout):
            trouble = "it takes no more data" if unsent else "no answer"
            self.drop(TimeoutError(f"{trouble} for {quiet:.1f} s"))
            return
        if not self._waiting and self._health_check and quiet >= self._health_check:
            self.call("PING")

    # Its end

    def drop(self, error: Exception | None) -> None:
        """Cut the connection at once; whoever waits for an answer is told that it is lost."""
        if self.alive:
            self._end(error)
            # A loop that was closed took its transports along, as far as anybody can.
            if not self._loop.is_closed():
                self._transport.abort()

    def _interrupted(self, error: BaseException) -> None:
        """Cut the connection because it is not known what was sent and what was told."""
        self.drop(RuntimeError(f"interrupted by {type(error).__name__}"))

    async def close(self) -> None:
        """Wait for the answers that are due, no longer than for any answer, then close the connection."""
        if self.alive and self._waiting:
            await asyncio.wait([*self._waiting], timeout=self._read_timeout)
        if self.alive and not self._waiting:
            self._end(None)
            self._transport.close()
            # Over TLS that is a conversation, too.
            await asyncio.wait([self._gone], timeout=self._read_timeout)
        if not self._gone.done():
            self._end(None)
            self._transport.abort()
        await asyncio.wait([self._gone], timeout=self._read_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        if not self._gone.done():
            self._gone.set_result(None)

    def _end(self, error: Exception | None) -> None:
        self.alive = False
        if self._watch:
            self._watch.cancel()
        if self._loop.is_closed():
            # Nobody waits any more, and nobody can be told.
            self._waiting.clear()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(self._lost(error))

    def _lost(self, error: Exception | None) -> TransientStorageError:
        message = f"the connection to Redis at {self.where} was lost; what it was doing may have been done"
        lost = TransientStorageError(f"{message} ({error})" if error else message, where=self.where)
        lost.__cause__ = error
        return lost
