"""World of a run: servers, clients and troubles on one event loop, and the verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

import clew
from clew.chance import drawn_from
from clew.errors import ClewError
from clew.testing.simulation.client import Client
from clew.testing.simulation.clocks import SeededChance, SimulatedClock
from clew.testing.simulation.loop import EndlessError, Process, VirtualLoop
from clew.testing.simulation.network import LATEST, Link, Network, Server, Weather
from clew.testing.simulation.plan import Plan, Trouble, make_plan
from clew.testing.simulation.scenarios import Scenario
from clew.testing.simulation.trace import Trace
from clew.testing.verdict.branches import PREFIX, crossings
from clew.testing.verdict.history import History
from clew.testing.verdict.judge import Findings, Found, judge
from clew.testing.verdict.stock import compare, take_stock

_LONGEST: Final = 400.0
"""Virtual seconds after which a working client counts as stuck."""
_SETTLING: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run."""

    plan: Plan
    findings: Findings
    commits: int
    reads: int
    seconds: float
    faults: Counter[str]
    errors: Counter[str]
    callbacks: int
    trace: Trace = field(repr=False)

    @property
    def holds(self) -> bool:
        return not self.findings.counts


class World:
    """The servers and clients of one run."""

    def __init__(self, scenario: Scenario, plan: Plan, *, traced: bool) -> None:
        self.scenario = scenario
        self.plan = plan
        self.loop = VirtualLoop(Random(f"{plan.seed} {plan.salt} order"))
        self.trace = Trace(self.loop, on=traced)
        self.network = Network(self.loop, self.trace)
        self.servers = [
            Server(name, forgets=number in scenario.forgets, memory=scenario.memory)
            for number, name in enumerate(scenario.servers)
        ]
        self.processes: list[Process] = []
        self.findings = Findings()
        self.history = History()
        self._left = plan.clients
        self._worked = self.loop.create_future()
        self._healed = False
        self.clients = [Client(self, number, self._client_done) for number in range(plan.clients)]

    def _client_done(self) -> None:
        self._left -= 1
        if not self._left and not self._worked.done():
            self._worked.set_result(None)

    async def run(self) -> None:
        """Run the plan, heal all faults, and judge the result."""
        for client in self.clients:
            client.start()
        for trouble in self.plan.troubles:
            self.network.at(trouble.at, self._begin, trouble)
        try:
            async with asyncio.timeout(_LONGEST):
                await self._worked
        except TimeoutError:
            self._stuck()
        self._heal()
        await asyncio.sleep(LATEST)
        for client in self.clients:
            client.kill()
            self.history.add(client.number, client.notes.lines)
        await self._judge()

    def _stuck(self) -> None:
        at_work = [client.name for client in self.clients if not client.finished]
        self.findings.add("stuck", f"{', '.join(at_work)} did not end within {_LONGEST:g} s")

    # Troubles

    def _begin(self, trouble: Trouble) -> None:
        if self._healed:
            return
        client, server = self.clients[trouble.client], self.servers[trouble.server]
        weather = client.weather[trouble.server]
        until = self.loop.time() + trouble.length
        process = client.process
        self.network.faults[trouble.kind] += 1
        self.trace.note("trouble", f"{trouble.kind} {self._whom(trouble)} for {trouble.length:g} s")
        match trouble.kind:
            case "kill":
                client.kill()
                self.network.at(until, self._restart, client)
            case "stop":
                if process is not None and process.alive:
                    self.loop.freeze(process)
                    self.network.at(until, self._thaw, process)
            case "jump":
                client.clock.skew += (trouble.amount - 0.5) * 2 * trouble.length * 10
            case "crash":
                self.network.crash(server, int(trouble.amount * 20))
                self.network.at(until, self._up, server)
            case "pause":
                server.paused = not server.down
                self.network.at(until, self._resume, server)
            case "fill":
                server.full = True
                self.network.at(until, self._empty, server)
            case "cut":
                weather.cut = True
                self.network.at(until, self._clear, weather)
            case "lossy":
                weather.lossy = trouble.amount * 0.3
                self.network.at(until + 2 * trouble.length, self._clear, weather)
            case "slow":
                weather.slow = trouble.amount * 0.5
                self.network.at(until + 2 * trouble.length, self._clear, weather)
            case "twice":
                weather.twice = trouble.amount * 0.5
                self.network.at(until + 2 * trouble.length, self._clear, weather)

    def _whom(self, trouble: Trouble) -> str:
        client, server = self.clients[trouble.client].name, self.servers[trouble.server].name
        if trouble.kind in ("kill", "stop", "jump"):
            return client
        return server if trouble.kind in ("crash", "pause", "fill") else f"{client} to {server}"

    def _restart(self, client: Client) -> None:
        if client.process is None or not client.process.alive:
            client.start()

    def _thaw(self, process: Process) -> None:
        if process.frozen:
            self.trace.note(process.name, "continues")
            self.loop.thaw(process)

    def _up(self, server: Server) -> None:
        server.down = False
        self.trace.note("trouble", f"{server.name} is up again")

    def _resume(self, server: Server) -> None:
        if server.paused:
            self.trace.note("trouble", f"{server.name} continues")
            self.network.resume(server)

    def _empty(self, server: Server) -> None:
        server.full = False

    def _clear(self, weather: Weather) -> None:
        weather.cut = False
        weather.lossy = weather.slow = 0.0
        weather.twice = self.scenario.twice

    def _heal(self) -> None:
        self.trace.note("trouble", "is over")
        self._healed = self.network.calm = True
        for server in self.servers:
            server.down = server.full = False
            self._resume(server)
        for process in self.processes:
            self._thaw(process)

    # Verdict

    async def _judge(self) -> None:
        findings, scenario = self.findings, self.scenario
        if scenario.replicated:
            await self._settle()
        found: dict[str, Found] = {}
        try:
            store = scenario.store(self.servers[0].store)
            found = await take_stock(store, self.history, findings, heads=not scenario.may_hide, now=self.loop.time)
            await self._judge_branches(store)
            if scenario.replicated:
                other = scenario.store(self.servers[1].store)
                threads = sorted({each.thread for each in self.history.writes})
                async for text in compare(store, other, threads):
                    findings.add("different", text)
                await self._judge_branches(other)
            elif len(self.servers) > 1:
                # Reads through the cache must show the same.
                again = self._observer()
                await take_stock(again, self.history, findings, now=self.loop.time)
                await again.arelease()
        except ClewError as error:
            findings.add("damaged", f"{type(error).__name__}: {error}")
        self._judge_crossings()
        judged = judge(self.history, found, may_hide=scenario.may_hide, loose=scenario.loose)
        findings.counts.update(judged.counts)
        findings.texts += judged.texts
        findings.hidden += judged.hidden

    async def _judge_branches(self, store: clew.BaseCheckpointer) -> None:
        for thread in sorted({each.thread for each in self.history.writes if each.thread.startswith(PREFIX)}):
            async for crossing in crossings(store, thread):
                self.findings.crossings.append(crossing)

    def _judge_crossings(self) -> None:
        # Only a pair can lose a store, and with it a commit that was read before it was acknowledged.
        kept = [each for each in self.history.writes if each.acknowledged or not self.scenario.replicated]
        for each in self.findings.crossings:
            if each.is_fault({write.entry for write in kept if write.thread == each.thread}):
                self.findings.add("crossed", str(each))

    def _observer(self) -> clew.BaseCheckpointer:
        """Return a checkpointer in a new process, with a good clock and good connections."""
        process = Process("observer")
        self.processes.append(process)
        clock, chance = SimulatedClock(self.loop), Random(f"{self.plan.seed} observer")
        links = [Link(self.network, server, process, "observer", Weather(), chance) for server in self.servers]
        return self.scenario.open(links, clock)

    async def _settle(self) -> None:
        """Wait until both journals are empty and the primary serves."""
        observer = self._observer()
        until = self.loop.time() + _SETTLING
        problem: object = None
        while self.loop.time() < until:
            await asyncio.sleep(0.5)
            try:
                await observer.asetup()
                status = await observer.astatus()
            except ClewError as error:
                problem = error
                continue
            left = sum(len(server.store._journal) for server in self.servers)
            if status.primary_healthy and status.secondary_healthy and not status.failed_over and not left:
                break
            problem = f"{left} entries left: {status}"
        else:
            self.findings.add("stuck", f"not settled {_SETTLING:g} s after all faults were healed: {problem}")
        await observer.arelease()


