"""The command that brings threads over from elsewhere."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

import clew
from clew.cli.showing import console, counted, progress_bar


class Framework(enum.StrEnum):
    """Whose data can be imported."""

    LANGGRAPH = "langgraph"


def import_(
    ctx: typer.Context,
    framework: Annotated[Framework, typer.Argument(metavar="FRAMEWORK", help="Whose data it is: langgraph.")],  # noqa: ARG001
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="URL", help="Where it is: sqlite:///file.db or postgresql://…; it is only read."
        ),
    ],
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:CLASS", help="A class of yours that the data may be made into; may be repeated."),
    ] = None,
) -> None:
    """Bring the threads of a framework's own store over into this one. Run again, it goes on where it stopped."""
    # Only here: the rest of the command needs no framework.
    from clew.adapters.langgraph import ClewSaver
    from clew.adapters.langgraph.importing import PastClock, import_threads, open_source

    allowed = [_class_name(each) for each in allow or ()]
    clock = PastClock()
    with clew.connect(ctx.obj, clock=clock) as checkpointer, open_source(source, allow=allowed) as found:
        saver = ClewSaver(checkpointer, allow=allowed)
        with progress_bar("importing") as progress:
            report = import_threads(found, saver, clock=clock, progress=progress)
    known = f"; {counted(report.known, 'checkpoint')} were here already" if report.known else ""
    console().print(
        f"{counted(report.checkpoints, 'checkpoint')} of {counted(report.threads, 'thread')} imported{known}"
    )


def _class_name(text: str) -> tuple[str, str]:
    module, separator, name = text.partition(":")
    if not separator or not module or not name:
        raise clew.ConfigError(f"--allow takes a module and a class, such as my_agent.state:Plan; got {text!r}")
    return module, name
