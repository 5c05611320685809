"""Connections that send the head of a request slowly, without an end, or in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

import clew
from clew.server import app
from clew.server.connection import Connection, Joined
from clew.server.gate import Gate
from tests.server.support import PATIENCE

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Hasty(Connection):
    head_seconds = 0.05


class Patient(Connection):
    head_seconds = 10 * PATIENCE


@cache
def served() -> Gate:
    return app(clew.connect("memory://"))


@asynccontextmanager
async def connected(kind: type[Connection] = Connection) -> AsyncIterator[Streams]:
    """Serve an empty store on connections of this class, and open one."""
    config = uvicorn.Config(served(), lifespan="off", access_log=False)
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config, state, {}, loop), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer
        writer.close()


async def last_words(reader: asyncio.StreamReader) -> bytes:
    """Wait for the end of the connection. Return the answer, or nothing if a reset has overtaken it."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: "])
def test_a_client_that_sends_no_whole_head_is_cut_off(sent):
    async def test():
        async with connected(Hasty) as (reader, writer):
            writer.write(sent)
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""

    asyncio.run(test())


def test_bytes_that_trickle_in_give_a_client_no_more_time():
    async def test():
        async with connected(Hasty) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nx-slow: ")
            end = asyncio.ensure_future(last_words(reader))
            while not end.done():
                writer.write(b"a")
                await asyncio.wait([end], timeout=0.005)
            assert end.result() == b""

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


@pytest.mark.parametrize("piece", [b"x-name: " + b"a" * 1000 + b"\r\n", b"a" * 1000])
def test_a_head_without_an_end_is_refused(piece):
    async def test():
        async with connected(Patient) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nx-long: ")
            end = asyncio.ensure_future(last_words(reader))
            while not end.done():
                writer.write(piece)
                await asyncio.sleep(0)
            assert end.result()[:13] in (b"HTTP/1.1 400 ", b"")

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


def test_a_request_in_pieces_is_answered_and_so_is_the_next():
    async def test():
        async with connected() as (reader, writer):
            for _ in range(2):
                for byte in b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n":
                    writer.write(bytes([byte]))
                    await writer.drain()
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(15) == b'{"status":"ok"}'

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost",
        b"GET http://localhost/healthz\xff HTTP/1.1\r\nhost: localhost",
        b"GET /healthz HTTP/1.1\r\nhost: other\r\nhost: localhost",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
    ],
)
def test_strange_heads_are_refused_and_raise_nothing(head):
    async def test():
        async with connected() as (reader, writer):
            writer.write(head + b"\r\n\r\n")
            assert (await reader.readuntil(b"\r\n"))[9:10] == b"4"

    asyncio.run(asyncio.wait_for(test(), PATIENCE))


class Wire(asyncio.Transport):
    """A transport that notes what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_the_parts_of_an_answer_are_sent_together():
    async def test():
        wire = Wire()
        joined = Joined(wire, asyncio.get_running_loop())
        for _ in range(2):
            joined.write(b"head, ")
            joined.write(b"body")
            await asyncio.sleep(0)
        assert wire.sent == [b"head, body"] * 2

    asyncio.run(test())


def test_a_long_answer_is_not_held_back():
    async def test():
        wire = Wire()
        joined = Joined(wire, asyncio.get_running_loop())
        for _ in range(3):
            joined.write(b"a" * 50_000)
        assert wire.sent == [b"a" * 100_000]
        await asyncio.sleep(0)
        assert wire.sent == [b"a" * 100_000, b"a" * 50_000]

    asyncio.run(test())


def test_a_connection_sends_what_was_written_before_it_closes():
    async def test():
        wire = Wire()
        joined = Joined(wire, asyncio.get_running_loop())
        joined.write(b"the last words")
        joined.close()
        assert wire.sent == [b"the last words"]
        assert joined.is_closing()
        await asyncio.sleep(0)

    asyncio.run(test())
