"""Commands that only read: threads, history, show, messages, search, diff."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any, Literal

import typer
from rich.pretty import Pretty
from rich.text import Text

import clew
from clew.cli.lookup import config_of, find_checkpoint, find_thread, open_store
from clew.cli.options import AsJson, Limit, Offset, Thread
from clew.cli.output import ago, as_json, clean, console, counted, facts, moment, one_line, said, size
from clew.cli.output import show as display
from clew.cli.tables import hit_table, message_table, thread_table, timeline
from clew.clock import SYSTEM_CLOCK

Branches = Literal["head", "all"]
_SHORT_TEXT = 200
_SHORT_LIST = 20


def threads(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only the threads of this user.")] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only threads with this text in their id, name or tags.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Only threads with this tag. Repeatable: all of them.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only threads with this in their metadata. Repeatable: all of them."),
    ] = None,
    limit: Limit = 50,
    offset: Offset = 0,
    json: AsJson = False,
) -> None:
    """List threads, most recently active first."""
    wanted = dict(map(_pair, metadata or ()))
    with open_store(ctx.obj) as checkpointer:
        owner = {"user_id": user or clew.ANY_USER}
        found = checkpointer.list_threads(owner, search, offset, limit + 1, tags=tag or None, metadata=wanted or None)
    if json:
        typer.echo(as_json([each.to_dict() for each in found[:limit]]))
        return
    if not found:
        console().print("no threads" if offset == 0 else "no more threads", style="dim")
        return
    display(thread_table(found[:limit], now=SYSTEM_CLOCK.now()))
    _say_if_more(found, limit, offset)


def history(ctx: typer.Context, thread: Thread, limit: Limit = 50, json: AsJson = False) -> None:
    """List a thread's checkpoints, newest first."""
    with open_store(ctx.obj) as checkpointer:
        described = find_thread(checkpointer, thread)
        found = checkpointer.list_checkpoints(config_of(thread), limit=limit)
    if json:
        typer.echo(as_json([each.to_dict() for each in found]))
        return
    if not found:
        console().print("no checkpoints", style="dim")
        return
    display(timeline(found))
    if described.forked_from is not None:
        said(f"forked from {_spelled_source(described)}", "dim")
    if len(found) == limit < described.checkpoint_count:
        console().print(f"the newest {limit} of {described.checkpoint_count:,}; --limit shows more", style="dim")


def show(
    ctx: typer.Context,
    thread: Thread,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The checkpoint: an id, a prefix of one, or a number from `clew history`."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show long lists and texts in full.")] = False,
    json: AsJson = False,
) -> None:
    """Show a thread and its state, at the head or at a checkpoint."""
    with open_store(ctx.obj) as checkpointer:
        described = find_thread(checkpointer, thread)
        chosen = find_checkpoint(checkpointer, thread, checkpoint) if described.head or checkpoint else None
        loaded = checkpointer.get_checkpoint(config_of(thread, chosen.checkpoint_id)) if chosen else None
    if json:
        typer.echo(as_json({"thread": described.to_dict(), "checkpoint": loaded.to_dict() if loaded else None}))
        return
    out = console()
    now = SYSTEM_CLOCK.now()
    display(
        facts(
            [
                ("thread", Text(clean(described.thread_id), style="bold")),
                ("name", described.thread_name),
                ("owner", described.user_id),
                ("tags", ", ".join(described.tags)),
                ("about", described.metadata or None),
                ("forked from", _spelled_source(described)),
                ("holds", _spelled_counts(described)),
                ("last active", ago(described.updated_at, now)),
            ]
        )
    )
    out.print()
    if loaded is None or chosen is None:
        out.print("no checkpoints", style="dim")
        return
    display(
        facts(
            [
                ("checkpoint", Text(chosen.checkpoint_id, style="bold")),
                ("number", f"#{chosen.sequence}"),
                ("parent", chosen.parent_id),
                ("step", chosen.step),
                ("node", chosen.node_name),
                ("run", chosen.run_id),
                ("created", moment(chosen.created_at) if chosen.created_at != chosen.updated_at else None),
                ("saved", moment(chosen.updated_at)),
                ("size", size(chosen.size)),
                ("about", chosen.metadata or None),
            ]
        )
    )
    out.print()
    # Pretty prints the repr, which escapes control characters in the state.
    out.print(
        Pretty(
            loaded.state,
            max_length=None if full else _SHORT_LIST,
            max_string=None if full else _SHORT_TEXT,
            expand_all=False,
        )
    )


def messages(
    ctx: typer.Context,
    thread: Thread,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only messages that contain this text.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="As of this checkpoint, on its branch: an id, a prefix of one, or a number from `clew history`.",
        ),
    ] = None,
    all_branches: Annotated[bool, typer.Option("--all-branches", help="Messages of all branches.")] = False,
    last: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N messages.")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
    json: AsJson = False,
) -> None:
    """List the messages of a thread's conversation, oldest first."""
    with open_store(ctx.obj) as checkpointer:
        find_thread(checkpointer, thread)
        chosen = None if checkpoint is None else find_checkpoint(checkpointer, thread, checkpoint).checkpoint_id
        branches: Branches = "all" if all_branches else "head"
        config = config_of(thread, chosen)
        if last is None:
            found = checkpointer.list_messages(config, search, offset, limit + 1, branches=branches)
        else:
            found = checkpointer.list_messages(config, search, offset, branches=branches, last=last)
            limit = last
    if json:
        typer.echo(as_json([each.to_dict() for each in found[:limit]]))
        return
    if not found:
        console().print("no messages" if offset == 0 else "no more messages", style="dim")
        return
    console().print(message_table(found[:limit], search=search))
    _say_if_more(found, limit, offset)


def search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to find; case doesn't matter.")],
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only in the threads of this user.")] = None,
    limit: Limit = 20,
    before: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Continue after the hit with this position (see --json).")
    ] = None,
    json: AsJson = False,
) -> None:
    """Find messages in all threads, newest first."""
    with open_store(ctx.obj) as checkpointer:
        found = checkpointer.search(text, user_id=user or clew.ANY_USER, limit=limit + 1, before=before)
    if json:
        typer.echo(as_json([each.to_dict() for each in found[:limit]]))
        return
    if not found:
        console().print("no messages", style="dim")
        return
    display(hit_table(found[:limit]))
    if len(found) > limit:
        console().print(f"the newest {limit}; --limit shows more", style="dim")


def diff(
    ctx: typer.Context,
    thread: Thread,
    a: Annotated[str, typer.Argument(metavar="A", help="The older checkpoint: an id, a prefix of one, or a number.")],
    b: Annotated[str | None, typer.Argument(metavar="B", help="The newer checkpoint; the default is the head.")] = None,
    json: AsJson = False,
) -> None:
    """Show what changed between two checkpoints of a thread."""
    with open_store(ctx.obj) as checkpointer:
        older = find_checkpoint(checkpointer, thread, a)
        newer = find_checkpoint(checkpointer, thread, b)
        found = checkpointer.diff(config_of(thread, older.checkpoint_id), config_of(thread, newer.checkpoint_id))
    if json:
        typer.echo(as_json(found.to_dict()))
        return
    console().print(found, soft_wrap=True)


def _pair(text: str) -> tuple[str, Any]:
    """The key and the value of `KEY=VALUE`. A value that is JSON is taken as such: `seats=2`, `paid=true`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{text!r}: metadata is given as KEY=VALUE, such as plan=gold")
    try:
        return key, json_module.loads(value)
    except ValueError:
        return key, value


def _say_if_more(found: list[clew.ThreadInfo] | list[clew.Message], limit: int, offset: int) -> None:
    if len(found) > limit:
        console().print(f"more results: --offset {offset + limit}", style="dim")


def _spelled_source(described: clew.ThreadInfo) -> str | None:
    source = described.forked_from
    return one_line(f"{source['thread_id']} at {source['checkpoint_id']}") if source is not None else None


def _spelled_counts(described: clew.ThreadInfo) -> str:
    checkpoints, messages = (
        counted(described.checkpoint_count, "checkpoint"),
        counted(described.message_count, "message"),
    )
    return f"{checkpoints}, {messages}, {size(described.size)}"
