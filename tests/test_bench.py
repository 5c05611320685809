"""The benchmark harness runs, and its figures come from the code that it names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as harness
from bench.conversation import json_bytes, messages
from bench.figure import Figure
from bench.measure import in_turn

NAMES = {
    "bytes": "stored bytes",
    "save": "one save",
    "savers": "savers at once",
    "load": "loading the head",
    "lists": "threads",
    "cleanup": "cleanup",
}


@pytest.mark.parametrize(
    ("storage", "name"), [(storage, name) for storage, (_, found) in harness.STORAGES.items() for name in found]
)
def test_a_workload_runs_with_small_sizes_and_gives_its_figures(
    storage: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--quick", "--on", storage, "--only", name, "--json", str(results)])
    assert harness.main() == 0
    figures = json.loads(results.read_text())[storage]
    assert figures
    assert NAMES[name] in figures[0]["name"]
    assert all(figure["value"] > 0 for figure in figures)
    assert "measured" in capsys.readouterr().out


def test_a_test_is_there_for_every_workload() -> None:
    assert set(NAMES) == set(harness.WORKLOADS)


def test_a_figure_holds_on_the_right_side_of_its_bound() -> None:
    assert Figure("a", 1.0, 1.0, "").holds
    assert not Figure("a", 1.1, 1.0, "").holds
    assert Figure("a", 3.0, 3.0, "", at_least=True).holds
    assert not Figure("a", 2.9, 3.0, "", at_least=True).holds


def test_the_conversation_is_what_it_says() -> None:
    said = messages(50)
    assert [len(each["content"]) for each in said[:4]] == [300, 700, 300, 700]
    assert messages(50) == said
    assert messages(50, seed=2) != said
    assert json_bytes(said) > 50 * 1000


def test_calls_are_taken_in_turn() -> None:
    taken: list[str] = []
    times = in_turn({"a": lambda _: taken.append("a"), "b": lambda _: taken.append("b")}, rounds=3, warm_up=1)
    assert taken == ["a", "b"] * 4
    assert set(times) == {"a", "b"}
