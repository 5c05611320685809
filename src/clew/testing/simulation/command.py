"""Command line of the simulator: runs thousands of seeds on all cores, or one with its trace."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from rich.console import Console

from clew.testing.progress import progress
from clew.testing.simulation.plan import STEPS, Plan
from clew.testing.simulation.scenarios import SCENARIOS, Scenario
from clew.testing.simulation.shrink import described, shrink
from clew.testing.simulation.world import Outcome, planned, simulate

_CHUNK: Final = 10
_COLLECT: Final = 20
"""Runs between two garbage collections."""


@dataclass(slots=True)
class Tally:
    """The totals of many seeds of one scenario."""

    seeds: int = 0
    commits: int = 0
    reads: int = 0
    hidden: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)
    fewest: int = 1 << 30

    def add(self, seed: int, outcome: Outcome) -> None:
        self.seeds += 1
        self.commits += outcome.commits
        self.fewest = min(self.fewest, outcome.commits)
        self.reads += outcome.reads
        self.hidden += outcome.findings.hidden
        self.seconds += outcome.seconds
        self.faults.update(outcome.faults)
        self.findings.update(outcome.findings.counts)
        if not outcome.holds:
            self.failed[seed] = outcome.findings.texts

    def merge(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.commits += other.commits
        self.fewest = min(self.fewest, other.fewest)
        self.reads += other.reads
        self.hidden += other.hidden
        self.seconds += other.seconds
        self.faults.update(other.faults)
        self.findings.update(other.findings)
        self.failed.update(other.failed)


def run_seeds(job: tuple[str, int, Sequence[int]]) -> Tally:
    """Run some seeds of a scenario, in this process."""
    name, steps, seeds = job
    scenario = replace(SCENARIOS[name], steps=steps)
    tally = Tally()
    for number, seed in enumerate(seeds):
        tally.add(seed, simulate(scenario, seed))
        if number % _COLLECT == _COLLECT - 1:
            gc.collect()
    gc.collect()
    return tally


def run_many(name: str, steps: int, seeds: Sequence[int], jobs: int) -> Iterator[Tally]:
    """Run seeds in `jobs` processes. Yields the totals of each chunk as it ends."""
    left = iter(seeds)
    chunks: list[list[int]] = []
    while chunk := list(islice(left, _CHUNK)):
        chunks.append(chunk)
    if jobs == 1:
        yield from map(run_seeds, ((name, steps, chunk) for chunk in chunks))
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=_begin) as pool:
        yield from pool.imap_unordered(run_seeds, ((name, steps, chunk) for chunk in chunks))


def _begin() -> None:
    gc.collect()
    gc.freeze()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns exit code 1 if anything is wrong."""
    args = _parsed(arguments)
    console = Console(highlight=False, soft_wrap=True)
    if args.seed is not None:
        return _replay(args.only[0], args.seed, args, console)
    wrong = 0
    _begin()
    for name in args.only:
        seeds = range(args.first, args.first + args.seeds)
        wrong += _run(name, seeds, args, console)
    return 1 if wrong else 0


def _run(name: str, seeds: Sequence[int], args: argparse.Namespace, console: Console) -> int:
    total = Tally()
    begun = time.monotonic()
    with progress(console, name, len(seeds)) as show:
        for tally in run_many(name, args.steps, seeds, args.jobs):
            total.merge(tally)
            for seed, texts in sorted(tally.failed.items()):
                console.print(f"{name}: seed {seed}: {'; '.join(texts[:3])}", markup=False)
            rate = total.seeds / max(0.001, time.monotonic() - begun)
            show(total.seeds, f"{total.seeds:,} seeds, {rate:.1f} seeds/s, {len(total.failed)} failed")
    took = time.monotonic() - begun
    console.print(
        f"{name}: {total.seeds:,} seeds from {seeds[0]}, {total.commits:,} commits (at least {total.fewest} a seed), "
        f"{total.reads:,} reads ({total.hidden:,} hidden), {total.seconds / 3600:.1f} h of virtual time, "
        f"{total.faults.total():,} faults; {len(total.failed)} seeds failed; {took:.0f} s, {total.seeds / took:.1f} seeds/s",
        markup=False,
    )
    if total.failed:
        console.print(f"  findings: {dict(total.findings)}", markup=False)
        console.print(f"  replay: {_command(name, min(total.failed), args.steps)}", markup=False)
    return len(total.failed)


