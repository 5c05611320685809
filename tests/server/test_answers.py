"""Answers and their schemas: every answer is what the OpenAPI document says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import wraps
from typing import Any

import pytest

import clew
from clew.server.problems import STATUSES
from clew.server.reference.document import operations
from tests.server import story
from tests.server.described import answer_faults, closed, faults
from tests.server.support import client

NAMED = "#/components/schemas/"


@pytest.fixture(scope="module")
def document() -> Any:
    async def read() -> Any:
        async with client(clew.connect("memory://")) as http:
            return (await http.get("/docs/openapi.json")).json()

    return closed(asyncio.run(read()))


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of an async one."""

    @wraps(test)
    def ran(document: Any) -> None:
        asyncio.run(test(document))

    return ran


def test_every_answer_is_described_by_a_named_schema(document):
    for method, path, operation in operations(document):
        assert any(status[0] == "2" for status in operation["responses"])
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                schema = content.get("x-itemSchema", content["schema"])
                if kind == "text/plain":
                    assert schema == {"type": "string"}
                    continue
                named = [each["$ref"] for each in schema.get("oneOf", [schema])]
                assert named, f"{method} {path} {status}"
                for each in named:
                    component = document["components"]["schemas"][each.removeprefix(NAMED)]
                    assert component["description"]
                    assert component["properties"].keys() == set(component["required"])


def test_every_component_is_used(document):
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f'"{NAMED}{name}"' in text, name


def test_the_answers_of_a_real_run_are_what_the_document_says(document):
    told = asyncio.run(asyncio.wait_for(story.tell(), 120))
    assert len(told) == len(list(operations(document)))
    for name, example in told.items():
        answer = example["response"]
        kind = example.get("type", "application/json")
        body = "" if answer is None else answer if kind != "application/json" else json.dumps(answer)
        assert answer_faults(document, name, example["status"], kind, body) == [], name


def test_an_answer_with_another_field_or_without_one_is_a_fault(document):
    health = {"$ref": f"{NAMED}Health"}
    assert faults(document, health, {"status": "ok"}) == []
    for wrong in ({}, {"status": "fine"}, {"status": "ok", "since": 1}, None):
        assert faults(document, health, wrong), wrong
    at = {"type": "string", "format": "date-time"}
    assert faults(document, at, "2026-01-31T12:00:00+00:00") == []
    assert faults(document, at, "yesterday")


async def ask(http: Any, document: Any, template: str, method: str = "GET", **options: Any) -> Any:
    """Send a request to `template`, whose ids are in `at`, and check the answer against the document."""
    answer = await http.request(method, template.format(**options.pop("at", {})), **options)
    kind = answer.headers.get("content-type", "")
    assert answer_faults(document, f"{method} {template}", answer.status_code, kind, answer.text) == []
    return answer


THREAD = "/api/threads/{thread_id}"
READS = ("", "/state", "/checkpoints", "/history", "/messages", "/attachments")
STRANGE = {"$type": 1, "key": (1, {2}), "big": 2**70, "nan": float("nan"), "raw": b"\0"}
"""A mapping whose keys and values JSON lacks."""


