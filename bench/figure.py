"""What a workload gives: figures, each with its bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Report = Callable[[str], None]
"""Told what is going on, for a progress bar."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure, what it must not pass (or must reach), and how it was arrived at."""

    name: str
    value: float
    bound: float
    how: str
    at_least: bool = False
    unit: str = "x"

    @property
    def holds(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound
