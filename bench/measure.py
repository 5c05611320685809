"""Measuring: calls taken strictly in turn, medians and spread."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The median of some repetitions in seconds, and how far the quartiles are apart, relative to it."""

    median: float
    spread: float

    def __str__(self) -> str:
        return f"{self.median * 1e3:.3f} ms ±{self.spread:.0%}"


def in_turn(calls: Mapping[str, Callable[[int], object]], *, rounds: int, warm_up: int = 3) -> dict[str, Timing]:
    """Time each of `calls`, one after the other in every round, so that a noisy machine is noisy for all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    for number in range(rounds + warm_up):
        for name, call in calls.items():
            begun = time.perf_counter()
            call(number)
            taken = time.perf_counter() - begun
            if number >= warm_up:
                times[name].append(taken)
    return {name: _timing(taken) for name, taken in times.items()}


async def in_turn_async(
    calls: Mapping[str, Callable[[int], Awaitable[object]]], *, rounds: int, warm_up: int = 3
) -> dict[str, Timing]:
    """The same for calls that are awaited."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    for number in range(rounds + warm_up):
        for name, call in calls.items():
            begun = time.perf_counter()
            await call(number)
            taken = time.perf_counter() - begun
            if number >= warm_up:
                times[name].append(taken)
    return {name: _timing(taken) for name, taken in times.items()}


def _timing(taken: list[float]) -> Timing:
    median = statistics.median(taken)
    low, _, high = statistics.quantiles(taken, n=4)
    return Timing(median, (high - low) / median)
