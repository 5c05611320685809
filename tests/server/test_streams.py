"""Event streams and the end of the server."""

from __future__ import annotations

import asyncio
import signal

import httpx

import clew
from clew.server import app
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
