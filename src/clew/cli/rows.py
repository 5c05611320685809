"""Rows that fit any width: a table where there is room, and one block for each row where there is not.

Ids are never cut, wrapped or left out, so that they can always be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from clew.cli.output import listing

_LEAST: Final = 12
"""How narrow a column may become that can be shortened."""
_GAP: Final = 2
"""The space between two columns: the padding of `listing`, and the box's divider."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `whole`: an id, which is shown in full. `short`: a text that may be shortened or wrapped."""

    name: str
    kind: Literal["whole", "short", "plain"] = "plain"
    justify: Literal["left", "right"] = "left"
    style: str = ""
    overflow: Literal["ellipsis", "fold"] = "ellipsis"
    label: Literal["before", "after", "none"] = "none"
    """Where the name stands in a block: before the cell (`step 3`), or after it, as a noun (`5 messages`)."""


@dataclass(slots=True)
class Rows:
    """Rows of cells. Print them with `show`."""

    columns: Sequence[Column]
    cells: list[list[Text]] = field(default_factory=list)
    title: str | None = None
    """The noun for a row, if only the first column's name tells it: blocks don't show that name."""

    def add(self, *cells: Text | str) -> None:
        self.cells.append([each if isinstance(each, Text) else Text(each) for each in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is not None:
            yield self._table(widths)
            return
        if self.title is not None:
            yield Text(self.title, style="dim")
        for row in self.cells:
            named = list(zip(self.columns, row, strict=True))
            whole = [each for column, each in named if column.kind == "whole"]
            yield Text("  ").join(_styled(each, "bold") for each in whole)
            told = [
                _labelled(column, each)
                for column, each in named
                if column.kind != "whole" and each.plain not in ("", "–")
            ]
            yield from _folded(told, options.max_width)

    def _widths(self, most: int) -> list[int] | None:
        """The width of each column in a table of at most `most` characters, or `None` if it does not fit.

        All names of columns and all cells are whole, except texts that may be shortened.
        """
        names = [cell_len(column.name) for column in self.columns]
        cells = [[cell_len(row[number].plain) for row in self.cells] for number in range(len(names))]
        widths = [max([name, *each]) for name, each in zip(names, cells, strict=True)]
        short = [number for number, column in enumerate(self.columns) if column.kind == "short"]
        over = sum(widths) + _GAP * (len(widths) - 1) - most
        for number in sorted(short, key=lambda number: -widths[number]):
            cut = min(over, widths[number] - max(_LEAST, names[number]))
            if cut > 0:
                widths[number] -= cut
                over -= cut
        return widths if over <= 0 else None

    def _table(self, widths: Sequence[int]) -> Table:
        table = listing()
        for column, width in zip(self.columns, widths, strict=True):
            table.add_column(
                column.name,
                justify=column.justify,
                style=column.style,
                no_wrap=column.kind != "short" or column.overflow == "ellipsis",
                overflow=column.overflow,
                width=width,
            )
        for row in self.cells:
            table.add_row(*row)
        return table


def _styled(text: Text, style: str) -> Text:
    text = text.copy()
    text.stylize(style)
    return text


def _labelled(column: Column, text: Text) -> Text:
    """A cell with its column's name, where the cell alone would say nothing."""
    if column.label == "after":
        return Text.assemble(text, f" {column.name.removesuffix('s') if text.plain == '1' else column.name}")
    styled = text if column.kind == "short" else _styled(text, column.style)
    return Text.assemble((f"{column.name} ", "dim"), styled) if column.label == "before" else styled


def _folded(told: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield indented lines of facts, each as long as fits."""
    line = Text("  ")
    for each in told:
        if len(line) > 2 and line.cell_len + 3 + each.cell_len > width:
            yield line
            line = Text("  ")
        if len(line) > 2:
            line.append(" · ")
        line.append_text(each)
    if len(line) > 2:
        yield line
