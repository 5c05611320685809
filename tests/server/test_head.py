"""HEAD: as GET, without the content."""

from __future__ import annotations

import httpx

import clew
from tests.server.support import PATIENCE, listening
from tests.server.test_api import served


def test_head_is_answered_as_get_is_without_the_content():
    async def test(memory, http):
        await memory.aput_state("t", {"n": 1})
        paths = ("/", "/studio/icon.svg", "/docs", "/healthz", "/readyz", "/api/threads", "/api/threads/t/state")
        for path in (*paths, "/api/threads/none", "/api/threads?limit=0", "/mcp", "/nothing"):
            got, head = await http.get(path), await http.head(path)
            assert (head.status_code, head.content) == (got.status_code, b""), path
            assert head.headers == got.headers, path
        assert (await http.head("/api/threads/t/fork")).status_code == 405
        assert 'clew_http_requests_total{method="HEAD",route="/",status="200"} 1.0' in (await http.get("/metrics")).text

    served(test)


def test_head_on_an_event_stream_ends_at_once():
    with (
        clew.connect("memory://") as memory,
        listening(memory) as url,
        httpx.Client(base_url=url, timeout=PATIENCE) as http,
    ):
        for _ in range(2):  # The connection stays usable.
            head = http.head("/api/events")
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-type"].startswith("text/event-stream")
        assert http.head("/").headers["content-length"] != "0"
        assert http.get("/api/threads").json() == {"threads": [], "next": None}
