"""Cleanup rate: removes all but the newest 10 of 100 checkpoints of each thread."""

from __future__ import annotations

import asyncio
import time

import clew
from bench.conversation import messages
from bench.figure import Figure
from bench.targets.clew import Clew
from bench.workloads.common import Results, Run
from clew.model.reports import Progress

SIZES = {"tiny": 200, "usual": 50_000, "full": 1_000_000}
"""Number of checkpoints before the cleanup."""
HISTORY = 100
"""Checkpoints per thread before the cleanup."""
KEPT = 10
"""Checkpoints per thread after the cleanup."""
FILLERS = 64
GOAL = 5_000
"""Required rate, in removed checkpoints per second."""


async def measured(checkpointer: clew.BaseCheckpointer, checkpoints: int, fill: Progress, clean: Progress) -> Figure:
    """Measure the rate at which checkpoints are removed, from threads of 100 turns
    down to the newest 10 of each."""
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


async def run(run: Run) -> Results:
    def saved(done: int, total: int) -> None:
        run.report(f"saved {done:,} of {total:,} checkpoints")

    def cleaned(done: int, total: int) -> None:
        run.report(f"looked at {done:,} of {total:,} checkpoints")

    async with run.opened([Clew]) as (opened,):
        assert isinstance(opened.target, Clew)
        return [await measured(opened.target.checkpointer, SIZES[run.size], saved, cleaned)]
