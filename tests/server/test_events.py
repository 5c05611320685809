"""Server-sent events, over real HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx

import clew
from tests.server.support import PATIENCE
from tests.server.test_serve import serving

ANA = {"thread_id": "trip", "user_id": "ana"}


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield each event: its id, kind and data. The first is the comment that the watch has begun."""
    event: dict[str, Any] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line == "":
            yield event
            event = {}
        elif name == "data":
            event["data"] = json.loads(value)
        else:
            event[name or "comment"] = value


def test_events_are_told_and_resumed_after_the_last_one_seen(tmp_path):
    with (
        serving(tmp_path) as (url, _),
        httpx.Client(base_url=url, timeout=PATIENCE) as http,
        clew.connect(f"sqlite:///{tmp_path}/agent.db") as memory,
    ):
        with http.stream("GET", "/api/threads/trip/events", params={"user_id": "ana"}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            told = events(response)
            next(told)
            # Another process writes.
            memory.put_checkpoint(ANA, {"n": 1}, messages=[{"role": "user", "content": "To Lyon!"}])
            first = next(told)
            assert (first["event"], first["data"]["thread_id"]) == ("checkpoint", "trip")
        memory.put_messages(ANA, [{"role": "user", "content": "By train."}])
        resume = {"Last-Event-ID": first["id"]}
        with http.stream("GET", "/api/threads/trip/events", params={"user_id": "ana"}, headers=resume) as response:
            told = events(response)
            next(told)
            said = [message["content"] for _ in range(2) for message in next(told)["data"]["messages"]]
            assert said == ["To Lyon!", "By train."]
        unknown = {"Last-Event-ID": "nonsense"}
        with http.stream("GET", "/api/threads/trip/events", params={"user_id": "ana"}, headers=unknown) as response:
            told = events(response)
            next(told)
            assert next(told)["event"] == "gap"


def test_a_token_for_one_user_watches_that_user_only(tmp_path):
    def token(name: str) -> dict[str, str]:
        command = [sys.executable, "-m", "clew", "token", "create", name, "--user", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return {"Authorization": f"Bearer {done.stdout.strip()}"}

    bob = token("bob")
    with (
        serving(tmp_path) as (url, _),
        httpx.Client(base_url=url, timeout=PATIENCE, headers=bob) as http,
        clew.connect(f"sqlite:///{tmp_path}/agent.db") as memory,
    ):
        assert http.get("/api/events", params={"user_id": "ana"}).status_code == 403
        with (
            http.stream("GET", "/api/events") as all_of_bob,
            httpx.Client(base_url=url, timeout=PATIENCE, headers=bob) as other,
            other.stream("GET", "/api/threads/trip/events") as of_ana,
        ):
            told, foreign = events(all_of_bob), events(of_ana)
            next(told)
            if of_ana.status_code == 200:
                next(foreign)
            memory.put_state(ANA, {"secret": 1})
            memory.put_state({"thread_id": "mine", "user_id": "bob"}, {"n": 1})
            assert next(told)["data"]["thread_id"] == "mine"
