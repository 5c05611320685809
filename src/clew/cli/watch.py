"""The command that follows a thread, or a user's threads, live."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer
from rich.text import Text

import clew
from clew.cli.lookup import open_store
from clew.cli.options import AsJson, MaybeThread
from clew.cli.output import as_json, clean, console, error_console, moment, one_line
from clew.cli.tables import message_text

_SHORT_TEXT: Final = 60
_TIME: Final = len("2026-01-31 12:00:00")


def watch(
    ctx: typer.Context,
    thread: MaybeThread = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="All threads of this user.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Continue after this event; `--json` prints positions.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="End after this many seconds without an event.")
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
    when = _time_of(event)
    line = Text(f"{moment(when) if when is not None else '':<{_TIME}}  ", style="dim")
    line.append(f"{event.kind:<11}", style="bold red" if event.kind in ("deleted", "removed", "gap") else "bold")
    line.append(clean(event.thread_id or ""), style="cyan")
    if described := _described(event):
        line.append("  " + described)
    console().print(line, soft_wrap=True)


def _time_of(event: clew.Event) -> datetime | None:
    """The event's time; `None` if no record with a time is left."""
    if event.messages:
        return event.messages[-1].created_at
    if event.checkpoint is not None:
        return event.checkpoint.updated_at
    return event.thread.updated_at if event.thread is not None else None


def _described(event: clew.Event) -> str:
    """Describe the event in one line."""
    match event.kind:
        case "checkpoint" if event.checkpoint is not None:
            at = event.checkpoint
            step = None if at.step is None else f"step {at.step}"
            return one_line(" ".join(filter(None, (f"#{at.sequence}", step, at.node_name, at.checkpoint_id))))
        case "messages" if event.messages:
            return one_line(" | ".join(map(_snippet, event.messages)))
        case "thread" if event.thread is not None:
            return one_line(event.thread.thread_name or "")
        case "removed":
            gone = ["all checkpoints"] if event.all_checkpoints else list(event.checkpoint_ids)
            return one_line(" ".join([*gone, *event.message_ids]))
        case "deleted":
            return ""
        case "gap":
            return "read the threads again: the store no longer has all events since this position"
        case _:
            return one_line(" ".join([*event.checkpoint_ids, *event.message_ids, "(removed since)"]))


def _snippet(message: clew.Message) -> str:
    """The beginning of a message, with its tool calls."""
    text = one_line(message_text(message).plain)
    return f"{message.role}: {text if len(text) <= _SHORT_TEXT else text[:_SHORT_TEXT] + '…'}"