def _replay(name: str, seed: int, args: argparse.Namespace, console: Console) -> int:
    scenario = replace(SCENARIOS[name], steps=args.steps)
    plan = planned(scenario, seed)
    if args.keep:
        plan = plan.only({int(each) for each in args.keep.split(",")})
    if args.shrink:
        plan = _shrunk(scenario, plan, console)
    outcome = simulate(scenario, seed, plan=plan, traced=True)
    threads = _named_in(outcome)
    for line in outcome.trace.lines(None if args.all or not threads else threads):
        console.print(line, markup=False)
    console.print(
        f"{name}, seed {seed}: {outcome.commits} commits, {outcome.seconds:.1f} virtual seconds, "
        f"trace {outcome.trace.digest()}",
        markup=False,
    )
    for text in outcome.findings.texts:
        console.print(text, markup=False)
    return 0 if outcome.holds else 1


def _shrunk(scenario: Scenario, plan: Plan, console: Console) -> Plan:
    found = simulate(scenario, plan.seed, plan=plan).findings.counts
    if not found:
        console.print(f"seed {plan.seed} passes: there is nothing to shrink", markup=False)
        return plan
    with console.status("shrinking") as status:
        shrunk = shrink(
            scenario,
            plan,
            set(found),
            report=lambda runs, left: status.update(
                f"shrinking: {runs} runs, {left} of {len(plan.numbers)} decisions left"
            ),
        )
    console.print(f"{len(shrunk.numbers)} of {len(plan.numbers)} decisions are left:", markup=False)
    for line in described(shrunk):
        console.print(f"  {line}", markup=False)
    kept = ",".join(map(str, sorted(shrunk.numbers)))
    console.print(f"replay: {_command(scenario.name, plan.seed, scenario.steps, f' --keep {kept}')}", markup=False)
    return shrunk


def _command(name: str, seed: int, steps: int, more: str = "") -> str:
    """Return the command that replays a seed."""
    length = "" if steps == STEPS else f" --steps {steps}"
    return f"make simulate ARGS='--only {name} --seed {seed}{length}{more}'"


def _named_in(outcome: Outcome) -> list[str]:
    """Return the threads that the findings name."""
    known = {event[3] for event in outcome.trace.events if event[3]}
    return [each for each in sorted(known) if any(f"{each}:" in text for text in outcome.findings.texts)]


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clew.testing.simulation", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help=f"a scenario: {', '.join(SCENARIOS)}")
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds for each scenario")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument(
        "--steps", type=int, default=STEPS, help=f"length of a seed: the least number of steps ({STEPS})"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--seed", type=int, help="replay this seed, with the trace of the threads that fail")
    parser.add_argument("--shrink", action="store_true", help="with --seed: leave out what the failure does not need")
    parser.add_argument(
        "--keep", metavar="NUMBERS", help="with --seed: keep only these decisions of the plan, as printed by --shrink"
    )
    parser.add_argument("--all", action="store_true", help="with --seed: print the trace of all threads")
    args = parser.parse_args(arguments)
    args.only = args.only or list(SCENARIOS)
    for name in args.only:
        if name not in SCENARIOS:
            parser.error(f"unknown scenario {name!r}; choose from {', '.join(SCENARIOS)}")
    if args.seed is not None and len(args.only) != 1:
        parser.error("--seed needs exactly one scenario: --only NAME")
    return args
