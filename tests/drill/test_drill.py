"""Short drills: every scenario with a few processes, real servers and faults, and the command
line."""

from __future__ import annotations

import json
import sys

import pytest

from drill import __main__ as command
from drill.scenario import Size
from drill.scenarios import SCENARIOS, RedisDeletion

SHORT = Size(commits=150, writers=3, pace=20, pause=0.05, outages=1)
pytestmark = pytest.mark.timeout(900)
RUNS = [pytest.param(scenario, id=scenario.name) for runs in SCENARIOS.values() for scenario in runs]


def quiet(commits: int, text: str) -> None:
    """Report nothing."""


@pytest.mark.parametrize("scenario", RUNS)
def test_nothing_acknowledged_is_lost_doubled_or_stale(scenario):
    outcome = scenario(20261116, SHORT).run(quiet)
    assert outcome.holds, [*outcome.findings.texts, *outcome.notes]
    assert outcome.commits >= SHORT.commits
    assert outcome.faults.total() > 0
    assert outcome.reads > 0
    if scenario.name in ("sync", "async"):
        assert outcome.failovers >= 1
        assert outcome.failbacks >= 1


class Forgetting(RedisDeletion):
    """A run on a storage that loses acknowledged commits."""

    name = "forgetting"
    removals = False
    opener = "tests.drill.liars:forgetful_redis"

    def lanes_of(self, writer):
        return ("own", "shared")


def test_the_command_says_what_was_lost_and_fails(tmp_path, monkeypatch, capsys):
    figures = tmp_path / "figures.json"
    monkeypatch.setitem(SCENARIOS, "forgetting", (Forgetting,))
    arguments = ["--only", "forgetting", "--quick", "--commits", "100", "--writers", "2", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", ["drill", *arguments, "--seed", "7"])
    assert command.main() == 1
    said = capsys.readouterr().out
    assert "seed 7" in said
    assert "lost: " in said
    (outcome,) = json.loads(figures.read_text())
    assert outcome["findings"]["lost"] > 0
    assert not outcome["holds"]


class Crashing(Forgetting):
    """A run with writers that can't start."""

    name = "crashing"
    opener = "tests.drill.liars:nothing"


def test_a_crashed_writer_fails_the_run():
    outcome = Crashing(1, SHORT).run(quiet)
    assert not outcome.holds
    assert "has no attribute 'nothing'" in outcome.notes[0]
