"""The benchmark harness runs, and its figures measure the code that it names."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import asyncpg
import pytest
from redis.asyncio import Redis

import clew
from bench import __main__ as harness
from bench import outcome, peers, publish, tables
from bench.charts import chart
from bench.conversation import json_bytes, messages
from bench.earlier import earlier
from bench.figure import Figure
from bench.goals import GOALS, goals_of
from bench.measure import Measure, in_turn
from bench.outcome import Outcome
from bench.places import Ground
from bench.targets import OWN, PEERS, targets_of
from bench.workloads import WORKLOADS, Run
from bench.workloads.common import Opened
from clew.testing.servers import shared_postgres

EXPECTED = {
    "growing": {
        "save, turn 8",
        "stored, turn 8",
        "load, turn 8",
        "load on a new connection, turn 8",
        "list 10 checkpoints, turn 8",
    },
    "savers": {"4 savers: saves a second", "4 savers: p50", "4 savers: p99", "4 savers: processor time a save"},
    "readers": {"4 readers, loads a second, first time in a process", "4 readers, loads a second, again"},
    "graph": {"a turn of the graph, turn 4", "stored, turn 4 of the graph"},
    "threads": {"save among 30 threads", "load among 30 threads", "search a thread's messages among 30 threads"},
    "shapes": {"window: committed, of the bytes changed", "nested lists: written, of the bytes changed"},
    "long": {"save, 40 messages", "resident memory a save, 40 messages"},
    "contended": {
        "4 writers of a thread: saves a second",
        "4 writers of a thread: tries a save",
        "clew, 4 writers of a thread: slowest against median writer",
    },
    "endless": {"save 200 against save 20 of a thread", "memory of the index, of max_index_bytes"},
    "methods": {"a turn", "processor time: a turn", "list the last 20 messages", "fork"},
    "cleanup": {"cleanup of 200 checkpoints"},
    "search": {
        "a word that 20 messages have, all users, among 600 messages",
        "a word that one in ten messages has, a small user, among 600 messages",
    },
    "watch": {"event after the acknowledgement", "one idle watcher, of a core", "a save: watched against unwatched"},
    "http": {"4 clients: errors", "4 clients: p99", "4 clients: processor time over the call itself"},
    "cached": {"load, turn 10: clew, cached in Redis", "save, turn 10: clew, cached in memory"},
}
CODE = {
    "memory": {"raw": dict, "clew": clew.InMemoryCheckpointer},
    "sqlite": {"raw": sqlite3.Connection, "clew": clew.SQLiteCheckpointer},
    "postgres": {"raw": asyncpg.Connection, "clew": clew.PgCheckpointer},
    "redis": {"raw": Redis, "clew": clew.RedisCheckpointer},
}


@pytest.fixture(autouse=True)
def _one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the shared test server instead of one per workload."""

    def ground(folder: Path, *, upkeep: bool = False) -> Ground:
        return Ground(folder, upkeep=upkeep, postgres=shared_postgres())

    monkeypatch.setattr(harness, "Ground", ground)


def run(workload: str, storage: str, peer: str | None = None) -> Outcome:
    return harness.measured(workload, storage, size="tiny", report=lambda _: None, peer=peer)[0]


def medians(found: Outcome, what: str) -> dict[str, float]:
    return {each.target: each.median for each in found.measures if each.what == what}


@pytest.mark.full
@pytest.mark.parametrize(
    "workload", [name for name in WORKLOADS if name != "growing" and "sqlite" in WORKLOADS[name].storages]
)
def test_a_workload_runs_on_sqlite_and_gives_what_it_says(workload: str) -> None:
    found = run(workload, "sqlite")
    assert {each.what for each in found.measures} | {each.name for each in found.figures} >= EXPECTED[workload]
    # The goal of `methods` is not to be slower than an earlier version.
    assert found.figures or workload == "methods", "a workload without a goal shows nothing"
    assert all(each.median >= 0 for each in found.measures)


def test_a_cache_before_postgres_is_measured_beside_none() -> None:
    found = run("cached", "postgres")
    assert {each.name for each in found.figures} >= EXPECTED["cached"]


@pytest.mark.parametrize("storage", CODE)
def test_results_name_the_classes_that_did_the_work(storage: str) -> None:
    found = run("growing", storage)
    new = "load on a new connection, turn 8"
    assert {each.what for each in found.measures} >= {
        each for each in EXPECTED["growing"] if storage != "memory" or each not in (new, "stored, turn 8")
    }
    assert medians(found, "save, turn 8").keys() == OWN.keys()
    for target, kind in CODE[storage].items():
        assert found.code[target] == f"{kind.__module__}.{kind.__qualname__}"
    assert found.code["clew update"] == found.code["clew"]


