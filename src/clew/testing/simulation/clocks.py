"""Clocks of simulated processes: wall clocks that may be wrong and jump, each with its rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from clew.testing.simulation.loop import VirtualLoop

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedClock:
    """A clock of virtual time, off by `skew` seconds and `rate` times as fast."""

    def __init__(self, loop: VirtualLoop, *, skew: float = 0.0, rate: float = 1.0) -> None:
        self._loop = loop
        self._rate = rate
        self.skew = skew

    def monotonic(self) -> float:
        return self._loop._passed * self._rate

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self._loop._passed * self._rate + self.skew)


class SeededChance:
    """The source of ids and jitter in a run, drawn from its seed."""

    def __init__(self, chance: Random, loop: VirtualLoop) -> None:
        self.randbytes = chance.randbytes
        self.uniform = chance.uniform
        self._loop = loop
        self._since = int(BEGIN.timestamp() * 1e9)

    def time_ns(self) -> int:
        return self._since + int(self._loop._passed * 1e9)
