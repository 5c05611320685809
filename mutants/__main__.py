"""`python -m mutants`: breaks each rule of a commit in each language, and checks that a test fails.

Prints a table of the rule, the file, and the failed test or SURVIVED. A survivor is a failure, and
so is a mutation that no longer fits its source. `--only sqlite` and `--rule fence` select
mutations, and `--list` only prints them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from clew.testing.servers import shared_postgres, shared_redis
from mutants.catalog import MUTATIONS
from mutants.hunt import Verdict, check, hunt
from mutants.mutation import Mutation, MutationError, Storage, copy_sources
from mutants.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TARGETS), help="the mutants of these storages")
    rules = list(dict.fromkeys(each.rule for each in MUTATIONS))
    parser.add_argument("--rule", nargs="+", choices=rules, metavar="RULE", help=f"of these rules: {', '.join(rules)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (one for each core)")
    parser.add_argument("--list", action="store_true", help="show the mutations, and run nothing")
    parser.add_argument("--unchecked", action="store_true", help="don't run the tests without a mutation first")
    arguments = parser.parse_args()
    chosen = [
        each
        for each in MUTATIONS
        if (not arguments.only or each.storage in arguments.only)
        and (not arguments.rule or each.rule in arguments.rule)
    ]
    console = Console()
    if arguments.list:
        console.print(_table(Verdict(each, each.new, 0) for each in chosen))
        return 0
    return _hunt_all(chosen, console, jobs=arguments.jobs, checked=not arguments.unchecked)


def _hunt_all(chosen: list[Mutation], console: Console, *, jobs: int, checked: bool) -> int:
    storages = list(dict.fromkeys(each.storage for each in chosen))
    # Shared servers, because starting one takes longer than most tests.
    servers: dict[Storage, tuple[str, Callable[[], str]]] = {
        "postgres": ("CLEW_TEST_POSTGRES_URL", shared_postgres),
        "redis": ("CLEW_TEST_REDIS_URL", shared_redis),
    }
    for storage in storages:
        if storage in servers:
            variable, start = servers[storage]
            os.environ[variable] = start()
    verdicts: list[Verdict] = []
    errors: list[str] = []
    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="clew-mutants-") as place,
        Progress(*columns, console=console, transient=True) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        base = copy_sources(Path(place))
        task = progress.add_task("", total=len(chosen) + len(storages) * checked)
        jobs_of: dict[Future[Verdict | float], str] = {}
        for storage in storages if checked else ():
            jobs_of[pool.submit(check, storage, base)] = storage
        for mutation in chosen:
            jobs_of[pool.submit(hunt, mutation, base)] = mutation.storage
        for done in as_completed(jobs_of):
            progress.advance(task)
            try:
                outcome = done.result()
            except MutationError as error:
                errors.append(str(error))
                text = f"ERROR     {error}"
            else:
                if isinstance(outcome, Verdict):
                    verdicts.append(outcome)
                    text = _line(outcome)
                else:
                    text = f"passed    {jobs_of[done]}: its tests, without a mutation  {outcome:.1f} s"
            console.print(text, markup=False, highlight=False)
    order = {mutation: place for place, mutation in enumerate(chosen)}
    console.print(_table(sorted(verdicts, key=lambda each: order[each.mutation])))
    survivors = [each for each in verdicts if each.killed is None]
    console.print(
        f"{len(chosen)} mutants: {len(verdicts) - len(survivors)} killed, {len(survivors)} survived, {len(errors)} errors"
    )
    return 1 if survivors or errors else 0


def _line(verdict: Verdict) -> str:
    mutation = verdict.mutation
    word = "SURVIVED" if verdict.killed is None else "killed"
    return f"{word:9} {mutation.storage} {mutation.rule} in {mutation.file}  {verdict.seconds:.1f} s"


def _table(verdicts: Iterable[Verdict]) -> Table:
    table = Table("rule", "storage", "file", "killed by", "seconds")
    table.columns[-1].justify = "right"
    for each in verdicts:
        mutation = each.mutation
        killed = "[red]SURVIVED[/]" if each.killed is None else each.killed.replace("[", r"\[")
        table.add_row(mutation.rule, mutation.storage, mutation.file, killed, f"{each.seconds:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
