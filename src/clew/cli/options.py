"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id; `clew threads` lists all ids.")]
MaybeThread = Annotated[str | None, typer.Argument(metavar="[THREAD]", help="Only this thread.", show_default=False)]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of results.")]
Offset = Annotated[int, typer.Option(min=0, metavar="N", help="Number of results to skip.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
