"""Rehearsal: the drill's writers in one process, with faults that the test injects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import clew
from clew.testing.verdict.history import History
from clew.testing.verdict.judge import Findings, judge
from clew.testing.verdict.stock import take_stock
from drill.ledger import Ledger, read_lines
from drill.worker import Lane, Worker

LANES: tuple[Lane, ...] = ("own", "shared", "talk", "reader")


class _Counted(Ledger):
    """A ledger that calls `told` for each acknowledgement."""

    told: Callable[[], None]

    def end(self, thread: str, number: int, error: str | None = None) -> None:
        super().end(thread, number, error)
        if error is None:
            self.told()


class Rehearsal:
    """Writers in this process, each with a ledger in `folder`."""

    def __init__(self, folder: Path, *, lanes: Sequence[Sequence[Lane]] = (LANES,) * 4, removals: bool = True) -> None:
        self._folder = folder
        self._lanes = lanes
        self._removals = removals
        self._turn = asyncio.Event()
        self.acknowledged = 0

    async def run(
        self, opener: Callable[[], clew.BaseCheckpointer], chaos: Callable[[Rehearsal], Awaitable[None]]
    ) -> None:
        """Write until `chaos` ends, with checkpointers from `opener`. Unexpected errors of writers
        are raised."""
        with ExitStack() as stack:
            async with asyncio.TaskGroup() as group:
                workers = []
                for number, lanes in enumerate(self._lanes):
                    ledger = stack.enter_context(_Counted(self._path(number), number))
                    ledger.told = self._count
                    worker = Worker(
                        opener(),
                        ledger,
                        opener=opener,
                        writers=len(self._lanes),
                        chance=random.Random(number),
                        removals=self._removals,
                        pause=0.002,
                    )
                    workers.append(worker)
                    group.create_task(worker.run(lanes))
                await chaos(self)
                for worker in workers:
                    worker.stop()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.ledger"

    def _count(self) -> None:
        self.acknowledged += 1
        self._turn.set()

    async def after(self, commits: int) -> None:
        """Wait until this many more commits have been acknowledged."""
        goal = self.acknowledged + commits
        while self.acknowledged < goal:
            self._turn.clear()
            await self._turn.wait()

    async def judged(self, checkpointer: clew.BaseCheckpointer) -> Findings:
        """Return what is wrong with the content of `checkpointer` and with the reads."""
        history = History()
        for number in range(len(self._lanes)):
            history.add(number, read_lines(self._path(number)))
        findings = Findings()
        found = await take_stock(checkpointer, history, findings)
        judged = judge(history, found)
        judged.counts.update(findings.counts)
        judged.texts += findings.texts
        return judged
