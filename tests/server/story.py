"""A story that uses every operation of the API once. The reference shows its requests and answers as examples.

`python -m tests.server.story` records it again, after a change of what the API returns.
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import httpx

import clew
from clew.chance import drawn_from
from clew.server import app
from clew.server.reference.document import EXAMPLES
from clew.testing import FakeClock

KEY = {"Idempotency-Key": "order-4711"}


class Repeated:
    """The same ids in every run."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        drawn = Random(7)
        self.randbytes, self.uniform = drawn.randbytes, drawn.uniform

    def time_ns(self) -> int:
        return int(self._clock.now().timestamp() * 1e9)


class Told:
    """The story so far: what was asked and answered, by operation."""

    def __init__(self, served: Any, http: httpx.AsyncClient, clock: FakeClock) -> None:
        self.examples: dict[str, Any] = {}
        self._served, self._http, self._clock = served, http, clock

    async def ask(
        self,
        method: str,
        template: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        **path: str,
    ) -> Any:
        """Send a request, remember it as the example of its operation, and return the answer."""
        self._clock.advance(1)
        address = template.format(**{name: quote(value, safe="") for name, value in path.items()})
        sent = {"json": body} if body is not None else {}
        answer = await self._http.request(method, address, params=query or {}, headers=headers or {}, **sent)
        assert answer.status_code < 300, f"{method} {address}: {answer.text}"
        told: dict[str, Any] = {"path": path, "query": query or {}, "headers": headers or {}}
        told = {name: value for name, value in told.items() if value}
        if body is not None:
            told["request"] = body
        kind = answer.headers.get("content-type", "").partition(";")[0]
        told["status"] = answer.status_code
        told["response"] = answer.json() if kind == "application/json" else answer.text or None
        if answer.text and kind != "application/json":
            told["type"] = kind
        if "etag" in answer.headers:
            told["etag"] = answer.headers["etag"]
        self.examples[f"{method} {template}"] = told
        return told["response"]

    async def watch(self, template: str, query: dict[str, Any], happens: Any, **path: str) -> None:
        """Read a stream until its first event."""
        began, watching, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        text = ""

        async def receive() -> Any:
            if not began.is_set():
                began.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            await ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal text
            text += message.get("body", b"").decode()
            if "watching" in text:
                watching.set()
            if "data:" in text and text.endswith(("\r\n\r\n", "\n\n")):
                ended.set()

        address = template.format(**path)
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": address,
            "raw_path": address.encode(),
            "http_version": "1.1",
        }
        scope |= {"query_string": urlencode(query).encode(), "headers": [(b"host", b"localhost")], "scheme": "http"}
        scope |= {"client": ("127.0.0.1", 1), "server": ("localhost", 80), "root_path": "", "asgi": {"version": "3.0"}}
        task = asyncio.create_task(self._served(scope, receive, send))
        await watching.wait()
        await happens()
        await ended.wait()
        await task
        told = {"path": path, "query": query, "status": 200, "response": text.replace("\r\n", "\n")}
        told = {name: value for name, value in told.items() if value}
        self.examples[f"GET {template}"] = {**told, "type": "text/event-stream"}


async def tell() -> dict[str, Any]:
    """Tell the story to a server on a memory store, and return the examples."""
    clock = FakeClock()
    with drawn_from(Repeated(clock)):
        memory = clew.connect("memory://", clock=clock)
        served = app(memory)
        transport = httpx.ASGITransport(app=served)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            told = Told(served, http, clock)
            await _api(told, memory)
            await _conversations(told)
            await _operations(told)
        return told.examples


