"""Clients of an application in this process, and servers in threads of it."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import uvicorn

import clew
from clew.server import Caller, Limits, app

PATIENCE = 120.0


class Known:
    """Callers by fixed tokens."""

    def __init__(self, **callers: Caller) -> None:
        self._callers = callers

    def caller(self, secret: str) -> Caller | None:
        return self._callers.get(secret)


ANA = Caller(name="ana", user="ana", scope="write")
BOB = Caller(name="bob", user="bob", scope="write")
READER = Caller(name="reader", user="ana", scope="read")
OPERATOR = Caller(name="operator", user=clew.ANY_USER, scope="write")
WATCHER = Caller(name="watcher", user=clew.ANY_USER, scope="read")
KNOWN = Known(ana=ANA, bob=BOB, reader=READER, operator=OPERATOR, watcher=WATCHER)


@asynccontextmanager
async def client(
    memory: clew.BaseCheckpointer, token: str | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of a server. With `token`, the server knows the callers above."""
    served = app(memory, authenticators=[KNOWN] if token is not None else (), **options)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app=served, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as opened:
        yield opened


@contextmanager
def listening(memory: clew.BaseCheckpointer, **options: Any) -> Iterator[str]:
    """Serve `memory` on a free port of this machine without a limit of requests, and yield the address."""
    served = app(memory, limits=Limits(rate=1e9, burst=10**9), **options)
    server = uvicorn.Server(uvicorn.Config(served, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
