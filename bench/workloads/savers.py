"""W2: concurrent conversations in one process: saves per second, and latency."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from bench.conversation import messages
from bench.measure import Measure, quantile
from bench.targets import Target
from bench.workloads.common import Results, Run


@dataclass(frozen=True, slots=True)
class Sizes:
    savers: int
    turns: int
    rounds: int


SIZES = {"tiny": Sizes(4, 3, 2), "usual": Sizes(64, 30, 7), "full": Sizes(64, 30, 15)}
PEER_ROUNDS = 3


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    rounds = min(PEER_ROUNDS, sizes.rounds) if run.peers else sizes.rounds
    plain = [messages(sizes.turns, seed) for seed in range(sizes.savers)]
    rates: dict[str, list[float]] = {}
    middle: dict[str, list[float]] = {}
    slowest: dict[str, list[float]] = {}
    busy: dict[str, list[float]] = {}
    async with run.opened(run.without("encoding"), tasks=sizes.savers) as opened:
        said = {
            each.target.name: [[each.target.message(one) for one in conversation] for conversation in plain]
            for each in opened
        }
        for number in range(rounds + 1):
            for target in [each.target for each in opened]:
                run.report(f"{target.name}: {sizes.savers} savers, round {number}")
                computed = time.process_time()
                rate, taken = await _round(target, said[target.name], number)
                computed = time.process_time() - computed
                if number:
                    rates.setdefault(target.name, []).append(rate)
                    middle.setdefault(target.name, []).append(quantile(taken, 0.5))
                    slowest.setdefault(target.name, []).append(quantile(taken, 0.99))
                    busy.setdefault(target.name, []).append(computed / len(taken))
    what = f"{sizes.savers} savers"
    return [
        *[Measure.of(f"{what}: saves a second", "/s", name, values) for name, values in rates.items()],
        *Measure.times(f"{what}: p50", middle),
        *Measure.times(f"{what}: p99", slowest),
        # CPU time of one save, which bounds the rate.
        *Measure.times(f"{what}: processor time a save", busy),
    ]


async def _round(target: Target, said: list[list[Any]], number: int) -> tuple[float, list[float]]:
    """Return the saves per second of new conversations, and the seconds of each save."""
    taken: list[float] = []

    async def converse(saver: int) -> None:
        own = said[saver]
        for end in range(2, len(own) + 1, 2):
            begun = time.perf_counter()
            await target.save(f"round-{number}-{saver}", {"messages": own[:end]}, own[end - 2 : end])
            taken.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*[converse(saver) for saver in range(len(said))])
    return len(taken) / (time.perf_counter() - begun), taken
