"""Simulated client: a sequence of processes that share its notes and continue its steps."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import clew
from clew.testing.simulation.clocks import SimulatedClock
from clew.testing.simulation.loop import Process
from clew.testing.simulation.network import Link, Server, Weather
from clew.testing.simulation.notes import Knowledge, Notes
from clew.testing.simulation.plan import Lane, Step
from clew.testing.simulation.worker import Worker

if TYPE_CHECKING:
    from clew.testing.simulation.world import World


class Client:
    """A client. `done` is called after all its steps were tried and its last process has ended."""

    def __init__(self, world: World, number: int, done: Callable[[], None]) -> None:
        self._world = world
        self.number = number
        self.name = f"client-{number}"
        plan = world.plan
        self.clock = SimulatedClock(world.loop, skew=plan.skews[number], rate=plan.rates[number])
        self.notes = Notes(number, world.loop.time)
        self.weather = [Weather(twice=world.scenario.twice) for _ in world.servers]
        self._lanes = plan.lanes(number)
        self._at: dict[Lane, int] = defaultdict(int)
        self._knowledge: dict[str, Knowledge] = {}
        self._done = done
        self._lives = 0
        self._opened = 0
        self._worker: Worker | None = None
        self.process: Process | None = None
        self.finished = False

    def start(self) -> None:
        """Start a process that continues where the previous one ended."""
        if self.finished:
            return
        self._lives += 1
        process = self.process = Process(f"{self.name}.{self._lives}")
        self._world.processes.append(process)
        self._world.trace.note(process.name, "starts")
        self._world.loop.start(process, self._live(process))

    def kill(self) -> None:
        if self.process is not None and self.process.alive:
            self._world.trace.note(self.process.name, "is killed")
            self._world.loop.kill(self.process)

    async def _live(self, process: Process) -> None:
        world, plan = self._world, self._world.plan
        self.notes.started()

        def opened() -> clew.BaseCheckpointer:
            return world.scenario.open(
                [self._link(process, server, at) for at, server in enumerate(world.servers)], self.clock
            )

        if self._worker is not None:
            self._worker.give_up_all()
        checkpointer = opened()
        worker = self._worker = Worker(
            process,
            checkpointer,
            notes=self.notes,
            knowledge=self._knowledge,
            opener=opened,
            findings=world.findings,
            trace=world.trace,
            now=world.loop.time,
            clock=self.clock,
            may_hide=world.scenario.may_hide,
            defers=world.scenario.durability == "background",
        )
        await asyncio.gather(*(self._work(worker, lane, steps) for lane, steps in self._lanes.items()))
        # Most processes end with a release, some without one.
        if Random(f"{plan.seed} {self.name} end").random() < 0.7:
            try:
                await checkpointer.arelease()
            except clew.ClewError:
                pass
            else:
                worker.settle_all()
        self.finished = True
        world.loop.kill(process)
        self._done()

    def _link(self, process: Process, server: Server, at: int) -> Link:
        world = self._world
        self._opened += 1
        chance = Random(f"{world.plan.seed} {world.plan.salt} {self.name} {self._opened}")
        return Link(world.network, server, process, process.name, self.weather[at], chance)

    async def _work(self, worker: Worker, lane: Lane, steps: list[Step]) -> None:
        while self._at[lane] < len(steps):
            step = steps[self._at[lane]]
            self._at[lane] += 1
            await asyncio.sleep(max(0.0, step.at - self._world.loop.time()))
            await worker.perform(step)
