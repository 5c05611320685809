"""`python -m mutants`: breaks each rule of a commit in each language, puts each fixed fault back, and
checks that a test fails.

Prints a table of the rule or promise, the file, and the failed test or SURVIVED. A survivor is a
failure, and so is a mutation that no longer fits its source. `HUNG` marks mutants that tests
detected by a time limit, which only counts if the mutation says that it may hang.
`--only sqlite promises`, `--rule fence` and `--promise 7` select mutations, and `--list` only prints
them.
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
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from clew.testing.servers import shared_postgres, shared_redis
from mutants import promises
from mutants.catalog import MUTATIONS, OF_RULES
from mutants.hunt import Kill, Verdict, check, hunt
from mutants.mutation import Change, Mutation, MutationError, Regression, copy_sources
from mutants.targets import TARGETS, unmutated

PROMISES = "promises"
"""The part with the mutations that put fixed faults back."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=[*TARGETS, PROMISES], help="the mutants of these storages, or of the promises"
    )
    rules = list(dict.fromkeys(each.rule for each in OF_RULES))
    parser.add_argument("--rule", nargs="+", choices=rules, metavar="RULE", help=f"of these rules: {', '.join(rules)}")
    numbers = sorted({each.promise for each in promises.MUTATIONS})
    parser.add_argument("--promise", nargs="+", type=int, choices=numbers, metavar="NUMBER", help="of these promises")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (one for each core)")
    parser.add_argument("--list", action="store_true", help="show the mutations, and run nothing")
    parser.add_argument("--unchecked", action="store_true", help="don't run the tests without a mutation first")
    arguments = parser.parse_args()
    chosen = [
        each
        for each in MUTATIONS
        if (not arguments.only or _part(each) in arguments.only)
        and (
            not (arguments.rule or arguments.promise)
            or _subject(each) in [*(arguments.rule or ()), *(arguments.promise or ())]
        )
    ]
    console = Console()
    if arguments.list:
        console.print(_table(Verdict(each, Kill(each.new), 0) for each in chosen))
        return 0
    return _hunt_all(chosen, console, jobs=arguments.jobs, checked=not arguments.unchecked)


def _part(mutation: Change) -> str:
    return mutation.storage if isinstance(mutation, Mutation) else PROMISES


def _subject(mutation: Change) -> str | int:
    """The rule or the number of the promise that is broken."""
    assert isinstance(mutation, Mutation | Regression)
    return mutation.rule if isinstance(mutation, Mutation) else mutation.promise


def _hunt_all(chosen: list[Change], console: Console, *, jobs: int, checked: bool) -> int:
    parts = {_part(each) for each in chosen}
    # Shared servers, because starting one takes longer than most tests.
    servers: dict[str, tuple[str, Callable[[], str]]] = {
        "postgres": ("CLEW_TEST_POSTGRES_URL", shared_postgres),
        "redis": ("CLEW_TEST_REDIS_URL", shared_redis),
    }
    for storage, (variable, start) in servers.items():
        if storage in parts or PROMISES in parts:
            os.environ[variable] = start()
    groups = unmutated(chosen) if checked else []
    verdicts: list[Verdict] = []
    errors: list[str] = []
    columns = (TextColumn("mutants"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="clew-mutants-") as place,
        Progress(*columns, console=console, transient=True) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        base = copy_sources(Path(place))
        task = progress.add_task("", total=len(chosen) + len(groups))
        jobs_of: dict[Future[Verdict | float], str] = {}
        for group in groups:
            jobs_of[pool.submit(check, group, base)] = group.name
        for mutation in chosen:
            jobs_of[pool.submit(hunt, mutation, base)] = mutation.name
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
                    text = f"passed    {jobs_of[done]}: without a mutation  {outcome:.1f} s"
            console.print(text, markup=False, highlight=False)
    order = {mutation: place for place, mutation in enumerate(chosen)}
    console.print(_table(sorted(verdicts, key=lambda each: order[each.mutation])))
    survivors = [each for each in verdicts if each.killed is None]
    hung = sum(1 for each in verdicts if each.killed is not None and each.killed.hung)
    console.print(
        f"{len(chosen)} mutants: {len(verdicts) - len(survivors)} killed ({hung} by a time limit), "
        f"{len(survivors)} survived, {len(errors)} errors"
    )
    return 1 if survivors or errors else 0


def _line(verdict: Verdict) -> str:
    mutation = verdict.mutation
    word = "SURVIVED" if verdict.killed is None else "hung" if verdict.killed.hung else "killed"
    return f"{word:9} {_part(mutation)} {_subject(mutation)} in {mutation.file}  {verdict.seconds:.1f} s"


def _table(verdicts: Iterable[Verdict]) -> Table:
    table = Table("breaks", "of", "file", "killed by", "seconds")
    table.columns[-1].justify = "right"
    for each in verdicts:
        killed = "[red]SURVIVED[/]"
        if each.killed is not None:
            killed = ("[yellow]HUNG[/] " if each.killed.hung else "") + escape(each.killed.by)
        mutation = each.mutation
        table.add_row(str(_subject(mutation)), _part(mutation), mutation.file, killed, f"{each.seconds:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
