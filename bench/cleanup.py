"""How fast old checkpoints go: `python -m bench.cleanup --on sqlite --checkpoints 1000000`, with a bar while it goes on."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import clew
from bench.conversation import messages
from bench.figure import Figure, Report
from clew.cli.showing import progress_bar
from clew.model.reports import Progress

HISTORY = 100
"""Checkpoints of each thread before the cleanup."""
KEPT = 10
"""And after it."""
FILLERS = 64
GOAL = 5_000
"""Checkpoints a second that may go at least."""


async def measured(checkpointer: clew.BaseCheckpointer, checkpoints: int, fill: Progress, clean: Progress) -> Figure:
    """The rate at which checkpoints go out of a store with threads of 100 turns each, until the newest 10 of each are left."""
    threads = max(1, checkpoints // HISTORY)
    await _fill(checkpointer, threads, fill)
    before = (await checkpointer.astats()).stored_bytes
    begun = time.perf_counter()
    report = await checkpointer.acleanup(clew.RetentionPolicy(max_history=KEPT), progress=clean)
    taken = time.perf_counter() - begun
    after = (await checkpointer.astats()).stored_bytes
    assert report.checkpoints == threads * (HISTORY - KEPT)
    return Figure(
        f"cleanup of {threads * HISTORY:,} checkpoints",
        report.checkpoints / taken,
        GOAL,
        f"{report.checkpoints:,} of {threads:,} threads gone in {taken:,.1f} s; content less by {report.bytes / 1e6:,.1f} MB, "
        f"the store {before / 1e6:,.1f} to {after / 1e6:,.1f} MB",
        at_least=True,
        unit="/s",
    )


async def _fill(checkpointer: clew.BaseCheckpointer, threads: int, progress: Progress) -> None:
    said = messages(HISTORY)
    left, done = iter(range(threads)), 0

    async def write() -> None:
        nonlocal done
        for thread in left:
            for turn in range(HISTORY):
                await checkpointer.aupdate_state(f"t{thread}", append={"messages": said[2 * turn : 2 * turn + 2]})
            done += HISTORY
            progress(done, threads * HISTORY)

    await asyncio.gather(*(write() for _ in range(FILLERS)))


def on_sqlite(folder: Path, checkpoints: int, report: Report) -> list[Figure]:
    """The figure of a file in `folder`."""
    return asyncio.run(on_store(f"sqlite:///{folder / 'cleanup.db'}", checkpoints, report))


async def on_store(url: str, checkpoints: int, report: Report) -> list[Figure]:
    """The figure of the store that `url` names; `report` is told how it goes."""

    def saved(done: int, total: int) -> None:
        report(f"cleanup: saved {done:,} of {total:,} checkpoints")

    def cleaned(done: int, total: int) -> None:
        report(f"cleanup: looked at {done:,} of {total:,} checkpoints")

    async with clew.connect(url) as checkpointer:
        return [await measured(checkpointer, checkpoints, saved, cleaned)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cleanup", description=__doc__)
    parser.add_argument("--on", choices=["sqlite", "postgres", "redis"], default="sqlite", help="which storage")
    parser.add_argument("--checkpoints", type=int, default=100_000, help="how many there are before the cleanup")
    arguments = parser.parse_args()

    async def go() -> Figure:
        with (
            tempfile.TemporaryDirectory() as folder,
            progress_bar("saving  ") as fill,
            progress_bar("cleaning") as clean,
        ):
            if arguments.on == "sqlite":
                async with clew.connect(f"sqlite:///{folder}/cleanup.db") as checkpointer:
                    return await measured(checkpointer, arguments.checkpoints, fill, clean)
            # Late: the servers' workloads know this one.
            from bench.servers import TARGETS

            async with TARGETS[arguments.on].running() as (url, _), clew.connect(url) as checkpointer:
                return await measured(checkpointer, arguments.checkpoints, fill, clean)

    figure = asyncio.run(go())
    print(f"{figure.name} on {arguments.on}: {figure.value:,.0f} a second; {figure.how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
