"""A TCP proxy that cuts connections, and delays or loses data, on request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from clew.testing.servers.process import HOST, Closing

R = TypeVar("R")


class Proxy(Closing):
    """A proxy in front of a server, with its own `port` and thread. A context manager.

    Every method takes effect before it returns, and may be called from any thread.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._connections: set[_Connection] = set()
        self._connecting: set[asyncio.Future[Streams]] = set()
        self._delay = 0.0
        self._answers_left: int | None = None
        self.connections_made = 0
        self.bytes_asked = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="clew-proxy", daemon=True)
        self._thread.start()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._accepting = True
        self._run(self._listen)

    @classmethod
    def before(cls, url: str) -> Proxy:
        """Return a proxy for the server at `url`."""
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        return cls(parts.hostname, parts.port)

    def url(self, url: str) -> str:
        """Return `url` with the address of this proxy."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user[0]}{user[1]}{HOST}:{self.port}").geturl()

    def cut(self) -> None:
        """Cut all connections."""
        self._run(self._cut)

    def refuse(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._accepting = False
        self.cut()

    def accept(self) -> None:
        """Accept connections again, and pass all data."""
        self._accepting = True
        self._delay = 0.0
        self._run(partial(self._pass_answers, None))

    def delay(self, seconds: float) -> None:
        """Delay every answer by `seconds`."""
        self._delay = seconds

    def lose_answers(self, *, after: int = 0) -> None:
        """Pass requests, but cut connections after `after` bytes of answers, until `accept`."""
        self._run(partial(self._pass_answers, after))

    def close(self) -> None:
        if not self._loop.is_closed():
            self._run(self._end)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Callable[[], Awaitable[R]]) -> R:
        async def whole() -> R:
            return await work()

        return asyncio.run_coroutine_threadsafe(whole(), self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _pass_answers(self, left: int | None) -> None:
        # In the loop that counts the bytes, so that it does not change while an answer is being cut.
        self._answers_left = left

    async def _cut(self) -> None:
        for connection in list(self._connections):
            connection.cut()

    async def _end(self) -> None:
        assert self._server
        self._server.close()
        await self._cut()
        connecting = list(self._connecting)
        for each in connecting:
            each.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        await asyncio.gather(*(connection.ended.wait() for connection in list(self._connections)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_made += 1
        if not self._accepting:
            writer.transport.abort()
            return
        try:
            there = await self._reach_server()
        except (OSError, TimeoutError):
            writer.transport.abort()
            return
        connection = _Connection((reader, writer), there)
        self._connections.add(connection)
        try:
            await asyncio.gather(self._requests(connection), self._answers(connection))
        finally:
            connection.cut()
            self._connections.discard(connection)
            connection.ended.set()

    async def _reach_server(self) -> Streams:
        """Return a connection to the server. A paused server accepts no more at some point:
        then this waits for `close`."""
        connecting = asyncio.ensure_future(asyncio.open_connection(*self._target))
        self._connecting.add(connecting)
        try:
            return await connecting
        except asyncio.CancelledError as error:
            raise TimeoutError("the proxy was closed") from error
        finally:
            self._connecting.discard(connecting)

    async def _requests(self, connection: _Connection) -> None:
        with suppress(OSError):
            while data := await connection.client[0].read(65536):
                self.bytes_asked += len(data)
                connection.server[1].write(data)
                await connection.server[1].drain()
        connection.cut()

    async def _answers(self, connection: _Connection) -> None:
        with suppress(OSError):
            while data := await connection.server[0].read(65536):
                if self._delay:
                    await connection.held_back(self._delay)
                left = self._answers_left
                if left is not None:
                    data = data[:left]
                    self._answers_left = left - len(data)
                last = self._answers_left == 0
                connection.client[1].write(data)
                await connection.client[1].drain()
                if last:
                    # Later data would be taken for the rest of this answer.
                    break
        connection.finish()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    def __init__(self, client: Streams, server: Streams) -> None:
        self.client = client
        self.server = server
        self.ended = asyncio.Event()
        self._cut = asyncio.Event()

    async def held_back(self, seconds: float) -> None:
        """Wait for `seconds`, or until the connection is cut."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._cut.wait(), seconds)

    def cut(self) -> None:
        """Abort the connection without a FIN, like a broken wire."""
        self._cut.set()
        self.client[1].transport.abort()
        self.server[1].transport.abort()

    def finish(self) -> None:
        """Close the connection after its data has been delivered."""
        self.client[1].close()
        self.server[1].transport.abort()
