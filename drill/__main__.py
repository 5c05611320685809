"""Command line of the drill: servers fail while processes write, and a table shows what was lost.

`python -m drill --only cache` runs one scenario, `--quick` makes the runs small, `--seed` chooses
the same faults again, and `--json FILE` saves the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from drill.scenario import Outcome, Size
from drill.scenarios import SCENARIOS

QUICK = Size(commits=300, writers=4, pace=20, pause=0.05, outages=1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m drill", description=__doc__)
    parser.add_argument("--only", choices=list(SCENARIOS), help="run only this scenario")
    parser.add_argument("--commits", type=int, help="number of acknowledged commits in each scenario (default: 10,000)")
    parser.add_argument("--writers", type=int, help="number of writer processes (default: 8)")
    parser.add_argument("--seed", type=int, help="seed of the faults; the table shows it")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="300 commits and 4 writers, to see that the drill works")
    arguments = parser.parse_args()
    base = QUICK if arguments.quick else Size()
    size = replace(base, commits=arguments.commits or base.commits, writers=arguments.writers or base.writers)
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    console = Console()
    columns = (TextColumn("{task.fields[name]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    outcomes: list[Outcome] = []
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as progress:
        for name in [arguments.only] if arguments.only else SCENARIOS:
            runs = SCENARIOS[name]
            part = replace(size, commits=-(-size.commits // len(runs)))
            for scenario in runs:
                task = progress.add_task("", total=part.commits, name=scenario.name)
                outcomes.append(scenario(seed, part).run(partial(_say, progress, task)))
                progress.remove_task(task)
    console.print(_events(outcomes))
    console.print(_verdicts(outcomes, seed))
    for outcome in outcomes:
        for text in [*outcome.findings.texts, *outcome.notes]:
            console.print(f"{outcome.name}: {text}", markup=False)
    if arguments.json:
        arguments.json.write_text(json.dumps([_plain(each) for each in outcomes], indent=2) + "\n")
    return 0 if all(each.holds for each in outcomes) else 1


def _say(progress: Progress, task: TaskID, commits: int, text: str) -> None:
    progress.update(task, completed=commits, description=text)


def _verdicts(outcomes: list[Outcome], seed: int) -> Table:
    table = Table("scenario", title=f"The drill, seed {seed}")
    for name in ("commits", "reads", "lost", "doubled", "stale", "other", "hidden"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for each in outcomes:
        counts = each.findings.counts
        other = counts.total() - counts["lost"] - counts["doubled"] - counts["stale"] + len(each.notes)
        numbers = (
            each.commits,
            each.reads,
            counts["lost"],
            counts["doubled"],
            counts["stale"],
            other,
            each.findings.hidden,
        )
        verdict = "[green]holds[/]" if each.holds else "[red]broken[/]"
        table.add_row(each.name, *(f"{number:,}" for number in numbers), verdict)
    return table


def _events(outcomes: list[Outcome]) -> Table:
    table = Table("scenario", "faults", title="What happened")
    for name in ("failovers", "failbacks", "refused", "errors", "longest write", "time"):
        table.add_column(name, justify="right")
    for each in outcomes:
        errors = each.errors.total() - each.refused
        table.add_row(
            each.name,
            ", ".join(f"{count} {what}" for what, count in each.faults.most_common()),
            *(f"{number:,}" for number in (each.failovers, each.failbacks, each.refused, errors)),
            f"{each.longest:.1f} s",
            f"{each.seconds:.0f} s",
        )
    return table


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "scenario": outcome.name,
        "seed": outcome.seed,
        "commits": outcome.commits,
        "reads": outcome.reads,
        "faults": dict(outcome.faults),
        "failovers": outcome.failovers,
        "failbacks": outcome.failbacks,
        "errors": dict(outcome.errors),
        "findings": dict(outcome.findings.counts),
        "hidden": outcome.findings.hidden,
        "longest write": outcome.longest,
        "seconds": outcome.seconds,
        "holds": outcome.holds,
        "notes": [*outcome.findings.texts, *outcome.notes],
    }


if __name__ == "__main__":
    sys.exit(main())
