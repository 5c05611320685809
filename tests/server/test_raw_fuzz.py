"""A fuzz of the server with bytes that no client of the document would send: paths, queries, headers and bodies."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.server import Limits, app
from clew.server.query_parameters import parameters
from tests.rings import rounds
from tests.server.support import PATIENCE
from tests.server.test_fuzz import afill

EXAMPLES = rounds(200, 3000)
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "QUERY"]
ODD = [
    *(b"%00", b"%", b"%zz", b"%ff%fe", b"%ed%a0%80", b"..", b"%2e%2e%2f", b"//", b"%2F", b"trip", b"conv_1", b"m1"),
    *(b"%24type", b"\xb2", b"-1", b"1e999", b"9" * 400, b"NaN", b"null", b'"', b"[", b"{", b"*", b"%F0%9F%98%80"),
    *(b"http://[", b"http://localhost", b"bytes=0-1", b"gzip", b"application/json", b'"c1"', b"W/", b"c1,c2"),
]
PIECES = st.one_of(st.binary(max_size=12), st.sampled_from(ODD))
NAMES = [
    *(b"user_id", b"checkpoint_id", b"namespace", b"before", b"after", b"limit", b"offset", b"last", b"search", b"q"),
    *(b"tag", b"metadata", b"as", b"branches", b"from", b"to", b"to_thread", b"days", b"order", b"thread_id"),
]
HEADERS = [
    *(b"origin", b"content-length", b"content-type", b"if-match", b"if-none-match", b"idempotency-key", b"accept"),
    *(b"accept-encoding", b"authorization", b"last-event-id", b"sec-fetch-site", b"cookie", b"range", b"x-other"),
    *(b"access-control-request-method", b"transfer-encoding", b"mcp-protocol-version", b"mcp-session-id"),
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(codec=None), max_size=8)),
        st.sampled_from(
            ["$type", "tuple", "datetime", "record", "int", "dict", "2026-01-31", "c1", "m1", "trip", 10**400]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.sampled_from(["$type", "value", "zone"])), inner, max_size=3),
        st.builds(
            lambda kind, value: {"$type": kind, "value": value},
            st.sampled_from(
                ["tuple", "set", "datetime", "time", "timedelta", "bytes", "dict", "int", "decimal", "record"]
            ),
            inner,
        ),
    ),
    max_leaves=8,
)
FIELDS = [
    *("state", "messages", "node_name", "step", "metadata", "run_id", "set", "append", "remove", "checkpoint_id", "to"),
    *(
        "namespace",
        "thread_id",
        "turns",
        "attachments",
        "policy",
        "dry_run",
        "begin",
        "ttl",
        "items",
        "jsonrpc",
        "method",
    ),
    *(
        "thread_name",
        "tags",
        "role",
        "content",
        "tool_calls",
        "usage",
        "created_at",
        "message_id",
        "type",
        "params",
        "id",
    ),
]
MESSAGES = st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5), max_size=2)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), st.one_of(VALUES, MESSAGES), max_size=5)
BODIES = st.one_of(
    st.binary(max_size=40),
    VALUES.map(lambda value: json.dumps(value).encode()),
    OBJECTS.map(lambda value: json.dumps({**value, "wait": 0}).encode()),
    OBJECTS.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [b"[" * 100_000, b'{"a":' * 20_000, b"\xef\xbb\xbf{}", b'"\\ud800"', b'{"state": "\\ud800"}', b"{}"]
    ),
)


def routes(served: Any) -> dict[str, list[bytes]]:
    """Return the paths of all routes, those of the studio too, with places for ids, and places where nothing is.

    Each has the names of its query parameters, because a request with another name gets no further.
    """
    paths = {
        re.sub(r"{\w+:str}", "{}", route.path): sorted(
            {name.encode() for handler in getattr(route, "route_handlers", ()) for name in parameters(handler)}
        )
        for route in served._inner.routes
    }
    assert {"/", "/studio/{}", "/docs/openapi.json", "/mcp", "/api/threads/{}/state"} <= set(paths)
    assert b"tag" in paths["/api/threads"]
    return paths | {"/{}": [], "/api/{}": []}


@st.composite
def requests(draw: Any, paths: dict[str, list[bytes]]) -> tuple[str, bytes, bytes, list[tuple[bytes, bytes]], bytes]:
    """Draw a method, a path, a query, headers and a body."""
    chosen = draw(st.sampled_from(sorted(paths)))
    path = chosen.encode()
    while b"{}" in path:
        known = b"conv_1" if path.startswith(b"/v1") else b"trip"
        path = path.replace(b"{}", draw(st.one_of(st.just(known), PIECES)) or b"x", 1)
    names = st.one_of(st.sampled_from(NAMES), PIECES)
    if paths[chosen] and draw(st.integers(0, 3)):
        names = st.sampled_from(paths[chosen])
    pairs = draw(st.lists(st.tuples(names, PIECES), max_size=4))
    query = b"&".join(name + b"=" + value for name, value in pairs)
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += draw(st.lists(st.tuples(st.sampled_from(HEADERS), PIECES), max_size=3))
    return draw(st.sampled_from(METHODS)), path.partition(b"?")[0], query, headers, draw(BODIES)


async def answered(served: Any, method: str, path: bytes, query: bytes, headers: Any, body: bytes) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a request, which a server would pass on like this."""
    told: list[Any] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        told.append(message)

    scope: dict[str, Any] = {"type": "http", "method": method, "path": path.decode("latin-1"), "raw_path": path}
    scope |= {"query_string": query, "headers": headers, "scheme": "http", "http_version": "1.1", "root_path": ""}
    scope |= {"client": ("127.0.0.1", 1), "server": ("localhost", 80), "asgi": {"version": "3.0"}}
    await asyncio.wait_for(served(scope, receive, send), PATIENCE)
    return told[0]["status"], b"".join(each.get("body", b"") for each in told[1:])


def test_no_bytes_make_the_server_fail():
    told: Counter[int] = Counter()
    with asyncio.Runner() as runner:
        memory = clew.connect("memory://")
        served = app(memory, limits=Limits(rate=None), mcp_scope="write")
        lifespan = served.lifespan(None)
        runner.run(lifespan.__aenter__())
        runner.run(afill(memory))

        @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(request=requests(routes(served)))
        def run(request: Any) -> None:
            status, body = runner.run(answered(served, *request))
            told[status] += 1
            assert status < 500, f"{status} {body!r}"

        run()
        runner.run(lifespan.__aexit__(None, None, None))
        runner.run(memory.arelease())
    assert {200, 400, 404, 405} <= told.keys(), told


def asked(
    method: str, path: str, *, query: bytes = b"", headers: tuple[tuple[bytes, bytes], ...] = (), body: bytes = b""
) -> int:
    """Return the status of the answer of a new server."""

    async def main() -> int:
        memory = clew.connect("memory://")
        known = [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]
        status, _ = await answered(app(memory), method, path.encode(), query, known, body)
        await memory.arelease()
        return status

    return asyncio.run(main())


def test_a_query_that_is_not_utf_8_is_refused():
    assert asked("GET", "/api/threads", query=b"user_id=\x80") == 400
    assert asked("GET", "/nothing", query=b"\xff") == 400
    assert asked("GET", "/api/threads", query="user_id=ü".encode()) == 200


def test_an_origin_that_is_no_address_is_refused():
    assert asked("GET", "/api/threads", headers=((b"origin", b"http://["),)) == 403


def test_a_length_that_is_no_number_is_left_to_the_body():
    assert asked("GET", "/api/threads", headers=((b"content-length", b"\xb2"),)) == 200


def test_a_body_that_nests_too_deep_is_refused():
    for body in (b"[" * 100_000, b'{"thread_name":' + b"[" * 100_000, b'{"metadata":' * 100_000):
        assert asked("PATCH", "/api/threads/trip", body=body) == 400
