"""Measures: calls taken strictly in turn, with median and spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

Report = Callable[[str], None]
"""A callback for a progress bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of one target: the median of the repetitions, and the
    interquartile range relative to it."""

    what: str
    unit: str
    target: str
    median: float
    spread: float
    count: int

    @classmethod
    def of(cls, what: str, unit: str, target: str, values: list[float]) -> Measure:
        median = statistics.median(values)
        low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (median, median, median)
        spread = (high - low) / median if median else 0.0
        return cls(what=what, unit=unit, target=target, median=median, spread=spread, count=len(values))

    @classmethod
    def times(cls, what: str, taken: Mapping[str, list[float]]) -> list[Measure]:
        """Return the times of several targets in milliseconds."""
        return [
            cls.of(what, "ms", target, [each * 1e3 for each in values]) for target, values in taken.items() if values
        ]


Call = Callable[[int], Awaitable[object]]


async def in_turn(
    calls: Mapping[str, Call], *, rounds: int, warm_up: int = 0, computed: dict[str, list[float]] | None = None
) -> dict[str, list[float]]:
    """Return the seconds of each of `calls`. Each round runs all of them, so
    that noise affects all alike.

    `computed` gets the CPU seconds of this process, which a busy machine affects least.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    busy: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + warm_up):
        for name, call in calls.items():
            before = time.process_time()
            begun = time.perf_counter()
            await call(number)
            seconds = time.perf_counter() - begun
            if number >= warm_up:
                taken[name].append(seconds)
                busy[name].append(time.process_time() - before)
    if computed is not None:
        computed |= busy
    return taken


def quantile(values: list[float], part: float) -> float:
    """Return the quantile `part` of `values`."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
