"""Attempts to reach what another user owns, generated from the OpenAPI document and from the tools' own descriptions.

Each operation is tried with its own example, aimed at ana's records by bob. A new operation needs an example
(test_reference.py says so), and a new kind of id needs its value in OWNED: so none can be forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

import clew
from clew.server.reference.document import operations
from tests.server.support import KNOWN, PATIENCE, client, listening
from tests.server.test_mcp import call, inside, over_http

SECRET = "s3cret"
ANA = {"thread_id": "of-ana", "user_id": "ana"}
TALK = {"thread_id": "conv_of-ana", "user_id": "ana"}
OWNED: dict[str, Any] = {
    "thread_id": "of-ana",
    "to_thread": "of-ana",
    "message_id": "m1",
    "after": "m1",
    "checkpoint_id": "c1",
    "from": "c1",
    "to": "c1",
    "older": "c1",
    "newer": "c1",
    "erased": "ana",
    "conversation_id": "conv_of-ana",
    "item_id": "m1",
    "q": SECRET,
    "text": SECRET,
    "search": SECRET,
    "tag": "of-ana",
    "tags": ["of-ana"],
    "metadata": '{"owner": "ana"}',
}
"""What names something of ana's, by the parameter that takes it. `turn_id` is known when the turn is open."""
HARMLESS = {
    "limit",
    "offset",
    "last",
    "before",
    "namespace",
    "as",
    "order",
    "branches",
    "user_id",
    "role",
    "content",
    "days",
}
HARMLESS |= {"If-Match", "If-None-Match", "Idempotency-Key", "Last-Event-ID"}
"""Parameters that name nothing of anybody's. A new parameter belongs here, or into OWNED."""


async def filled() -> clew.BaseCheckpointer:
    """A store in which everything of ana's is secret."""
    memory = clew.connect("memory://")
    said = clew.Message(message_id="m1", role="user", content=SECRET)
    await memory.aput_checkpoint(ANA, {"secret": SECRET}, new_id="c1", messages=[said], metadata={"about": SECRET})
    await memory.aput_attachments({**ANA, "checkpoint_id": "c1"}, {"k": SECRET})
    await memory.aput_thread(ANA, {"thread_name": SECRET, "tags": ["of-ana"], "metadata": {"owner": "ana"}})
    await memory.aput_messages(TALK, [said])
    return memory


async def all_of_ana(memory: clew.BaseCheckpointer) -> Any:
    threads = await memory.alist_threads({"user_id": "ana"}, limit=None)
    kept = [
        (
            each,
            await memory.aget_history({"thread_id": each.thread_id, "user_id": "ana"}),
            await memory.alist_messages({"thread_id": each.thread_id, "user_id": "ana"}),
        )
        for each in threads
    ]
    return kept, await memory.alist_attachments({**ANA, "checkpoint_id": "c1"})


async def document() -> dict[str, Any]:
    async with client(clew.connect("memory://")) as http:
        read: dict[str, Any] = (await http.get("/docs/openapi.json")).json()
        return read


def aimed(body: Any) -> Any:
    """The example of a body, with ana's ids in the place of its own."""
    if isinstance(body, dict):
        return {
            key: OWNED[key] if isinstance(value, str) and key in OWNED else aimed(value) for key, value in body.items()
        }
    return [aimed(each) for each in body] if isinstance(body, list) else body


