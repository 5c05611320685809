"""A figure with a goal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, its upper or lower limit, and how it was computed."""

    name: str
    value: float
    bound: float
    how: str
    at_least: bool = False
    unit: str = "x"

    @property
    def holds(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def measured(self) -> str:
        return f"{self.value:,.2f}{self.unit}" if self.value >= 0.1 else f"{self.value:.2g}{self.unit}"

    @property
    def goal(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}{self.unit}"
