"""Commands that change one thread: fork, rewind, delete."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import clew
from clew.cli.lookup import config_of, find_checkpoint, find_thread, open_store
from clew.cli.options import AsJson, Thread
from clew.cli.output import as_json, counted, one_line, said


def fork(
    ctx: typer.Context,
    thread: Thread,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Where to fork: an id, a prefix of one, or a number from `clew history`; default: the head.",
        ),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NEW", help="The new thread's id; default: a generated one.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Fork a thread: start a new one with its state and messages. The thread does not change."""
    with open_store(ctx.obj) as checkpointer:
        owner = find_thread(checkpointer, thread).user_id
        chosen = find_checkpoint(checkpointer, thread, checkpoint)
        # As the owner, so that the fork has the same owner: a thread that ANY_USER creates has none.
        source = {**config_of(thread, chosen.checkpoint_id), "user_id": owner}
        made = str(checkpointer.fork(source, into)["thread_id"])
    if json:
        typer.echo(as_json({"thread_id": made, "forked_from": thread, "checkpoint_id": chosen.checkpoint_id}))
        return
    said(f"{one_line(made)} forked from {one_line(thread)} at #{chosen.sequence}")


def rewind(
    ctx: typer.Context,
    thread: Thread,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="ID",
            help="The checkpoint to go back to: an id, a prefix of one, or a number from `clew history`.",
        ),
    ] = None,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, metavar="N", help="Go back by so many user messages; default: 1.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Go back: make an earlier state and its conversation the thread's head. Nothing is removed."""
    with open_store(ctx.obj) as checkpointer:
        owner = find_thread(checkpointer, thread).user_id
        chosen = None if to is None else find_checkpoint(checkpointer, thread, to).checkpoint_id
        made = checkpointer.rewind({**config_of(thread), "user_id": owner}, to=chosen, turns=turns)
        told = len(checkpointer.list_messages(made.config))
    if json:
        typer.echo(as_json({**made.metadata.to_dict(), "messages": told}))
        return
    said(f"{one_line(thread)} is at #{made.metadata.sequence}, with {counted(told, 'message')}")


def delete(
    ctx: typer.Context,
    thread: Thread,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    json: AsJson = False,
) -> None:
    """Delete a thread with its checkpoints and messages. Asks first; it can't be undone."""
    with open_store(ctx.obj) as checkpointer:
        found = find_thread(checkpointer, thread)
        held = f"{counted(found.checkpoint_count, 'checkpoint')} and {counted(found.message_count, 'message')}"
        if not yes:
            _confirm(f"Delete {one_line(thread)} with {held}?")
        checkpointer.delete_thread(config_of(thread))
    if json:
        typer.echo(as_json({"deleted": found.to_dict()}))
        return
    said(f"{one_line(thread)} deleted, with {held}")


def _confirm(question: str) -> None:
    """Ask, and return if the answer is yes. Raises Abort if it is no, and ConfigError if nobody answers."""
    try:
        # On standard error, so that --json prints JSON only.
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        # Standard input has ended, or Ctrl-C. The question's line is still open.
        typer.echo(err=True)
        raise clew.ConfigError("nothing was deleted: there is no answer; pass --yes to delete without asking") from None
    if not sys.stdin.isatty():
        typer.echo(err=True)  # Nobody pressed Enter here.
    if not agreed:
        raise typer.Abort
