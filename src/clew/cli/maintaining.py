"""Commands that act on a store: fork, stats, verify, compact."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from clew.cli.finding import config_of, find_checkpoint, find_thread, open_store
from clew.cli.options import AsJson, MaybeThread, Thread
from clew.cli.showing import as_json, console, counted, facts, listing, one_line, progress_bar, size
from clew.model.queries import Totals

_SHOWN = 10


def fork(
    ctx: typer.Context,
    thread: Thread,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Where: an id, its beginning, or a number of `clew history`; else the head."),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="The new thread's id; else one is made.")
    ] = None,
) -> None:
    """Begin a new thread from a thread's state and messages. The thread itself stays as it is."""
    with open_store(ctx.obj) as checkpointer:
        owner = find_thread(checkpointer, thread).user_id
        chosen = find_checkpoint(checkpointer, thread, checkpoint)
        # As the owner, so that what was theirs stays theirs: a thread that ANY_USER begins belongs to nobody.
        source = {**config_of(thread, chosen.checkpoint_id), "user_id": owner}
        made = checkpointer.fork(source, into)["thread_id"]
    console().print(f"{one_line(made)} begins where {one_line(thread)} was at #{chosen.sequence}", markup=False)


def stats(ctx: typer.Context, json: AsJson = False) -> None:
    """Show what the store holds: in all, by day, and its largest threads."""
    with open_store(ctx.obj) as checkpointer:
        found = checkpointer.stats()
    if json:
        typer.echo(as_json(asdict(found)))
        return
    out = console()
    out.print(
        facts(
            [
                ("threads", f"{found.total_sessions:,}"),
                ("checkpoints", f"{found.total_checkpoints:,}"),
                ("messages", f"{found.total_messages:,}"),
                ("tool calls", f"{found.total_tool_calls:,}"),
                ("content", size(found.total_bytes)),
                ("on disk", size(found.stored_bytes)),
            ]
        )
    )
    largest = sorted(found.by_thread.items(), key=lambda item: -item[1].bytes)
    for title, totals in (
        ("largest threads", largest),
        ("last days (UTC)", sorted(found.by_day.items(), reverse=True)),
    ):
        if totals:
            out.print()
            out.print(_totals_table(title, totals[:_SHOWN]))
            if len(totals) > _SHOWN:
                out.print(f"and {len(totals) - _SHOWN:,} more; --json shows all", style="dim")


def verify(ctx: typer.Context, thread: MaybeThread = None) -> None:
    """Read every checkpoint and message, and list what is damaged. Exits with 1 if anything is."""
    with open_store(ctx.obj) as checkpointer, progress_bar("verifying") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        report = checkpointer.verify(config_of(thread) if thread is not None else None, progress=progress)
    read = (
        f"{counted(report.checkpoints, 'checkpoint')} and {counted(report.messages, 'message')} "
        f"of {counted(report.threads, 'thread')} read"
    )
    out = console()
    if report.ok:
        out.print(f"[bold green]sound[/]: {read}")
        return
    table = listing()
    table.add_column("thread", style="bold", overflow="fold")
    table.add_column("damaged", overflow="fold")
    table.add_column("what is wrong", overflow="fold")
    for damage in report.damage:
        record = f"checkpoint {damage.checkpoint_id}" if damage.checkpoint_id else f"message {damage.message_id}"
        space = f" in {damage.namespace}" if damage.namespace else ""
        table.add_row(*[Text(one_line(cell)) for cell in (damage.thread_id, record + space, damage.problem)])
    out.print(table)
    out.print(f"[bold red]{counted(len(report.damage), 'damaged record')}[/]: {read}; the others are not affected")
    raise typer.Exit(1)


def compact(ctx: typer.Context, thread: MaybeThread = None) -> None:
    """Store the same in fewer bytes, and give the space back. Every checkpoint stays loadable."""
    with open_store(ctx.obj) as checkpointer, progress_bar("compacting") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        before = checkpointer.stats().stored_bytes
        report = checkpointer.compact(config_of(thread) if thread is not None else None, progress=progress)
        after = checkpointer.stats().stored_bytes
    out = console()
    table = listing()
    table.add_column(counted(report.threads, "thread"))
    for name in ("before", "after"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("content", size(report.bytes_before), size(report.bytes_after))
    table.add_row("rows of values", f"{report.rows_before:,}", f"{report.rows_after:,}")
    table.add_row("whole store on disk", size(before), size(after))
    out.print(table)


def _totals_table(title: str, totals: list[tuple[str, Totals]]) -> Table:
    table = listing()
    table.add_column(title, style="bold", overflow="fold")
    for name in ("checkpoints", "messages", "tool calls", "content"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, each in totals:
        table.add_row(
            Text(one_line(name)),
            f"{each.checkpoints:,}",
            f"{each.messages:,}",
            f"{each.tool_calls:,}",
            size(each.bytes),
        )
    return table
