"""`clew demo`: kills an agent in the middle of a run, and shows that nothing it saved is lost."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the conversation's file for inspection.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON instead of the story.")] = False,
) -> None:
    """Run the demo: an agent is killed in mid-run and resumes with nothing lost. Needs no API key."""
    # Imported late: the agent's process imports this package and needs none of these.
    from clew.cli.demo.show import Show
    from clew.cli.output import as_json, console

    folder = Path(tempfile.mkdtemp(prefix="clew-demo-"))
    out = console()
    out.quiet = json
    show = Show(out, folder)
    try:
        passed = show.run(keep=keep)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if json:
        checks = [{"claim": claim, "passed": held} for claim, held in show.checks]
        typer.echo(as_json({"passed": passed, "checks": checks, "kept": str(folder) if keep else None}))
    raise typer.Exit(0 if passed else 1)
