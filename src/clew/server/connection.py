"""HTTP/1.1 connections: uvicorn's with httptools, limits for the head of a request, and answers in one piece.

httptools parses in C. It has no limit of its own: a head may have any size and take any time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection(HttpToolsProtocol):
    """A connection that is closed if a head grows beyond `head_bytes` or is not complete after `head_seconds`."""

    head_bytes = 64 << 10
    head_seconds = 30.0
    _in_head = False
    _received = 0
    _deadline: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.transport: Any = Joined(transport, self.loop)
        # uvicorn waits for the first byte without a limit.
        self._close_at(self.loop.time() + self.head_seconds)

    def data_received(self, data: bytes) -> None:
        continued = self._in_head
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        # The packet in which a head begins may hold the end of a long body.
        self._received += len(data) if continued else 0
        if self._received > self.head_bytes:
            self.send_400_response(f"The head of the request has more than {self.head_bytes} bytes.")
            return
        if self._deadline is None:
            self._deadline = self.loop.time() + self.head_seconds
        self._close_at(self._deadline)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._received, self._deadline = True, 0, None

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def _close_at(self, moment: float) -> None:
        # uvicorn cancels this timer when data arrives.
        self.timeout_keep_alive_task = self.loop.call_at(moment, self.timeout_keep_alive_handler)


class Joined:
    """A transport that sends what is written in one turn of the loop together.

    uvicorn writes the head and the body of an answer one after the other. Each call of the system costs as much
    as a small route, and lets another thread take the GIL.
    """

    most_bytes = 64 << 10

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)
        self._size += len(data)
        if self._size > self.most_bytes:
            # A long answer must meet the transport's limits, which make its writer wait.
            self._send()

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._written:
            self._transport.write(b"".join(self._written))
            self._written.clear()
            self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
