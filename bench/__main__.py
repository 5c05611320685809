"""`python -m bench`: runs the benchmarks, and prints a table for each workload on each storage.

`--only growing` runs one workload, `--on sqlite` one storage. `--quick` only tests the harness, and
`--full` uses the full sizes. `--against main` compares Clew with an earlier version of itself.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import outcome, tables
from bench.earlier import earlier
from bench.figure import Figure
from bench.goals import against, goals_of
from bench.measure import Measure, Report
from bench.outcome import Outcome
from bench.places import STORAGES, Ground
from bench.targets import OWN, PEERS, PeerError, targets_of
from bench.targets.clew import versions
from bench.workloads import WORKLOADS, Results, Workload
from bench.workloads.common import Run, Size

COMPARED: Final = ("growing", "savers", "readers", "long", "methods")
"""The workloads of `--against`: those that can run with two versions of Clew in turn."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=list(WORKLOADS), nargs="+", help="these workloads")
    parser.add_argument("--on", choices=STORAGES, nargs="+", default=list(STORAGES), help="these storages")
    parser.add_argument(
        "--peer", choices=list(PEERS), help="with this peer's targets too, which must be installed here"
    )
    parser.add_argument(
        "--against",
        metavar="REVISION",
        help=f"compare with Clew at this git revision instead of the raw drivers ({', '.join(COMPARED)})",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, not how fast anything is")
    size.add_argument("--full", action="store_true", help="full sizes: a million checkpoints, and longer rounds")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    chosen = parser.parse_args(arguments)
    if chosen.against and (chosen.peer or not set(chosen.only or ()) <= set(COMPARED)):
        parser.error(f"--against compares {', '.join(COMPARED)}, without a peer")
    with tempfile.TemporaryDirectory() as folder:
        other = earlier(chosen.against, Path(folder)) if chosen.against else None
        return run_all(chosen, chosen.only or list(COMPARED if other else WORKLOADS), other)


def run_all(chosen: argparse.Namespace, only: Sequence[str], other: ModuleType | None) -> int:
    """Run the chosen workloads and print their results. `other` is a version of Clew to compare with."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    outcomes: list[Outcome] = []
    servers: dict[str, str] = {}
    on = [each for each in chosen.on if chosen.peer is None or targets_of(PEERS[chosen.peer], each)]
    pairs = [(name, storage) for name in only for storage in on if storage in WORKLOADS[name].storages]
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(pairs))
        for name, storage in pairs:

            def say(text: str, place: str = f"{name}, {storage}: ") -> None:
                progress.update(task, description=place + text)

            made: Size = "tiny" if chosen.quick else "full" if chosen.full else "usual"
            found, versions = measured(name, storage, size=made, peer=chosen.peer, report=say, other=other)
            servers |= versions
            outcomes.append(found)
            progress.advance(task)
            _print(progress.console, found)
            if chosen.json:
                outcome.write(chosen.json, {}, outcomes)
    about = outcome.about(servers)
    console.print(*[f"{key} {value}" for part in about.values() for key, value in part.items()], sep=", ")
    console.print(
        "Medians of calls taken in turn, ± the distance of the quartiles; in brackets, against the raw driver."
    )
    if chosen.json:
        outcome.write(chosen.json, about, outcomes)
    return 0


def measured(
    name: str,
    storage: str,
    *,
    size: Size,
    report: Report,
    peer: str | None = None,
    other: ModuleType | None = None,
) -> tuple[Outcome, dict[str, str]]:
    """Run one workload on one storage; return the outcome and the servers' versions."""
    begun = time.monotonic()
    workload = WORKLOADS[name]
    environment = peer or "clew"
    if workload.needs and importlib.util.find_spec(workload.needs) is None:
        left_out = [("all", name, f"{workload.needs} is not installed here")]
        return Outcome(workload=name, storage=storage, environment=environment, left_out=left_out), {}
    failed: list[PeerError] = []
    while True:
        # Collect the garbage of earlier runs before this one is measured.
        gc.collect()
        try:
            with tempfile.TemporaryDirectory() as folder:
                run, results, versions = asyncio.run(
                    _go(workload, storage, Path(folder), size, report, peer, failed, other)
                )
            break
        except PeerError as error:
            failed.append(error)
    measures = [each for each in results if isinstance(each, Measure)]
    figures = [each for each in results if isinstance(each, Figure)]
    found = Outcome(
        workload=name,
        storage=storage,
        environment=environment,
        measures=measures,
        figures=list(against(measures)) if other else [*figures, *goals_of(name, storage, measures)],
        left_out=[*run.left_out, *[(each.target, each.what, str(each)) for each in failed]],
        code=run.code,
        seconds=time.monotonic() - begun,
        load=os.getloadavg()[0],
    )
    return found, versions


async def _go(
    workload: Workload,
    storage: str,
    folder: Path,
    size: Size,
    report: Report,
    peer: str | None,
    failed: Sequence[PeerError],
    other: ModuleType | None,
) -> tuple[Run, Results, dict[str, str]]:
    """Run a workload with all targets, leaving out those that fail."""
    places = (*OWN.values(), *(PEERS[peer] if peer else ()))
    without = {each.target for each in failed}
    targets = [each for each in targets_of(places, storage) if each.name not in without]
    if other is not None:
        targets = versions(other)
    ground = Ground(folder, upkeep=workload.upkeep)
    run = Run(storage=storage, size=size, ground=ground, report=report, targets=targets, peers=peer is not None)
    try:
        return run, await workload.run(run), ground.versions
    finally:
        await ground.close()


def _print(console: Console, found: Outcome) -> None:
    if found.measures:
        console.print(tables.measures(found))
    if found.figures:
        console.print(tables.goals(found))
    for target, what, why in found.left_out:
        console.print(f"Left out: {target}, {what}: {why}")


if __name__ == "__main__":
    sys.exit(main())
