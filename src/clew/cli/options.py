"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id; `clew threads` lists them.")]
MaybeThread = Annotated[str | None, typer.Argument(metavar="[THREAD]", help="Only this thread.", show_default=False)]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")]
Offset = Annotated[int, typer.Option(min=0, metavar="N", help="Leave out the first so many.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