def test_code_that_is_slowed_down_shows_up_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = run("growing", "memory")
    real = clew.InMemoryCheckpointer.aput_state

    async def slow(self: Any, config: Any, state: Any) -> Any:
        await asyncio.sleep(0.02)
        return await real(self, config, state)

    monkeypatch.setattr(clew.InMemoryCheckpointer, "aput_state", slow)
    slowed = run("growing", "memory")
    assert medians(slowed, "save, turn 8")["clew"] >= 20
    assert medians(slowed, "save, turn 8")["clew"] > medians(quick, "save, turn 8")["clew"]
    for other in ("raw", "clew update"):
        assert medians(slowed, "save, turn 8")[other] < 20, "only the slowed-down code is slower"


def test_two_versions_of_clew_are_measured_in_turn(tmp_path: Path) -> None:
    other = earlier("HEAD", tmp_path)
    found = harness.measured("methods", "memory", size="tiny", report=lambda _: None, other=other)[0]
    assert medians(found, "a turn").keys() == {"clew", "clew, before"}
    assert found.code["clew, before"] == found.code["clew"].replace("clew.", "clew_before.", 1)
    assert {each.name for each in found.figures} >= {"a turn: clew against before", "fork: clew against before"}


def test_an_unknown_revision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no sources of 'nowhere'"):
        earlier("nowhere", tmp_path)


def test_a_target_that_forgets_messages_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forgetful(self: Any, config: Any) -> Any:
        return {"messages": []}

    monkeypatch.setattr(clew.InMemoryCheckpointer, "aget_state", forgetful)
    with pytest.raises(AssertionError, match="clew did not keep the conversation"):
        run("growing", "memory")


@pytest.mark.parametrize(
    ("peer", "storage", "names"),
    [
        ("langgraph", "memory", {"langgraph", "langgraph delta"}),
        ("langgraph", "sqlite", {"langgraph", "langgraph delta"}),
        ("llmfy", "memory", {"llmfy"}),
        ("openai", "sqlite", {"openai"}),
    ],
)
def test_a_peer_keeps_the_conversation_that_it_is_measured_with(
    peer: str, storage: str, names: set[str], tmp_path: Path
) -> None:
    """The peers that are installed with the tests; `make bench-peers` has them all."""
    said = messages(3)

    async def converse(opened: Opened) -> Any:
        own = [opened.target.message(one) for one in said]
        for end in range(2, 7, 2):
            await opened.target.save("t", {"messages": own[:end]}, own[end - 2 : end])
        if storage == "memory":
            return (await opened.target.load("t"))["messages"] == own
        async with opened.target.again() as reader:
            return (await reader.load("t"))["messages"] == own

    async def go() -> dict[str, str]:
        ground = Ground(tmp_path)
        places = tuple(each for each in PEERS[peer] if "SQLALCHEMY" not in each)
        asked = Run(
            storage=storage, size="tiny", ground=ground, report=lambda _: None, targets=targets_of(places, storage)
        )
        async with asked.opened(asked.targets) as opened:
            assert all([await converse(each) for each in opened])
        return asked.code

    code = asyncio.run(go())
    assert set(code) == names
    package = {"langgraph": "langgraph.checkpoint.", "llmfy": "llmfy.", "openai": "agents."}[peer]
    assert all(each.startswith(package) for each in code.values())


def test_a_peer_that_fails_is_reported_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.targets.llmfy import Llmfy

    async def locked(self: Any, *_: Any) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(Llmfy, "save", locked)
    found = run("savers", "memory", peer="llmfy")
    assert medians(found, "4 savers: saves a second").keys() == {"raw", "clew", "clew update"}
    assert found.left_out == [("llmfy", "save", "llmfy failed in save: OperationalError: database is locked")]


def test_a_peer_that_is_not_installed_is_reported(tmp_path: Path) -> None:
    assert "run make bench-peers" in str(peers.absent("llmfy", tmp_path))
    place = tmp_path / ".venv-bench-llmfy"
    place.mkdir()
    (place / ".failed").write_text("could not be installed: no such version\n")
    assert peers.absent("llmfy", tmp_path) == "could not be installed: no such version"
    (place / ".ready").write_text("")
    assert peers.absent("llmfy", tmp_path) is None


def test_every_peer_has_its_requirements_and_its_environment() -> None:
    root = peers.ROOT
    assert {each.stem for each in (root / "bench" / "requirements").glob("*.txt")} == set(PEERS)
    makefile = (root / "Makefile").read_text()
    assert f"PEERS := {' '.join(PEERS)}\n" in makefile


