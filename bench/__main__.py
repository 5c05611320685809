"""`python -m bench`: run the benchmarks and print a table; `--quick` for small sizes, `--json FILE` to keep the figures."""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import clew
from bench import core


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: shows that the harness runs, not how fast Clew is"
    )
    parser.add_argument("--only", choices=sorted(WORKLOADS), help="one workload")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    arguments = parser.parse_args()
    console = Console()
    figures: list[core.Figure] = []
    names = [arguments.only] if arguments.only else list(WORKLOADS)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")
        for name in names:
            place = Path(folder) / name
            place.mkdir()
            figures += WORKLOADS[name](place, arguments.quick, lambda text: progress.update(task, description=text))
    console.print(_table(figures))
    console.print(
        f"clew {clew.__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}; "
        "medians of calls taken in turn, ± the distance of the quartiles"
    )
    if arguments.json:
        arguments.json.write_text(
            json.dumps([asdict(figure) | {"holds": figure.holds} for figure in figures], indent=2) + "\n"
        )
    return 0


def _table(figures: list[core.Figure]) -> Table:
    table = Table("what", "measured", "goal", "holds", "how", title="Clew on SQLite, synchronous=FULL")
    for figure in figures:
        goal = f"{'≥' if figure.at_least else '≤'} {figure.bound:g}{figure.unit}"
        mark = "[green]yes[/]" if figure.holds else "[red]no[/]"
        table.add_row(figure.name, f"{figure.value:,.2f}{figure.unit}", goal, mark, figure.how)
    return table


def _bytes(folder: Path, quick: bool, report: core.Report) -> list[core.Figure]:
    sizes = (40,) if quick else (400, 800)
    return [figure for turns in sizes for figure in core.stored_bytes(folder, turns, report)]


def _save(folder: Path, quick: bool, report: core.Report) -> list[core.Figure]:
    return core.one_save(folder, 40 if quick else 800, 8 if quick else 200, report)


def _savers(folder: Path, quick: bool, report: core.Report) -> list[core.Figure]:
    return core.many_savers(folder, 8 if quick else 64, 4 if quick else 30, 2 if quick else 7, report)


def _load(folder: Path, quick: bool, report: core.Report) -> list[core.Figure]:
    return core.one_load(folder, 40 if quick else 800, 8 if quick else 100, report)


def _lists(folder: Path, quick: bool, report: core.Report) -> list[core.Figure]:
    return core.listings(folder, 60 if quick else 100, 2_000 if quick else 100_000, 8 if quick else 200, report)


WORKLOADS = {"bytes": _bytes, "save": _save, "savers": _savers, "load": _load, "lists": _lists}

if __name__ == "__main__":
    sys.exit(main())
