"""One statement for many rows: each call of SQLite lets go of the interpreter, and has to wait to get it back."""

from __future__ import annotations

import re
from collections.abc import Callable

Column = str | int | bytes | None
_SIZES = (64, 16, 4, 1)


class ManyRows:
    """A statement with one `VALUES (?, …)`, run over groups of rows. Its texts are few, so they stay prepared."""

    def __init__(self, statement: str) -> None:
        before, values, after = re.split(r"VALUES (\([^)]*\))", statement)
        self._width = values.count("?")
        self._texts = [(size, f"{before}VALUES {', '.join([values] * size)}{after}") for size in _SIZES]

    def __call__(self, execute: Callable[[str, list[Column]], object], columns: list[Column]) -> None:
        """Run it over the rows that lie one after the other in `columns`."""
        width, at = self._width, 0
        for size, text in self._texts:
            length = size * width
            while len(columns) - at >= length:
                execute(text, columns[at : at + length])
                at += length
