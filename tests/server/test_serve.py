"""`clew serve` as a process of its own, with real HTTP."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import httpx

import clew
from tests.server.support import PATIENCE, running


def serving(folder: Path, *options: str) -> AbstractContextManager[tuple[str, subprocess.Popen[str]]]:
    """Run `clew serve` on a free port."""
    return running(folder, "sqlite:///agent.db", "serve", "--port", "0", *options)


def test_a_store_is_served_and_the_server_stops_cleanly(tmp_path):
    with serving(tmp_path) as (url, process), httpx.Client(base_url=url, timeout=PATIENCE) as http:
        saved = http.post("/api/threads/a%2Fb/checkpoints", json={"state": {"n": 1}})
        assert saved.status_code == 201, saved.text
        assert http.get("/api/threads/a%2Fb/state").json()["state"] == {"n": 1}
        assert "server" not in saved.headers
    # uvicorn ends with the signal that it got, after it has finished everything.
    assert process.returncode == -signal.SIGTERM
    with clew.connect(f"sqlite:///{tmp_path}/agent.db") as memory:
        assert memory.get_state("a/b") == {"n": 1}


def test_a_request_that_was_accepted_is_finished_before_the_server_stops(tmp_path):
    with serving(tmp_path) as (url, process), httpx.Client(base_url=url, timeout=PATIENCE) as http:
        first = http.post("/api/threads/t/turns", json={"begin": 0}).json()
        answers: list[int] = []

        def wait_for_a_turn() -> None:
            answers.append(http.post("/api/threads/t/turns", json={"wait": 60}).status_code)

        waiter = threading.Thread(target=wait_for_a_turn)
        waiter.start()
        with httpx.Client(base_url=url, timeout=PATIENCE) as other:
            saved = other.post(f"/api/turns/{first['turn_id']}/checkpoints", json={"state": 1})
            assert saved.status_code == 201
            other.delete(f"/api/turns/{first['turn_id']}")
        process.send_signal(signal.SIGTERM)
        waiter.join(PATIENCE)
        assert answers == [201]


def test_tokens_are_needed_once_there_are_some(tmp_path):
    def token(*arguments: str) -> str:
        command = [sys.executable, "-m", "clew", "token", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    ana = token("create", "ana", "--user", "ana", "--write")
    with serving(tmp_path) as (url, _), httpx.Client(base_url=url, timeout=PATIENCE) as http:
        assert http.get("/api/threads").status_code == 401
        mine = {"Authorization": f"Bearer {ana}"}
        assert http.post("/api/threads/t/checkpoints", json={"state": 1}, headers=mine).status_code == 201
        assert http.get("/api/threads/t", headers=mine).json()["user_id"] == "ana"
        token("revoke", "ana")
        assert http.get("/api/threads", headers=mine).status_code == 401


def test_a_server_without_tokens_refuses_other_addresses(tmp_path):
    command = [sys.executable, "-m", "clew", "serve", "--host", "0.0.0.0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1
    assert "clew token create" in done.stderr
