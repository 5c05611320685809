"""Progress of a long run: a bar in a terminal, a line a minute in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY: Final = 60.0
"""Seconds between two lines in a log."""


@contextmanager
def progress(
    console: Console, name: str, total: float, *, monotonic: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[float, str], None]]:
    """Yield a function that shows how far a run is: `completed` of `total`, and a text."""
    if not console.is_terminal:
        last = monotonic()

        def write(completed: float, text: str) -> None:
            nonlocal last
            if monotonic() - last >= EVERY:
                last = monotonic()
                console.print(f"{name}: {completed / total:.0%}, {text}", markup=False)

        yield write
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bars:
        bar = bars.add_task(name, total=total, text="")
        yield lambda completed, text: bars.update(bar, completed=completed, text=text)
