"""Fixtures: a store with a few threads, and the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import clew
from clew.cli.app import app

Run = Callable[..., Result]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `clew` with arguments, on the store at `path` unless `url` names another."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")

    def runs(*args: str, url: str | None = None) -> Result:
        return CliRunner().invoke(app, ["--url", url or f"sqlite:///{path}", *args])

    return runs


@pytest.fixture
def store(path: Path) -> Path:
    """Create two threads: `trip` of ana with five checkpoints and messages,
    and `notes` without an owner."""
    with clew.connect(f"sqlite:///{path}") as checkpointer:
        trip = {"thread_id": "trip", "user_id": "ana", "run_id": "r1"}
        said: list[str] = []
        for step in range(1, 6):
            said.append(f"Olá number {step}")
            message = clew.Message(role="user" if step % 2 else "assistant", content=said[-1])
            checkpointer.put_checkpoint(
                trip, {"said": said, "step": step}, messages=[message], node_name=f"node_{step}", step=step
            )
        checkpointer.put_thread(trip, clew.ThreadInfo(thread_id="trip", thread_name="To Lisbon", tags=("holiday",)))
        checkpointer.put_state("notes", {"text": "x" * 300})
    return path
