"""Commands about encryption: a new key, and what is stored sealed with it."""

from __future__ import annotations

from typing import Annotated

import typer

from clew.cli.finding import config_of, find_thread, open_store
from clew.cli.options import MaybeThread
from clew.cli.showing import console, counted, one_line, progress_bar
from clew.clock import SYSTEM_CLOCK
from clew.model.encryption import Encryption


def key(
    name: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="What the key is called; else today's date.")
    ] = None,
) -> None:
    """Make a key for encryption and print it as CLEW_ENCRYPTION_KEYS takes it. It is kept nowhere: that is up to you."""
    made = f"{SYSTEM_CLOCK.now():%Y-%m-%d}" if name is None else name
    text = f"{made}:{Encryption.new_key()}"
    Encryption.from_text(text)
    typer.echo(text)


def reseal(ctx: typer.Context, thread: MaybeThread = None) -> None:
    """Seal everything with the current key: the first in CLEW_ENCRYPTION_KEYS. Exits with 1 if something is left."""
    with open_store(ctx.obj) as checkpointer, progress_bar("sealing") as progress:
        if thread is not None:
            find_thread(checkpointer, thread)
        report = checkpointer.reseal(config_of(thread) if thread is not None else None, progress=progress)
    out = console()
    out.print(f"{report.resealed:,} of {counted(report.threads, 'thread')} sealed anew")
    if report.left:
        shown = ", ".join(map(one_line, report.left[:5])) + (", …" if len(report.left) > 5 else "")
        out.print(
            f"{counted(len(report.left), 'thread')} still need another key ({shown}): keep the old keys", markup=False
        )
        raise typer.Exit(1)