@run
async def test_answers_with_all_that_a_thread_can_have_are_described(document):
    memory = clew.connect("memory://")
    for name in ("trip", "$type", "value"):
        config = {"thread_id": name, "user_id": 2**60}
        said: list[Any] = [
            {"role": "user", "content": [{"type": "text", "text": "To Lyon!"}], "metadata": STRANGE},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "t", "function": {"name": "book"}}]},
            {"role": "tool", "tool_call_id": "t", "content": "booked"},
            clew.Message(role="assistant", content="Done.", usage={"input_tokens": 2, "output_tokens": 3}),
        ]
        first = await memory.aput_checkpoint(config, STRANGE, messages=said, metadata=STRANGE, step=1, node_name="plan")
        head = await memory.aput_checkpoint(config, [STRANGE])
        await memory.aput_state({**config, "checkpoint_ns": "inner"}, 1)
        await memory.aput_attachments(head.config, {"$type": STRANGE, "other": 1})
        await memory.aput_thread(config, thread_name="Lyon", tags=["rail"], metadata=STRANGE, ttl=60.5)
        await memory.aput_retention(config, clew.RetentionPolicy(max_age=timedelta(days=3)))
        await memory.afork(first.config, f"{name}-fork")
    async with client(memory) as http:
        for name in ("trip", "$type", "value", "trip-fork"):
            for rest in READS:
                answer = await ask(http, document, THREAD + rest, at={"thread_id": name})
                assert answer.status_code == 200
            for dialect in ("openai", "openai-responses", "anthropic", "gemini"):
                await ask(http, document, f"{THREAD}/messages", at={"thread_id": name}, params={"as": dialect})
        where = {"from": first.checkpoint_id}
        diff = await ask(http, document, f"{THREAD}/diff", at={"thread_id": "value"}, params=where)
        assert diff.json()["changes"]
        assert (await ask(http, document, "/api/search", params={"q": "lyon"})).json()["hits"]
        for path in ("/api/threads", "/api/status", "/api/me"):
            await ask(http, document, path)
        # An id is a key like any other.
        stats = (await ask(http, document, "/api/stats")).json()
        assert stats["by_thread"]["$type"]["checkpoints"] == stats["checkpoints_per_session"]["$type"] == 3
        assert (await ask(http, document, "/api/overview")).json()["largest"][0]["user_id"] == str(2**60)
    await memory.arelease()


@run
async def test_the_state_that_a_caller_has_is_not_sent_again(document):
    memory = clew.connect("memory://")
    await memory.aput_state("trip", {"city": "Lyon"})
    async with client(memory) as http:
        here: dict[str, Any] = {"at": {"thread_id": "trip"}}
        answer = await ask(http, document, f"{THREAD}/state", **here)
        again = {"If-None-Match": answer.headers["etag"]}
        assert (await ask(http, document, f"{THREAD}/state", headers=again, **here)).status_code == 304
    await memory.arelease()


@run
async def test_errors_of_every_layer_are_described(document):
    memory = clew.connect("memory://")
    told = set()
    async with client(memory, "reader", limits=clew.server.Limits(body_bytes=1000)) as http:
        requests: list[tuple[str, str, dict[str, Any]]] = [
            (THREAD, "GET", {}),
            (THREAD, "GET", {"params": {"user_id": "bob"}}),
            (THREAD, "GET", {"headers": {"Host": "evil.example"}}),
            (THREAD, "GET", {"headers": {"Authorization": "Bearer nothing"}}),
            (THREAD, "PATCH", {"json": {}}),
            (THREAD, "PATCH", {"content": b"x" * 2000}),
            (f"{THREAD}/messages", "GET", {"params": {"limit": 0}}),
            (f"{THREAD}/messages", "POST", {"content": b"{"}),
        ]
        for template, method, options in requests:
            answer = await ask(http, document, template, method, at={"thread_id": "trip"}, **options)
            told.add(answer.status_code)
    assert told == {404, 403, 421, 401, 413, 400}
    await memory.arelease()


class Failing:
    """A store that raises `error` whatever is asked."""

    def __init__(self, error: clew.ClewError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any, **__: Any) -> Any:
            raise self._error

        return fail


@run
async def test_errors_of_the_store_are_described(document):
    for kind, status in STATUSES:
        error = kind.__new__(kind)
        Exception.__init__(error, "nothing works")
        failing: Any = Failing(error)
        async with client(failing) as http:
            answer = await ask(http, document, THREAD, at={"thread_id": "trip"})
            assert answer.status_code == status
            assert answer.json()["error"] == kind.__name__


@run
async def test_a_store_that_is_down_is_described(document):
    class Down:
        async def astatus(self) -> clew.Status:
            return clew.Status(primary_healthy=False)

    down: Any = Down()
    async with client(down) as http:
        answer = await ask(http, document, "/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