def attempts(operation: dict[str, Any], path: str, owned: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield requests for what ana owns: the address, the query and the body."""
    query: dict[str, Any] = {}
    required: dict[str, Any] = {}
    for each in operation.get("parameters", ()):
        name = each["name"]
        assert name in owned or name in HARMLESS, f"{name} is new: add it to OWNED or to HARMLESS"
        if each["in"] == "path":
            assert name in owned, f"{path}: {name} names something that somebody owns"
        if each["in"] == "query" and name in owned:
            query[name] = owned[name]
            required |= {name: owned[name]} if each["required"] else {}
    address = path.format(**owned)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    for user in ({}, {"user_id": "ana"}, {"user_id": "bob"}):
        yield address, {**required, **user}, body
        yield address, {**query, **user}, aimed(body)


async def with_a_turn_of_ana(http: httpx.AsyncClient) -> dict[str, Any]:
    """Open a turn of ana's, and return what is owned with it."""
    opened = await http.post("/api/threads/busy/turns", json={}, headers={"Authorization": "Bearer ana"})
    assert opened.status_code == 201
    return {**OWNED, "turn_id": opened.json()["turn_id"]}


def test_no_operation_lets_one_user_reach_what_another_owns():
    async def main() -> None:
        memory = await filled()
        described = await document()
        tried = 0
        async with client(memory, token="bob") as http:
            owned = await with_a_turn_of_ana(http)
            before = await all_of_ana(memory)
            for method, path, operation in operations(described):
                if path.endswith("/events"):
                    continue  # These never end: test_events.py tries them.
                for address, query, body in attempts(operation, path, owned):
                    sent = {} if body is None else {"json": body}
                    answer = await http.request(method, address, params=query, **sent)
                    name = f"{method} {address} {query}"
                    assert answer.status_code < 500, f"{name}: {answer.text}"
                    assert SECRET not in answer.text.replace(str(query.get("q")), ""), name
                    if query.get("user_id") == "ana":
                        foreign = "user_id" in {each["name"] for each in operation.get("parameters", ())}
                        assert answer.status_code in (400, 403) or not foreign, name
                    tried += 1
            assert await all_of_ana(memory) == before
        assert tried > 200

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_no_request_drawn_from_the_document_reaches_what_another_owns():
    memory = asyncio.run(filled())
    before = asyncio.run(all_of_ana(memory))
    schema: Any = schemathesis.openapi.from_dict(asyncio.run(document()))
    with listening(memory, authenticators=[KNOWN]) as url:
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path.endswith(("/events", "/turns")):
                continue  # Events never end, and turns wait for each other.
            attacked(operation, url)
    assert asyncio.run(all_of_ana(memory)) == before


def attacked(operation: Any, url: str) -> None:
    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def run(case: Any) -> None:
        for name, value in OWNED.items():
            for place in (case.path_parameters, case.query):
                if isinstance(place, dict) and name in place:
                    place[name] = value
        answer = case.call(base_url=url, headers={"Authorization": "Bearer bob"}, timeout=PATIENCE)
        assert answer.status_code < 500, case.as_curl_command()
        assert SECRET not in answer.text, case.as_curl_command()

    run()


@pytest.mark.parametrize("open_client", [inside, over_http], ids=["inside", "http"])
def test_no_tool_lets_one_user_reach_what_another_owns(open_client):
    async def main() -> None:
        memory = await filled()
        before = await all_of_ana(memory)
        async with open_client(memory, "bob", mcp_scope="write") as agent:
            tools = (await agent.list_tools()).tools
            assert len(tools) == 8
            for tool in tools:
                taken = tool.input_schema["properties"]
                unknown = taken.keys() - OWNED.keys() - HARMLESS
                assert not unknown, f"{tool.name}: {unknown} are new: add them to OWNED or to HARMLESS"
                given = {name: OWNED[name] for name in taken if name in OWNED}
                given |= {name: "user" for name in ("role", "content") if name in taken}
                bare = {name: value for name, value in given.items() if name in tool.input_schema.get("required", ())}
                for arguments in (given, bare):
                    assert SECRET not in str(await call(agent, tool.name, **arguments)), tool.name
        assert await all_of_ana(memory) == before

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_reader_changes_nothing():
    async def main() -> None:
        memory = await filled()
        before = await all_of_ana(memory)
        async with client(memory, token="reader") as http:
            assert (await http.get("/api/threads/of-ana/state")).status_code == 200
            for method, path, operation in operations(await document()):
                if method == "GET" or "turn_id" in path:
                    continue
                address, query, body = next(attempts(operation, path, OWNED))
                answer = await http.request(method, address, params=query, **({} if body is None else {"json": body}))
                assert answer.status_code == 403, f"{method} {path}: {answer.status_code} {answer.text}"
        assert await all_of_ana(memory) == before

    asyncio.run(asyncio.wait_for(main(), 120))
