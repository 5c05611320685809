"""Tables of results, for the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table as RichTable

from bench.figure import Figure
from bench.goals import shown
from bench.measure import Measure
from bench.outcome import Outcome
from bench.places import TITLES
from bench.workloads import WORKLOADS


def measures(outcome: Outcome) -> RichTable:
    """Return the measures: a row each, with a column per target and the ratio to the raw driver."""
    names, rows = _grid(outcome.measures)
    table = RichTable("what", *names, title=_title(outcome))
    for what, cells in rows:
        table.add_row(what, *cells)
    return table


def goals(outcome: Outcome) -> RichTable:
    """Return the goals."""
    table = RichTable("goal", "measured", "bound", "holds", "how", title=_title(outcome))
    for figure in outcome.figures:
        mark = "[green]yes[/]" if figure.holds else "[red]no[/]"
        table.add_row(figure.name, figure.measured, figure.goal, mark, figure.how)
    return table


def markdown_measures(outcome: Outcome) -> list[str]:
    names, rows = _grid(outcome.measures)
    return [
        f"| {TITLES[outcome.storage]} | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        *[f"| {what} | {' | '.join(cells)} |" for what, cells in rows],
    ]


def markdown_goals(outcomes: Iterable[Outcome]) -> list[str]:
    lines = ["| storage | goal | measured | bound | holds | how |", "|---|---|---|---|---|---|"]
    return lines + [f"| {each.storage} | {_goal_row(figure)} |" for each in outcomes for figure in each.figures]


def _goal_row(figure: Figure) -> str:
    holds = "yes" if figure.holds else "**no**"
    return f"{figure.name} | {figure.measured} | {figure.goal} | {holds} | {figure.how}"


def _title(outcome: Outcome) -> str:
    return f"{WORKLOADS[outcome.workload].title}; {TITLES[outcome.storage]}"


def _grid(found: Sequence[Measure]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    names = list(dict.fromkeys(each.target for each in found if each.target != "conversation"))
    kept = {(each.what, each.target): each for each in found}
    rows = []
    for what in dict.fromkeys(each.what for each in found):
        raw = kept.get((what, "raw"))
        if (what, "conversation") in kept:
            continue
        rows.append((what, [_cell(kept.get((what, name)), raw) for name in names]))
    return names, rows


def _cell(measure: Measure | None, raw: Measure | None) -> str:
    if measure is None:
        return "–"
    if raw is None or measure is raw or raw.median <= 0 or measure.unit == "x":
        return shown(measure)
    ratio = measure.median / raw.median
    return f"{shown(measure)} ({ratio:.2g}x)" if ratio < 100 else f"{shown(measure)} ({ratio:,.0f}x)"
