"""The command that follows a thread, or a user's threads, live."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

import clew
from clew.cli.lookup import open_store
from clew.cli.options import AsJson, MaybeThread
from clew.cli.output import as_json, clean, console, error_console, one_line

_SHORT_TEXT = 100


def watch(
    ctx: typer.Context,
    thread: MaybeThread = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="All threads of this user.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Continue after this event; `--json` prints positions.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="End after so long without an event.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Follow a thread, a user's threads or all threads, until Ctrl-C. With --json, one event per line."""
    config: clew.Config = {"user_id": user or clew.ANY_USER}
    if thread is not None:
        config = {"thread_id": thread, "user_id": user or clew.ANY_USER}
    with open_store(ctx.obj) as checkpointer, checkpointer.watch(config, since=since, timeout=timeout) as events:
        if not json:
            error_console().print("watching; Ctrl-C ends", style="dim")
        try:
            for event in events:
                _print(event, json=json)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def _print(event: clew.Event, *, json: bool) -> None:
    if json:
        typer.echo(as_json(event.to_dict(), lines=False))
        return
    line = Text()
    line.append(f"{event.kind:<11}", style="bold red" if event.kind in ("deleted", "removed", "gap") else "bold")
    line.append(clean(event.thread_id or ""), style="cyan")
    if described := _described(event):
        line.append("  " + described)
    console().print(line, soft_wrap=True)


def _described(event: clew.Event) -> str:
    """Describe the event in one line."""
    if event.kind == "checkpoint" and event.checkpoint is not None:
        at = event.checkpoint
        return one_line(" ".join(filter(None, (f"#{at.sequence}", at.node_name, at.checkpoint_id))))
    if event.kind == "messages":
        return one_line(" | ".join(f"{each.role}: {each.text()[:_SHORT_TEXT]}" for each in event.messages))
    if event.kind == "thread" and event.thread is not None:
        return one_line(event.thread.thread_name or "")
    if event.kind == "removed":
        gone = ["all checkpoints"] if event.all_checkpoints else list(event.checkpoint_ids)
        return one_line(" ".join([*gone, *event.message_ids]))
    return "read the threads again: the store can't tell everything since the position" if event.kind == "gap" else ""
