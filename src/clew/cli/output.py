"""Output helpers: consoles, tables, sizes, times, and text with its control characters escaped."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import rich.box
from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from clew.model.reports import Progress as OnProgress

PIPED_WIDTH = 120


def console() -> Console:
    """Return the console for results. In a pipe, lines have `$COLUMNS` or 120 characters."""
    return _console(stderr=False)


def error_console() -> Console:
    """Return the console for errors and progress."""
    return _console(stderr=True)


def show(content: RenderableType) -> None:
    """Print a result. The terminal wraps lines that are longer, so that ids can be copied."""
    console().print(content, soft_wrap=True)


def said(line: str, style: str | None = None) -> None:
    """Print a line of text as it is."""
    console().print(line, style=style, soft_wrap=True, markup=False)


def _console(*, stderr: bool) -> Console:
    made = Console(stderr=stderr, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PIPED_WIDTH
    return made


def clean(text: str) -> str:
    """Return `text` with visible control characters, so that it can't control the terminal."""
    return "".join(_visible(char) if unicodedata.category(char) in ("Cc", "Cf") else char for char in text)


def _visible(char: str) -> str:
    if char in "\n\t\u200c\u200d":  # some scripts and emoji need the joiners
        return char
    # U+2400 and following are pictures of the control characters.
    return chr(0x2400 + ord(char)) if ord(char) < 0x20 else "\ufffd"


def one_line(text: str) -> str:
    """Return `text` without line breaks and control characters."""
    return clean(" ".join(text.split()))


def size(count: int) -> str:
    """Return a human-readable size: `1.2 MB`."""
    return decimal(count) if count != 1 else "1 byte"


def moment(when: datetime) -> str:
    """Return a time in the local time zone."""
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}"


def ago(when: datetime | None, now: datetime) -> str:
    """Return how long ago `when` was, in the largest unit that fits."""
    if when is None:
        return ""
    seconds = max(0, int((now - when).total_seconds()))
    for unit, length in (("day", 86_400), ("hour", 3_600), ("min", 60)):
        if count := seconds // length:
            return f"{count} {unit}{'s' if count > 1 and unit != 'min' else ''} ago"
    return "just now"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 thread`, `2 threads`, `1,200 threads`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listing(**options: Any) -> Table:
    """Return an empty table in the common style."""
    return Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), **options)


def facts(pairs: Iterable[tuple[str, Any]]) -> Text:
    """Return lines of names and values, to print with `show`. `None` and empty values are left out."""
    told = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max([len(name) for name, _ in told], default=0) + 2
    lines = [
        Text.assemble((f"{name:<{width}}", "dim"), value if isinstance(value, Text) else clean(str(value)))
        for name, value in told
    ]
    return Text("\n").join(lines)


def as_json(value: Any, *, lines: bool = True) -> str:
    """Return `value` as JSON, in several lines or in one. Types that JSON lacks become strings."""
    return json.dumps(_for_json(value), indent=2 if lines else None, ensure_ascii=False)


def _for_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_for_json(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if value is None or type(value) in (str, int, float, bool) else str(value)


@contextmanager
def progress_bar(title: str, stays_on: Console | None = None) -> Iterator[OnProgress]:
    """Show a progress bar while the block runs, if output is a terminal; yield
    the callback that updates it.

    The bar disappears at the end, unless it was given a console that it `stays_on`.
    """
    on = stays_on or error_console()
    if not on.is_terminal:
        yield lambda done, total: None  # noqa: ARG005  (the callback's signature)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=on,
        transient=stays_on is None,
        expand=True,
    )
    with bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
