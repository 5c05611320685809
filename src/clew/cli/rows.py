"""Rows that fit any width: a table where there is room, and one block for each row where there is not.

Ids are never cut, wrapped or left out, so that they can always be copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from clew.cli.output import listing

_LEAST: Final = 12
"""How narrow a column may become that can be shortened."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `whole`: an id, which is shown in full. `short`: a text that may be shortened or wrapped."""

    name: str
    kind: Literal["whole", "short", "plain"] = "plain"
    justify: Literal["left", "right"] = "left"
    style: str = ""
    overflow: Literal["ellipsis", "fold"] = "ellipsis"


@dataclass(slots=True)
class Rows:
    """Rows of cells. Print them with `show`."""

    columns: Sequence[Column]
    cells: list[list[Text]] = field(default_factory=list)

    def add(self, *cells: Text | str) -> None:
        self.cells.append([each if isinstance(each, Text) else Text(each) for each in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._width() <= options.max_width:
            yield self._table()
            return
        for row in self.cells:
            named = list(zip(self.columns, row, strict=True))
            whole = [each for column, each in named if column.kind == "whole"]
            yield Text("  ").join(_styled(each, "bold") for each in whole)
            told = [
                _labelled(column, each)
                for column, each in named
                if column.kind != "whole" and each.plain not in ("", "–")
            ]
            yield Text("  ").append_text(Text(" · ").join(told))

    def _width(self) -> int:
        """The narrowest table in which no id is cut."""
        total = 0
        for number, column in enumerate(self.columns):
            longest = max([cell_len(column.name), *(cell_len(row[number].plain) for row in self.cells)])
            total += min(longest, max(_LEAST, cell_len(column.name))) if column.kind == "short" else longest
        return total + len(self.columns) - 1

    def _table(self) -> Table:
        table = listing()
        for number, column in enumerate(self.columns):
            longest = max([0, *(cell_len(row[number].plain) for row in self.cells)])
            table.add_column(
                column.name,
                justify=column.justify,
                style=column.style,
                no_wrap=column.kind != "short" or column.overflow == "ellipsis",
                overflow=column.overflow,
                min_width=None if column.kind == "short" else longest,
            )
        for row in self.cells:
            table.add_row(*row)
        return table


def _styled(text: Text, style: str) -> Text:
    text = text.copy()
    text.stylize(style)
    return text


def _labelled(column: Column, text: Text) -> Text:
    """A cell with its column's name, where a number alone would say nothing."""
    if column.justify == "right" and text.plain.replace(",", "").isdigit():
        return Text.assemble(text, f" {column.name.removesuffix('s') if text.plain == '1' else column.name}")
    return text if column.kind == "short" else _styled(text, column.style)
