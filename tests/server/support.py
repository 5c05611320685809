"""Clients of an application in this process, and servers: in threads of it and as processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
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
    with in_a_thread(served, timeout_graceful_shutdown=1) as address:
        yield address


@contextmanager
def in_a_thread(served: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port in a thread of this process, and yield the address."""
    server = uvicorn.Server(uvicorn.Config(served, port=0, log_level="warning", **options))
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


@contextmanager
def running(
    folder: Path, url: str, *words: str, heard: list[str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `clew serve` or `clew studio` in `folder`, on `url` if there is one, and yield its address and process.

    The lines that it prints until then are added to `heard`.
    """
    whole = [sys.executable, "-m", "clew", *(["--url", url] if url else []), *words]
    environment = {**os.environ, "COLUMNS": "400", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        whole, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            lines = [] if heard is None else heard
            for line in process.stdout:
                lines.append(line)
                if found := re.search(r"(?:listening on|studio is at) (http\S+)", line):
                    yield found.group(1), process
                    break
            else:
                pytest.fail(f"it ended: {lines}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            process.wait(PATIENCE)
