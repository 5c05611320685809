"""`python -m bench`: run the benchmarks and print a table for each storage.

`--on sqlite` for one storage, `--only save` for one workload, `--quick` for small sizes, `--json FILE` to keep the figures.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

import clew
from bench import cached, servers, sqlite
from bench.figure import Figure, Report

Workload = Callable[[Path, bool, Report], list[Figure]]
STORAGES: dict[str, tuple[str, Mapping[str, Workload]]] = {
    "sqlite": ("SQLite, synchronous=FULL, against sqlite3", sqlite.WORKLOADS),
    "postgres": (
        "PostgreSQL, fsync on, against asyncpg",
        {name: partial(servers.run, "postgres", name) for name in servers.WORKLOADS},
    ),
    "redis": (
        "Redis, appendfsync everysec, against redis-py",
        {name: partial(servers.run, "redis", name) for name in servers.WORKLOADS},
    ),
    "cache": (
        "PostgreSQL with a cache, against PostgreSQL alone",
        {name: partial(cached.run, name) for name in cached.WORKLOADS},
    ),
}
WORKLOADS = list(sqlite.WORKLOADS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: shows that the harness runs, not how fast Clew is"
    )
    parser.add_argument("--on", choices=list(STORAGES), help="one storage")
    parser.add_argument("--only", choices=WORKLOADS, help="one workload")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    arguments = parser.parse_args()
    console = Console()
    figures: dict[str, list[Figure]] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    for storage in [arguments.on] if arguments.on else STORAGES:
        title, workloads = STORAGES[storage]
        found = figures.setdefault(storage, [])
        with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console, transient=True) as progress:
            report = partial(_say, progress, progress.add_task(""))
            for name in [each for each in workloads if arguments.only in (None, each)]:
                place = Path(folder) / name
                place.mkdir()
                found += workloads[name](place, arguments.quick, report)
        console.print(_table(title, found))
    console.print(
        f"clew {clew.__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}; "
        "medians of calls taken in turn, ± the distance of the quartiles"
    )
    if arguments.json:
        kept = {
            storage: [asdict(figure) | {"holds": figure.holds} for figure in found]
            for storage, found in figures.items()
        }
        arguments.json.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


def _say(progress: Progress, task: TaskID, text: str) -> None:
    progress.update(task, description=text)


def _table(title: str, figures: list[Figure]) -> Table:
    table = Table("what", "measured", "goal", "holds", "how", title=f"Clew on {title}")
    for figure in figures:
        goal = f"{'≥' if figure.at_least else '≤'} {figure.bound:g}{figure.unit}"
        mark = "[green]yes[/]" if figure.holds else "[red]no[/]"
        table.add_row(figure.name, f"{figure.value:,.2f}{figure.unit}", goal, mark, figure.how)
    return table


if __name__ == "__main__":
    sys.exit(main())
