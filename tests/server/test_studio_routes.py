"""Answers made for the studio, and the studio's files. None of this needs a browser."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any

import pytest

import clew
import clew.server
from tests.server.support import client

STUDIO = Path(clew.server.__file__).parent / "studio"
ANA = {"thread_id": "trip", "user_id": "ana"}


def run(test: Callable[[clew.BaseCheckpointer], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of an async one."""

    @wraps(test)
    def ran(memory: clew.BaseCheckpointer) -> None:
        asyncio.run(test(memory))

    return ran


@pytest.fixture
def memory():
    with clew.connect("memory://") as opened:
        opened.put_checkpoint(ANA, {"city": "Lyon"}, messages=[{"role": "user", "content": "To Lyon!"}])
        opened.put_thread(ANA, {"thread_name": "Three days in Lyon"})
        for number in range(20):
            config = {"thread_id": f"bob-{number:02}", "user_id": "bob"}
            opened.put_state(config, {"noise": Random(number).randbytes(1000 * (number + 1))})
        yield opened


@run
async def test_callers_learn_what_their_token_may_do(memory):
    told = {"operator": (None, "write"), "watcher": (None, "read"), "ana": ("ana", "write"), "reader": ("ana", "read")}
    for token, (user, scope) in told.items():
        async with client(memory, token) as http:
            assert (await http.get("/api/me")).json() == {"name": token, "user": user, "scope": scope}
    async with client(memory, "unknown") as http:
        assert (await http.get("/api/me")).status_code == 401


@run
async def test_an_overview_has_totals_days_and_the_largest_threads(memory):
    async with client(memory, "watcher") as http:
        told = (await http.get("/api/overview")).json()
    assert (told["total_sessions"], told["total_checkpoints"], told["total_messages"]) == (21, 21, 1)
    assert [each["thread_id"] for each in told["largest"]] == [f"bob-{number}" for number in range(19, 9, -1)]
    assert told["largest"][0]["user_id"] == "bob"
    assert len(told["by_day"]) == 1
    # It must stay small when the store grows.
    assert not {"by_thread", "checkpoints_per_session"} & told.keys()


@run
async def test_an_overview_tells_nothing_about_other_users(memory):
    async with client(memory, "ana") as http:
        told = (await http.get("/api/overview")).json()
        assert [(each["thread_id"], each["thread_name"]) for each in told["largest"]] == [
            ("trip", "Three days in Lyon")
        ]
        assert (told["total_sessions"], told["stored_bytes"], told["index"]) == (1, 0, None)
        assert "bob" not in json.dumps(told)
        assert (await http.get("/api/overview", params={"user_id": "bob"})).status_code == 403


@run
async def test_a_state_is_saved_as_a_branch_of_any_checkpoint(memory):
    first = memory.get_checkpoint(ANA).checkpoint_id
    memory.put_state(ANA, {"city": "Nice"})
    async with client(memory, "ana") as http:
        path = "/api/threads/trip/checkpoints"
        saved = await http.post(path, params={"checkpoint_id": first}, json={"state": {"city": "Lisbon"}})
        assert saved.status_code == 201
        assert saved.json()["parent_id"] == first
        assert (await http.get("/api/threads/trip/state")).json()["state"] == {"city": "Lisbon"}
        missing = await http.post(path, params={"checkpoint_id": "nothing"}, json={"state": 1})
        assert missing.status_code == 404
        head = {"If-Match": f'"{first}"'}
        both = await http.post(path, params={"checkpoint_id": first}, headers=head, json={"state": 1})
        assert both.status_code == 400
    async with client(memory, "reader") as http:
        assert (await http.post(path, params={"checkpoint_id": first}, json={"state": 1})).status_code == 403
    async with client(memory, "bob") as http:
        assert (await http.post(path, params={"checkpoint_id": first}, json={"state": 1})).status_code == 404
    assert memory.get_state(ANA) == {"city": "Lisbon"}


def test_everything_that_is_served_has_150_kb_at_most():
    files = [path for path in STUDIO.rglob("*") if path.suffix in (".html", ".js", ".css", ".svg")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 150_000


@run
async def test_files_are_compressed_for_clients_that_say_so(memory):
    async with client(memory) as http:
        packed = await http.get("/studio/style.css", headers={"Accept-Encoding": "br, gzip"})
        plain = await http.get("/studio/style.css", headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert packed.content == plain.content == (STUDIO / "style.css").read_bytes()
        # A browser that has the file asks whether it is current.
        again = await http.get("/studio/style.css", headers={"If-None-Match": plain.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_nothing_comes_from_the_network_and_every_import_exists():
    for path in STUDIO.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r'from "\./([^"]+)"', text):
            assert (STUDIO / name).is_file(), f"{path.name} imports {name}"
        assert not re.search(r"""(?:src|href|from|import|fetch\()\s*[=(]?\s*["'`]https?://""", text), path.name
        # Elements are made, never parsed from text.
        assert "innerHTML" not in text, path.name
    page = (STUDIO / "index.html").read_text(encoding="utf-8")
    for name in re.findall(r'(?:href|src)="studio/([^"]+)"', page):
        assert (STUDIO / name).is_file(), name
