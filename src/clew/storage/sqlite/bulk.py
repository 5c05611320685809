"""Statements over many rows at a time."""

from __future__ import annotations

import re
from collections.abc import Callable

Column = str | int | bytes | None
_BULK_SIZES = (64, 16, 4, 1)


class BulkStatement:
    """A statement with one `VALUES (?, …)`, run over many rows at a time.

    Each call of SQLite releases the GIL and has to wait for it again, so fewer calls are faster. There
    are only a few numbers of rows per call, so that the statements stay prepared.
    """

    def __init__(self, statement: str) -> None:
        before, values, after = re.split(r"VALUES (\([^)]*\))", statement)
        self._width = values.count("?")
        self._texts = [(size, f"{before}VALUES {', '.join([values] * size)}{after}") for size in _BULK_SIZES]

    def __call__(self, execute: Callable[[str, list[Column]], object], columns: list[Column]) -> None:
        """Run it over the rows in `columns`, a flat list of the rows' values."""
        width, at = self._width, 0
        for size, text in self._texts:
            length = size * width
            while len(columns) - at >= length:
                execute(text, columns[at : at + length])
                at += length
