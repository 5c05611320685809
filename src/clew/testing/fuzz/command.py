"""The fuzz command: runs cases on all cores, or repeats one case."""

from __future__ import annotations

import argparse
import os
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from clew.testing.fuzz.calls import CALLS
from clew.testing.fuzz.runner import KINDS, Result, around, golden_files, numbered, replay, run_cases
from clew.testing.progress import progress


class Tally:
    """The results of all cases of one kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.memory = 0
        self.failed: list[str] = []

    def add(self, result: Result) -> None:
        self.counts.update(cases=1, calls=result.calls, refused=result.refused)
        self.memory = max(self.memory, result.memory)
        if result.findings:
            self.failed.append(f"{result.kind}:{result.number}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The exit code is 1 if any call raised an error other than ClewError."""
    args = _parsed(arguments)
    console = Console(highlight=False, soft_wrap=True)
    golden = golden_files(args.golden)
    if args.case:
        return _replay(args.case, golden, console)
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    cases = {
        "calls": None if args.calls is None else -(-args.calls // CALLS),
        "stores": args.stores,
    }
    console.print(f"seed {seed}; {len(golden)} files of earlier versions; {args.jobs} processes", markup=False)
    begun, failed = time.monotonic(), False
    wanted = [kind for kind in args.on if cases.get(kind) != 0]
    for done, kind in enumerate(wanted):
        # Each kind gets an equal share of the remaining time.
        until = time.monotonic() + (args.seconds - (time.monotonic() - begun)) / (len(wanted) - done)
        failed |= _run(kind, seed, cases.get(kind, args.stores), until, args.jobs, golden, console)
    return 1 if failed else 0


def _run(
    kind: str, seed: int, count: int | None, until: float, jobs: int, golden: Sequence[Path], console: Console
) -> bool:
    tally, begun = Tally(), time.monotonic()
    with progress(console, kind, until - begun if count is None else count) as show:
        for result in run_cases(kind, numbered(seed, count, until), around(kind, golden), jobs):
            tally.add(result)
            for text in result.findings[:3]:
                console.print(f"{kind}:{result.number}: {text}", markup=False)
            so_far = time.monotonic() - begun if count is None else tally.counts["cases"]
            show(
                so_far, f"{tally.counts['cases']:,} cases, {tally.counts['calls']:,} calls, {len(tally.failed)} failed"
            )
    took = time.monotonic() - begun
    console.print(
        f"{kind}: {tally.counts['cases']:,} cases from {seed}, {tally.counts['calls']:,} calls ({tally.counts['refused']:,} "
        f"refused), at most {tally.memory >> 20} MB in a process; {len(tally.failed)} failed; {took:.0f} s",
        markup=False,
    )
    for case in tally.failed[:5]:
        console.print(f"  replay: make fuzz ARGS='--case {case}'", markup=False)
    return bool(tally.failed)


def _replay(case: str, golden: Sequence[Path], console: Console) -> int:
    result = replay(case, golden)
    console.print(f"{case}: {result.calls} calls, {result.refused} refused, {result.memory >> 20} MB", markup=False)
    for text in result.findings:
        console.print(text, markup=False)
    return 1 if result.findings else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m clew.testing.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, metavar="N", help="how many calls with arbitrary arguments; 0 for none")
    parser.add_argument("--stores", type=int, metavar="N", help="how many damaged stores; 0 for none")
    parser.add_argument(
        "--on",
        action="append",
        choices=KINDS,
        help="what to fuzz; may be given again. Without it: calls and stores (SQLite)",
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="end after so long in any case (600)")
    parser.add_argument("--seed", type=int, help="the number of the first case; by chance without it, and printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--case", metavar="KIND:NUMBER", help="run one case again, such as stores:17")
    parser.add_argument(
        "--golden", type=Path, default=Path("tests/golden"), help="folder of stores of earlier versions"
    )
    args = parser.parse_args(arguments)
    args.on = args.on or ["calls", "stores"]
    return args
