"""`python -m bench.publish`: writes the charts and tables of docs/benchmarks.md from bench/results/.

`make bench ARGS="--json bench/results/clew.json"` and
`make bench-peers ARGS="--json bench/results/peers.json"` write the results.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import outcome, tables
from bench.charts import bars, chart
from bench.measure import Measure
from bench.outcome import Outcome
from bench.places import TITLES
from bench.workloads import WORKLOADS

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "benchmarks"
TURN = re.compile(r"turn (\d+)$")


def main() -> int:
    about, own = outcome.read(RESULTS / "clew.json")
    peers_about, of_peers = outcome.read(RESULTS / "peers.json")
    PICTURES.mkdir(exist_ok=True)
    for name, picture in {**pictures([*own, *of_peers]), **front(of_peers)}.items():
        (PICTURES / name).write_text(picture)
    text = PAGE.read_text()
    for name, lines in {
        "machine": machine(about, peers_about, [*own, *of_peers]),
        # Commits are the same on every storage, so one is enough.
        "goals": tables.markdown_goals(
            [*[each for each in own if (each.workload != "shapes" or each.storage == "memory")], *map(_ahead, of_peers)]
        ),
        "own": sections(own),
        "peers": sections(of_peers),
        "left out": left_out(of_peers),
    }.items():
        text = put(text, name, lines)
    PAGE.write_text(text)
    return 0


def put(text: str, name: str, lines: Sequence[str]) -> str:
    """Return `text` with `lines` between the markers for `name`."""
    begin, end = f"<!-- {name}: made by bench/publish.py -->", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"docs/benchmarks.md has no markers for {name}")
    return "\n".join([before + begin, *lines, end + after])


def machine(about: Mapping[str, Any], peers: Mapping[str, Any], outcomes: Sequence[Outcome]) -> list[str]:
    versions = {**peers["versions"], **about["versions"]}
    told = about["machine"]
    loads = [each.load for each in outcomes if each.measures]
    return [
        f"The machine: {told['cores']} cores ({told['processor']}), {told['system']}, an fsync takes {told['fsync']}.",
        f"Its load was {min(loads):.1f} to {max(loads):.1f} during the runs (a run alone makes 1 to 2):",
        "what is more was other work, which slows everything down and widens the spread.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
    ]


def sections(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the measures: a heading per workload, and a table per storage and environment."""
    lines: list[str] = []
    for name, workload in WORKLOADS.items():
        found = [each for each in outcomes if each.workload == name and each.measures]
        if found:
            lines += ["", f"### {workload.title}"]
        for each in found:
            compared = "" if each.environment == "clew" else f", compared with {each.environment}"
            lines += ["", f"{TITLES[each.storage]}{compared} (the machine's load was {each.load:.1f}):", ""]
            lines += tables.markdown_measures(each)
    return lines


def left_out(outcomes: Iterable[Outcome]) -> list[str]:
    found = {
        (each.environment, target, what, why): each.storage for each in outcomes for target, what, why in each.left_out
    }
    return ["", *[f"- {target}: {what}: {why}." for _, target, what, why in found]]


def _ahead(of_peers: Outcome) -> Outcome:
    """Return the goals of a peer's run that are about peers."""
    own = {"raw", "clew", "clew update", "encoding", "conversation"}
    peers = {each.target for each in of_peers.measures} - own
    figures = [each for each in of_peers.figures if any(f" {peer}" in each.name for peer in peers)]
    return Outcome(
        workload=of_peers.workload, storage=of_peers.storage, environment=of_peers.environment, figures=figures
    )


def pictures(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Write charts per storage: save time and stored bytes over the
    turns of a growing conversation."""
    made = {}
    for storage, title in TITLES.items():
        found = [each for each in outcomes if each.workload == "growing" and each.storage == storage]
        for what, unit, name in (("save, ", "ms", "save"), ("stored, ", "B", "stored")):
            lines = _lines(found, what)
            if lines:
                told = "milliseconds of one save" if unit == "ms" else "bytes stored"
                made[f"{storage}-{name}.svg"] = chart(f"{told}: {title}", unit, lines)
    return made


CALLED = {
    "clew": "Clew",
    "langgraph": "LangGraph's saver",
    "langgraph delta": "with DeltaChannel",
    "raw": "raw asyncpg",
}
"""Names of targets for readers who have not read the page yet."""


def front(of_peers: Sequence[Outcome]) -> dict[str, str]:
    """Return the three charts that open the page: all figures of a chart come from one run."""
    runs = {(each.workload, each.storage): each for each in of_peers if each.environment == "langgraph"}

    def values(workload: str, storage: str, what: str, targets: Sequence[str]) -> dict[str, float]:
        found = {each.target: each.median for each in runs[workload, storage].measures if each.what == what}
        return {target: found[target] for target in targets}

    saves = _lines([runs["growing", "postgres"]], "save, ")
    stored = values("graph", "sqlite", "stored, turn 400 of the graph", ("langgraph", "langgraph delta", "clew"))
    savers = values("savers", "postgres", "64 savers: saves a second", ("langgraph", "langgraph delta", "raw", "clew"))
    return {
        "front-stored.svg": bars("Stored after 400 turns of a LangGraph graph, on SQLite", "B", stored, CALLED),
        "front-save.svg": chart(
            "Time of one save as the conversation grows, on PostgreSQL",
            "ms",
            {name: line for name, line in saves.items() if name in ("clew", "langgraph", "langgraph delta", "raw")},
        ),
        "front-savers.svg": bars("Saves a second by 64 concurrent writers, on PostgreSQL", "/s", savers, CALLED),
    }


def _lines(outcomes: Iterable[Outcome], what: str) -> dict[str, list[tuple[float, float]]]:
    """Return the line of each target from the first run that measured it. Clew's and the raw
    driver's have their own run."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in outcomes:
        found: dict[str, list[tuple[float, float]]] = {}
        for measure in each.measures:
            turn = TURN.search(measure.what)
            if turn and measure.what.startswith(what) and _shows(measure):
                found.setdefault(measure.target, []).append((float(turn[1]), measure.median))
        lines = {**found, **lines}
    return dict(sorted(lines.items()))


def _shows(measure: Measure) -> bool:
    return measure.target != "encoding" and measure.median > 0


if __name__ == "__main__":
    sys.exit(main())
