"""W3: concurrent readers of many threads: loads per second, each state fully decoded."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Any

from bench.conversation import messages
from bench.measure import Measure
from bench.targets import Target
from bench.workloads.common import Results, Run


@dataclass(frozen=True, slots=True)
class Sizes:
    readers: int
    threads: int
    turns: int
    rounds: int


SIZES = {"tiny": Sizes(4, 6, 3, 2), "usual": Sizes(64, 200, 50, 7), "full": Sizes(64, 200, 50, 15)}
PEER_ROUNDS = 3
PEER_STEP = 5
"""Turns per save in the environment of a peer, because peers take long to fill."""
WARM_UP = -1
AGAIN = 3
"""Number of repeated loads per thread over the same connections."""


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    rounds = min(PEER_ROUNDS, sizes.rounds) if run.peers else sizes.rounds
    # A few conversations shared by all threads, because the cost does not depend on the content.
    plain = [messages(sizes.turns, seed) for seed in range(min(8, sizes.threads))]
    first: dict[str, list[float]] = {}
    again: dict[str, list[float]] = {}
    busy: dict[str, list[float]] = {}
    async with run.opened(run.without("encoding", "clew update"), tasks=sizes.readers) as opened:
        for each in opened:
            run.report(f"{each.target.name}: filling {sizes.threads} threads")
            await _fill(each.target, plain, sizes, PEER_STEP if run.peers else 1)
            await each.place.settle()
        for number in range(rounds):
            for each in opened:
                run.report(f"{each.target.name}: {sizes.readers} readers, round {number + 1}")
                order = random.Random(number).sample(range(sizes.threads), sizes.threads)
                if run.storage == "memory":
                    again.setdefault(each.target.name, []).append(await _rate(each.target, order * AGAIN, sizes))
                    continue
                async with each.target.again() as fresh:
                    # Open all connections with threads that are not timed.
                    await _rate(fresh, [WARM_UP] * sizes.readers, sizes)
                    computed = time.process_time()
                    first.setdefault(each.target.name, []).append(await _rate(fresh, order, sizes))
                    busy.setdefault(each.target.name, []).append((time.process_time() - computed) / len(order))
                    again.setdefault(each.target.name, []).append(await _rate(fresh, order * AGAIN, sizes))
    what = f"{sizes.readers} readers, loads a second"
    return [
        *[Measure.of(f"{what}, first time in a process", "/s", name, values) for name, values in first.items()],
        *[Measure.of(f"{what}, again", "/s", name, values) for name, values in again.items()],
        # CPU time of one load, which bounds the rate.
        *Measure.times("processor time of a first load", busy),
    ]


async def _fill(target: Target, plain: list[list[dict[str, Any]]], sizes: Sizes, turns: int) -> None:
    """Save each thread's conversation, several turns at a time."""
    said = [[target.message(one) for one in conversation] for conversation in plain]
    waiting = iter([*range(sizes.threads), WARM_UP])

    async def write() -> None:
        for thread in waiting:
            own = said[thread % len(said)]
            for begin in range(0, len(own), 2 * turns):
                end = min(begin + 2 * turns, len(own))
                await target.save(f"thread-{thread}", {"messages": own[:end]}, own[begin:end])

    await asyncio.gather(*[write() for _ in range(sizes.readers)])


async def _rate(target: Target, threads: list[int], sizes: Sizes) -> float:
    waiting = iter(threads)

    async def read() -> None:
        for thread in waiting:
            state = await target.load(f"thread-{thread}")
            assert len(state["messages"]) == 2 * sizes.turns

    begun = time.perf_counter()
    await asyncio.gather(*[read() for _ in range(sizes.readers)])
    return len(threads) / (time.perf_counter() - begun)
