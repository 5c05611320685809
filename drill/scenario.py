"""Run of a scenario: servers, writers and faults, and the verdict."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import clew
from clew.testing.verdict.history import History
from clew.testing.verdict.judge import REFUSED, Findings, judge
from clew.testing.verdict.stock import take_stock
from drill.faults import Injector, Site, What
from drill.fleet import CrashError, Fleet
from drill.worker import Lane
from drill.writer import Plan

Report = Callable[[int, str], None]
"""Called with the number of acknowledged commits and the current activity."""
_STUCK: Final = 90.0
"""Seconds without an acknowledgement after which a run counts as stuck."""


class StuckError(Exception):
    """No writer makes progress, although all faults are healed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a run: commits, writers, and about one fault for each `pace` commits.

    `pause` is the longest that a writer rests between two commits, in seconds.
    """

    commits: int = 10_000
    writers: int = 8
    pace: int = 60
    pause: float = 0.1
    outages: int = 4
    """The number of outages that are long enough for a failover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run. `errors` counts writers' errors; `refused` are late writers."""

    name: str
    commits: int
    faults: Counter[What]
    errors: Counter[str]
    reads: int
    findings: Findings
    longest: float
    seconds: float
    seed: int
    failovers: int = 0
    failbacks: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.findings.counts and not self.notes

    @property
    def refused(self) -> int:
        return self.errors[REFUSED]


class Scenario(ABC):
    """Servers, writers and faults. Subclasses define what they need."""

    name: str
    lanes: Sequence[Lane] = ("own", "shared", "talk", "reader")
    removals = True
    may_hide = False
    calm = 1.0
    """A factor for the writers' pauses."""
    opener: str

    def __init__(self, seed: int, size: Size) -> None:
        self.seed = seed
        self.size = size
        self.chance = random.Random(f"{seed} {self.name}")
        self.failovers = 0
        self.failbacks = 0

    @abstractmethod
    def open_sites(self, stack: ExitStack) -> list[Site]:
        """Start the servers."""

    @abstractmethod
    def settings(self, sites: list[Site], writer: int) -> dict[str, Any]:
        """Return the arguments of the writer's opener."""

    @abstractmethod
    def store(self, sites: list[Site]) -> clew.BaseCheckpointer:
        """Return a direct connection to the store that must have everything in the end."""

    def lanes_of(self, writer: int) -> Sequence[Lane]:
        return self.lanes

    def trouble(self, injector: Injector, sites: list[Site], commits: int) -> None:
        """Inject one fault, after `commits` acknowledged commits."""
        injector.strike()

    async def settle(self, sites: list[Site], findings: Findings, history: History) -> None:
        """Wait until the stores have settled, after all faults and all writers have ended."""

    async def look_again(self, sites: list[Site], findings: Findings, history: History) -> None:
        """Check what else must hold in the end."""

    def run(self, report: Report) -> Outcome:
        """Run the scenario and judge the result."""
        begun = time.monotonic()
        notes: list[str] = []
        findings = Findings()
        with ExitStack() as stack:
            report(0, "starting the servers")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clew-drill-")))
            sites = self.open_sites(stack)
            fleet = stack.enter_context(Fleet(self._plans(folder, sites), self.chance))
            injector = Injector(sites, self.chance, fleet.kill_one)
            try:
                fleet.start()
                self._work(fleet, injector, sites, report)
            except (CrashError, StuckError) as error:
                notes.append(str(error))
            history = fleet.history()
            report(fleet.acknowledged, "reading the stores")
            if not notes:
                findings = asyncio.run(self._judged(sites, history))
        ended = [each for each in history.writes if each.ended != float("inf")]
        errors = Counter(each.error for each in ended if each.error is not None)
        return Outcome(
            name=self.name,
            commits=sum(each.acknowledged for each in ended),
            faults=injector.counts,
            errors=errors,
            reads=len(history.reads),
            findings=findings,
            longest=max((each.ended - each.begun for each in ended), default=0.0),
            seconds=time.monotonic() - begun,
            seed=self.seed,
            failovers=self.failovers,
            failbacks=self.failbacks,
            notes=notes,
        )

    def _plans(self, folder: Path, sites: list[Site]) -> list[Plan]:
        return [
            Plan(
                writer=writer,
                writers=self.size.writers,
                lanes=list(self.lanes_of(writer)),
                ledger=str(folder / f"{writer}.ledger"),
                opener=self.opener,
                settings=self.settings(sites, writer),
                seed=0,
                removals=self.removals,
                pause=self.size.pause * self.calm,
            )
            for writer in range(self.size.writers)
        ]

    def _work(self, fleet: Fleet, injector: Injector, sites: list[Site], report: Report) -> None:
        goal = self.size.commits
        while fleet.progress() < goal:
            report(fleet.acknowledged, _shown(injector.counts))
            self._await(fleet, min(goal, fleet.acknowledged + self.chance.randrange(1, 2 * self.size.pace)))
            if fleet.acknowledged < goal:
                self.trouble(injector, sites, fleet.acknowledged)
        injector.heal()
        report(fleet.acknowledged, "waiting for the writers to end")
        fleet.stop()

    def _await(self, fleet: Fleet, goal: int) -> None:
        """Wait until `goal` commits are acknowledged. Raises StuckError if there is no progress."""
        moved, last = time.monotonic(), fleet.acknowledged
        while fleet.progress() < goal:
            if fleet.acknowledged != last:
                moved, last = time.monotonic(), fleet.acknowledged
            if time.monotonic() - moved > _STUCK:
                raise StuckError(f"no commit was acknowledged for {_STUCK:g} s")
            time.sleep(0.01)

    async def _judged(self, sites: list[Site], history: History) -> Findings:
        findings = Findings()
        await self.settle(sites, findings, history)
        async with self.store(sites) as store:
            found = await take_stock(store, history, findings, heads=not self.may_hide)
        await self.look_again(sites, findings, history)
        judged = judge(history, found, may_hide=self.may_hide)
        judged.counts.update(findings.counts)
        judged.texts += findings.texts
        return judged


def _shown(faults: Counter[What]) -> str:
    return " ".join(f"{what} {count}" for what, count in faults.most_common())
