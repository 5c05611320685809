"""The command that lets history go."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final

import typer

from clew.cli.finding import config_of, find_thread, open_store
from clew.cli.options import AsJson, MaybeThread
from clew.cli.showing import as_json, console, counted, listing, progress_bar, size
from clew.model.retention import RetentionPolicy

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SIZES: Final = {"": 1, "B": 1, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def cleanup(
    ctx: typer.Context,
    thread: MaybeThread = None,
    max_age: Annotated[str | None, typer.Option(metavar="AGE", help="What is older may go: 90m, 12h, 30d, 8w.")] = None,
    max_history: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="All but the newest so many of each namespace may go.")
    ] = None,
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The oldest may go until a thread takes no more: 500KB, 20MB.")
    ] = None,
    keep_every: Annotated[int | None, typer.Option(min=1, metavar="N", help="Keep every n-th one in any case.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json: AsJson = False,
) -> None:
    """Remove old checkpoints and what only they needed, and give the space back. Heads, messages and threads stay."""
    policy = RetentionPolicy(
        max_age=_age(max_age) if max_age is not None else None,
        max_history=max_history,
        max_bytes=_bytes(max_bytes) if max_bytes is not None else None,
        keep_every=keep_every,
    )
    with open_store(ctx.obj) as checkpointer, progress_bar("cleaning up") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        config = config_of(thread) if thread is not None else None
        report = checkpointer.cleanup(policy, config=config, dry_run=dry_run, progress=progress)
    if json:
        typer.echo(as_json(report.to_dict()))
        return
    table = listing()
    table.add_column(f"{'would go' if dry_run else 'gone'} from {counted(report.threads, 'thread')}")
    table.add_column("count", justify="right")
    table.add_column("content", justify="right")
    for name, count, content in (
        ("checkpoints", report.checkpoints, report.checkpoint_bytes),
        ("attachments", report.attachments, report.attachment_bytes),
        ("values", report.values, report.value_bytes),
    ):
        table.add_row(name, f"{count:,}", size(content))
    table.add_row("together", "", size(report.bytes))
    console().print(table)
    if report.over_limit:
        console().print(
            f"{counted(report.over_limit, 'thread')} over the limit all the same: heads, messages or shared values"
        )


def _age(text: str) -> timedelta:
    advice = "an age is a number and one of s, m, h, d, w: 30d"
    try:
        return timedelta(seconds=_measured(text, _UNITS, advice))
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is longer than can be counted; {advice}") from error


def _bytes(text: str) -> int:
    return int(_measured(text.upper(), _SIZES, "a size is a number, and maybe KB, MB or GB: 20MB"))


def _measured(text: str, units: dict[str, int], advice: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if found is None or found[2] not in units:
        raise typer.BadParameter(f"{text!r}: {advice}")
    return float(found[1]) * units[found[2]]
