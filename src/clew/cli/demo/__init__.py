"""`clew demo`: an agent is killed in the middle of a run, and nothing that it saved is lost."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the conversation's file there, to look into.")] = False,
) -> None:
    """See Clew at work: an agent is killed in the middle of a run and resumes with nothing lost. Needs no API key."""
    # Late: the agent's process imports this package too, and needs none of it.
    from clew.cli.demo.show import Show
    from clew.cli.showing import console

    folder = Path(tempfile.mkdtemp(prefix="clew-demo-"))
    show = Show(console(), folder)
    try:
        passed = show.run(keep=keep)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    raise typer.Exit(0 if passed else 1)