def test_a_run_writes_results_that_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "results.json"
    assert harness.main(["--quick", "--only", "long", "--on", "memory", "--json", str(kept)]) == 0
    about, (found,) = outcome.read(kept)
    assert about["versions"]["clew"] == clew.__version__
    assert about["machine"]["cores"]
    assert (found.workload, found.storage, found.environment) == ("long", "memory", "clew")
    assert json.loads(kept.read_text())["outcomes"][0] == json.loads(json.dumps(found.to_dict()))
    assert "W7" in capsys.readouterr().out


def test_every_workload_is_tested_and_goals_are_of_workloads() -> None:
    assert set(WORKLOADS) == set(EXPECTED)
    assert set(GOALS) <= set(WORKLOADS)


def test_a_figure_holds_on_the_right_side_of_its_bound() -> None:
    assert Figure("a", 1.0, 1.0, "").holds
    assert not Figure("a", 1.1, 1.0, "").holds
    assert Figure("a", 3.0, 3.0, "", at_least=True).holds
    assert not Figure("a", 2.9, 3.0, "", at_least=True).holds


def measures(what: str, unit: str, **values: float) -> Iterator[Measure]:
    return (Measure.of(what, unit, name, [value]) for name, value in values.items())


def test_goals_are_computed_from_the_measures() -> None:
    saves = list(measures("save, turn 800", "ms", raw=1.0, encoding=1.0, clew=3.0, langgraph=90.0))
    own, update = goals_of("growing", "postgres", saves)
    assert (own.value, own.bound, own.holds) == (1.5, 1.5, True)
    assert (update.value, update.holds) == (30.0, False), "the goal is 35 times"
    rates = list(measures("64 savers: saves a second", "/s", raw=1000.0, clew=3100.0))
    (figure,) = goals_of("savers", "sqlite", rates)
    assert (figure.value, figure.holds) == (3.1, True)


def test_tables_show_ratios_to_the_raw_driver() -> None:
    found = Outcome(
        workload="growing",
        storage="sqlite",
        environment="clew",
        measures=list(measures("save, turn 800", "ms", raw=0.5, clew=1.0)),
    )
    assert tables.markdown_measures(found)[-1] == "| save, turn 800 | 0.500 ms | 1.000 ms (2x) |"


def test_charts_are_drawn_from_the_results() -> None:
    turns = [each for turn in (50, 800) for each in measures(f"save, turn {turn}", "ms", raw=0.5, clew=turn / 100)]
    found = Outcome(workload="growing", storage="sqlite", environment="clew", measures=turns)
    (picture,) = publish.pictures([found]).values()
    root = ElementTree.fromstring(picture)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "clew: 8 ms" in texts
    assert "raw: 0.5 ms" in texts
    assert "800" in texts
    assert chart("one point", "B", {"raw": [(1.0, 1.0)]})


def test_the_charts_that_open_the_page_show_the_recorded_results() -> None:
    _, of_peers = outcome.read(publish.RESULTS / "peers.json")
    page = publish.PAGE.read_text("utf-8")
    for name, picture in publish.front(of_peers).items():
        assert (publish.PICTURES / name).read_text("utf-8") == picture, "run: python -m bench.publish"
        texts = " ".join(text for text in ElementTree.fromstring(picture).itertext())
        (alt,) = re.findall(rf"!\[(.*)\]\(benchmarks/{re.escape(name)}\)", page)
        figures = re.findall(r"\d[\d,.]*(?: MB| ms)?", alt.partition(", ")[2])
        assert len(figures) >= 3
        assert [figure for figure in figures if figure not in texts] == []


def test_published_lines_go_between_their_marks() -> None:
    page = "before\n<!-- goals: made by bench/publish.py -->\nold\n<!-- end of goals -->\nafter"
    assert publish.put(page, "goals", ["new"]) == page.replace("old", "new")
    with pytest.raises(ValueError, match="no markers for own"):
        publish.put(page, "own", [])


def test_the_page_has_a_place_for_everything_that_is_published() -> None:
    text = publish.PAGE.read_text()
    for name in ("machine", "goals", "own", "peers", "left out"):
        assert publish.put(text, name, []) != ""


def test_the_conversation_is_what_it_says() -> None:
    said = messages(50)
    assert [len(each["content"]) for each in said[:4]] == [300, 700, 300, 700]
    assert messages(50) == said
    assert messages(50, seed=2) != said
    assert json_bytes(said) > 50 * 1000


def test_calls_are_taken_in_turn() -> None:
    taken: list[str] = []

    async def call(name: str) -> None:
        taken.append(name)

    times = asyncio.run(in_turn({"a": lambda _: call("a"), "b": lambda _: call("b")}, rounds=3, warm_up=1))
    assert taken == ["a", "b"] * 4
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_the_own_targets_are_found_by_name() -> None:
    for storage in ("memory", "sqlite", "postgres", "redis"):
        assert [each.name for each in targets_of(tuple(OWN.values()), storage)] == list(OWN)
