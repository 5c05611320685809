"""`clew demo` passes, and fails if one of its claims does not hold."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

import clew
from clew.cli.demo import show, story
from clew.cli.demo.stage import Agent


@pytest.fixture
def performance(tmp_path):
    """Return a demo in its own folder, and its output."""
    screen = io.StringIO()
    return show.Show(Console(file=screen, width=80), tmp_path), screen


def test_the_demo_shows_that_nothing_is_lost(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "clew", "demo"],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1", "TMPDIR": str(tmp_path), "TEMP": str(tmp_path)},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    for claim in (
        "the agent was killed while working: in turn 3",
        "each state unchanged",
        "nothing half-saved",
        "not from the beginning",
        "one unbroken line of 24 checkpoints",
        "the whole conversation of 23 messages",
        "the branch has its own history",
        "exactly the right messages found",
        "it grows with the conversation, not with its square",
        "all 500 states load from the compacted file",
    ):
        assert any("✓" in line and claim in line for line in done.stdout.splitlines()), claim
    assert "trip.hotel changed: 'Casa do Rio' -> 'Pensão Tejo'" in done.stdout
    assert "killed here" in done.stdout
    assert "All checks passed." in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_demo_fails_if_something_acknowledged_is_missing(performance, monkeypatch):
    class Boaster(Agent):
        """Claims to have saved more than it did."""

        def kill(self):
            super().kill()
            self.acknowledged.append(
                replace(self.acknowledged[-1], checkpoint_id="never-saved", messages=("nor-this",))
            )

    monkeypatch.setattr(show, "Agent", Boaster)
    demo, screen = performance
    assert demo.run(keep=False) is False
    assert re.search(r"✗ \d+ checkpoints acknowledged", screen.getvalue())
    assert re.search(r"✗ \d+ messages acknowledged", screen.getvalue())
    assert re.search(r"\d checks failed\.", screen.getvalue())


def test_the_demo_fails_if_the_agent_does(performance, monkeypatch):
    demo, screen = performance
    monkeypatch.setattr(demo, "_url", "sqlite:///no/such/directory/trip.db")
    assert demo.run(keep=False) is False
    assert "is not a directory" in " ".join(screen.getvalue().split())
    assert "1 check failed." in screen.getvalue()


def test_an_agent_can_be_killed_again_and_again_and_still_finishes(tmp_path):
    url = f"sqlite:///{tmp_path / 'trip.db'}"
    acknowledged = {}
    for last in (2, 8, 14, None):  # further apart than an agent may run ahead
        with Agent(url, tmp_path / "log") as agent:
            for each in agent:
                acknowledged[each.step] = each
                if each.step == last:
                    agent.kill()
        assert agent.was_killed == (last is not None)
    with clew.connect(url) as checkpointer:
        config = {"thread_id": story.THREAD, "user_id": story.USER}
        stored = {each.checkpoint_id: each.step for each in checkpointer.list_checkpoints(config, limit=None)}
        for each in acknowledged.values():
            assert stored[each.checkpoint_id] == each.step
            state = checkpointer.get_state({**config, "checkpoint_id": each.checkpoint_id}) or {}
            assert story.digest(state) == each.digest
        assert sorted(filter(None, stored.values())) == list(range(1, len(story.BEATS) + 1))
        texts = [each.text() for each in checkpointer.list_messages(config, limit=None)]
        assert texts == [beat.text for beat in story.BEATS if beat.role]


def test_an_agent_waits_for_its_reader_so_that_it_cannot_be_done_too_early(tmp_path):
    with Agent(f"sqlite:///{tmp_path / 'trip.db'}", tmp_path / "log") as agent:
        heard = iter(agent)
        first = next(heard)
        # Nobody has confirmed, so it is at most at its fourth step.
        agent.kill()
        rest = list(heard)
    assert first.step == 1
    assert [first.step, *(each.step for each in rest)] == list(range(1, len(rest) + 2))
    assert len(rest) < 4
