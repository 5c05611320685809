"""Event streams and the end of the server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest

import clew
from clew.server import app
from clew.server.lifetime import at_a_signal
from tests.server.support import PATIENCE
from tests.server.test_serve import serving


def test_an_open_stream_does_not_hold_up_the_end_of_the_server(tmp_path):
    with serving(tmp_path) as (url, process), httpx.Client(base_url=url, timeout=PATIENCE) as http:
        with http.stream("GET", "/api/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == ": watching"
            process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line.strip()] == []
        assert process.stdout is not None
        # uvicorn says so when it has to cut off a client.
        assert "graceful" not in process.stdout.read()


def test_a_stream_that_begins_during_the_end_ends_at_once():
    async def main() -> None:
        memory = clew.connect("memory://")
        served = app(memory)
        await served.end_streams()
        transport = httpx.ASGITransport(app=served)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await asyncio.wait_for(http.get("/api/events"), PATIENCE)
            assert answer.text.strip() == ": watching"
        await memory.arelease()

    asyncio.run(main())


ALONE = "api, root = served, ''"
MOUNTED = """
from fastapi import FastAPI
api, root = FastAPI(lifespan=served.lifespan), "/clew"
api.mount(root, served)
"""
SCRIPT = """
import signal, socket
# A shell starts what it runs in the background with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import clew, clew.server, uvicorn
served = clew.server.app(clew.connect("sqlite:///agent.db"))
{mount}
with socket.socket() as listening:
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(f"http://127.0.0.1:{{listening.getsockname()[1]}}{{root}}", flush=True)
    uvicorn.Server(uvicorn.Config(api, log_level="warning")).run(sockets=[listening])
"""


@pytest.mark.parametrize(
    ("mount", "number"), [(ALONE, signal.SIGINT), (MOUNTED, signal.SIGTERM)], ids=["alone", "mounted"]
)
def test_streams_and_turns_end_with_any_server(tmp_path, mount, number):
    script = [sys.executable, "-c", SCRIPT.format(mount=mount)]
    with subprocess.Popen(script, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url, timeout=PATIENCE) as http:
                assert http.post("/api/threads/t/turns", json={"begin": 0, "ttl": 3600}).status_code == 201
                with http.stream("GET", "/api/events") as stream:
                    lines = stream.iter_lines()
                    assert next(lines) == ": watching"
                    process.send_signal(number)
                    assert [line for line in lines if line.strip()] == []
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == -number, said
    assert "graceful" not in said
    with clew.connect(f"sqlite:///{tmp_path}/agent.db") as memory, memory.turn("t", wait=0) as turn:
        # The server has left the thread, long before its turn would have expired.
        turn.state = 1


class Watcher:
    """A client of a stream, without a network."""

    def __init__(self) -> None:
        self.watching, self.ended = asyncio.Event(), asyncio.Event()
        self._sent = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive(self) -> Any:
        if self._sent:
            return self._sent.pop()
        await self.ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if b"watching" in message.get("body", b""):
            self.watching.set()
        if message["type"] == "http.response.body" and not message["more_body"]:
            self.ended.set()


def test_an_application_that_begins_again_has_streams_again():
    scope = {"type": "http", "method": "GET", "path": "/api/events", "raw_path": b"/api/events", "scheme": "http"}
    scope |= {"query_string": b"", "headers": [(b"host", b"localhost")], "root_path": ""}

    async def main() -> None:
        memory = clew.connect("memory://")
        served = app(memory)
        for _ in range(2):
            async with served.lifespan(None):
                watcher = Watcher()
                stream = asyncio.create_task(served(scope, watcher.receive, watcher.send))
                await watcher.watching.wait()
                await asyncio.sleep(0)
                assert not watcher.ended.is_set()
            # The end of the lifespan ends it.
            await stream
        await memory.arelease()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


class Handlers:
    """Handlers of a server, which count their signals."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def handle(self, number: int, _: Any) -> None:
        self.got.append(number)


@pytest.fixture
def server():
    """A server's handler of SIGTERM, and nobody's of SIGINT."""
    counting = Handlers()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, counting.handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield counting
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_reaches_the_application_and_then_the_server(server):
    told: list[str] = []
    with at_a_signal(lambda: told.append(f"before {server.got}")):
        os.kill(os.getpid(), signal.SIGTERM)
        # A signal that nobody handles is left alone.
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert (told, server.got) == (["before []"], [signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) == server.handle


def test_a_handler_that_was_set_later_is_left_and_may_call_the_earlier_one(server):
    told: list[str] = []
    with at_a_signal(lambda: told.append("first")):
        later = at_a_signal(lambda: told.append("second"))
        later.__enter__()
    os.kill(os.getpid(), signal.SIGTERM)
    # The first one has ended, and only passes the signal on.
    assert (told, server.got) == (["second"], [signal.SIGTERM])
    later.__exit__(None, None, None)


def test_signals_are_left_alone_outside_of_the_main_thread(server):
    seen = []

    def enter() -> None:
        with at_a_signal(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [server.handle]