async def _api(told: Told, memory: clew.BaseCheckpointer) -> None:
    ask, trip, ana = told.ask, "/api/threads/{thread_id}", {"user_id": "ana"}
    this: dict[str, Any] = {"thread_id": "trip", "query": ana}
    question = {"message_id": "m1", "role": "user", "content": "To Lyon, by train!"}
    state = {"city": "Lyon", "stops": [], "plan": {"$type": "tuple", "value": ["train", 2]}}
    body: dict[str, Any] = {"state": state, "messages": [question], "node_name": "plan", "step": 1}
    first = await ask("POST", f"{trip}/checkpoints", body=body, headers=KEY, **this)
    await ask("GET", f"{trip}/state", **this)
    change = {"set": {"city": "Nice"}, "append": {"stops": ["Avignon"]}, "node_name": "book", "step": 2}
    await ask("PATCH", f"{trip}/state", body=change, **this)
    answer = {"message_id": "m2", "role": "assistant", "content": "A seat is booked."}
    await ask("POST", f"{trip}/messages", body={"messages": [answer]}, headers=KEY, **this)
    await ask("GET", f"{trip}/messages", thread_id="trip", query={**ana, "last": 2})
    await ask("GET", f"{trip}/messages/{{message_id}}", message_id="m2", **this)
    await ask("GET", "/api/search", query={**ana, "q": "train"})
    about = {"thread_name": "A weekend in Lyon", "tags": ["rail"], "metadata": {"plan": "gold"}}
    await ask("PATCH", trip, body=about, **this)
    await ask("GET", trip, **this)
    await ask("GET", "/api/threads", query={**ana, "tag": "rail", "metadata": '{"plan": "gold"}'})
    page = await ask("GET", f"{trip}/checkpoints", **this)
    newest = page["checkpoints"][0]["checkpoint_id"]
    await memory.aput_checkpoint({"thread_id": "trip", **ana, "checkpoint_ns": "search"}, {"trains": 2})
    await ask("GET", f"{trip}/namespaces", **this)
    await ask("GET", f"{trip}/history", thread_id="trip", query={**ana, "limit": 1})
    await ask("GET", f"{trip}/diff", thread_id="trip", query={**ana, "from": first["checkpoint_id"], "to": newest})
    where = {**ana, "checkpoint_id": newest}
    await ask(
        "POST", f"{trip}/attachments", body={"attachments": {"ticket": "TGV 6607"}}, thread_id="trip", query=where
    )
    await ask("GET", f"{trip}/attachments", thread_id="trip", query=where)
    fork = {"thread_id": "trip-by-bus", "checkpoint_id": first["checkpoint_id"]}
    await ask("POST", f"{trip}/fork", body=fork, **this)
    await ask("POST", f"{trip}/rewind", body={"to": first["checkpoint_id"]}, **this)
    turn = await ask("POST", f"{trip}/turns", body={"wait": 10, "ttl": 60}, **this)
    saved = {"state": {"city": "Lyon", "stops": ["Dijon"]}, "messages": [{"role": "user", "content": "Via Dijon."}]}
    await ask("POST", "/api/turns/{turn_id}/checkpoints", body=saved, turn_id=turn["turn_id"])
    await ask("DELETE", "/api/turns/{turn_id}", turn_id=turn["turn_id"])

    async def happens() -> None:
        said = {"message_id": "m3", "role": "user", "content": "Hello?"}
        await memory.aput_messages({"thread_id": "trip", "user_id": "ana"}, [said])

    await told.watch(f"{trip}/events", ana, happens, thread_id="trip")
    await told.watch("/api/events", ana, happens)
    await ask("DELETE", f"{trip}/messages/{{message_id}}", message_id="m3", **this)
    await ask("DELETE", f"{trip}/checkpoints/{{checkpoint_id}}", checkpoint_id=newest, **this)


async def _conversations(told: Told) -> None:
    ask, one = told.ask, "/v1/conversations/{conversation_id}"
    item = {"type": "message", "role": "user", "content": "To Lyon!"}
    made = await ask("POST", "/v1/conversations", body={"metadata": {"topic": "trip"}, "items": [item]})
    this = {"conversation_id": made["id"]}
    await ask("GET", one, **this)
    await ask("POST", one, body={"metadata": {"topic": "rail"}}, **this)
    answer = {"type": "message", "role": "assistant", "content": "A seat is booked."}
    added = await ask("POST", f"{one}/items", body={"items": [answer]}, **this)
    await ask("GET", f"{one}/items", query={"order": "asc", "limit": 10}, **this)
    await ask("GET", f"{one}/items/{{item_id}}", item_id=added["first_id"], **this)
    await ask("DELETE", f"{one}/items/{{item_id}}", item_id=added["first_id"], **this)
    await ask("DELETE", one, **this)


async def _operations(told: Told) -> None:
    ask, ana = told.ask, {"user_id": "ana"}
    await ask("GET", "/api/stats", query=ana)
    await ask("GET", "/api/status")
    await ask("GET", "/api/overview", query=ana)
    await ask("GET", "/api/me")
    await ask("POST", "/api/cleanup", body={"policy": {"max_history": 10, "max_age": 2_592_000}, "dry_run": True})
    await ask("POST", "/api/verify", query={"thread_id": "trip"})
    await ask("POST", "/api/compact", query={"thread_id": "trip"})
    await ask("DELETE", "/api/threads/{thread_id}/state", thread_id="trip", query=ana)
    await ask("DELETE", "/api/threads/{thread_id}", thread_id="trip", query=ana)
    await ask("DELETE", "/api/users/{erased}", erased="ana")
    await ask("GET", "/healthz")
    await ask("GET", "/readyz")
    await ask("GET", "/metrics")
    lines = told.examples["GET /metrics"]["response"].splitlines(keepends=True)
    told.examples["GET /metrics"]["response"] = "".join(lines[:4])


if __name__ == "__main__":
    EXAMPLES.write_text(json.dumps(asyncio.run(tell()), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