def planned(scenario: Scenario, seed: int) -> Plan:
    """Return the plan of a seed."""
    return make_plan(
        seed,
        scenario.name,
        lanes=scenario.lanes,
        removals=scenario.removals,
        servers=len(scenario.servers),
        steps=scenario.steps,
        troubles=scenario.troubles,
    )


def simulate(scenario: Scenario, seed: int, *, plan: Plan | None = None, traced: bool = False) -> Outcome:
    """Run one seed, or a `plan` made from it. The run is the same each time, in any process."""
    plan = plan or planned(scenario, seed)
    collects = gc.isenabled()
    gc.disable()  # A run must not depend on when garbage is collected.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    world = World(scenario, plan, traced=traced)
    try:
        with drawn_from(SeededChance(Random(f"{plan.seed} {plan.salt} ids"), world.loop)):
            try:
                world.loop.run_until_complete(world.run())
            except EndlessError as error:
                world.findings.add("stuck", str(error))
            for error_text in world.loop.errors:
                if not error_text.startswith("Future"):
                    world.findings.add("strange", error_text)
            seconds, callbacks = world.loop.time(), world.loop.callbacks
            world.loop.end(world.processes)
    finally:
        logging.disable(before)
        if collects:
            gc.enable()
    ended = [each for each in world.history.writes if each.ended != float("inf")]
    return Outcome(
        plan=plan,
        findings=world.findings,
        commits=sum(each.acknowledged for each in ended),
        reads=len(world.history.reads),
        seconds=seconds,
        faults=world.network.faults,
        errors=Counter(each.error for each in ended if each.error is not None),
        callbacks=callbacks,
        trace=world.trace,
    )
