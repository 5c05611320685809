"""Watching: how long after its acknowledgement a save is seen, what idle watchers cost, and what saves cost."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import clew
from bench.conversation import messages
from bench.measure import Measure, in_turn, quantile
from bench.workloads.common import Opened, Results, Run


@dataclass(frozen=True, slots=True)
class Sizes:
    events: int
    watchers: int
    idle: float
    saves: int


SIZES = {"tiny": Sizes(5, 5, 0.1, 5), "usual": Sizes(300, 1_000, 5.0, 400), "full": Sizes(2_000, 1_000, 20.0, 2_000)}
PAUSE = 0.003
"""Seconds between two saves whose events are timed: watchers of a busy store read several at a time."""
TURNS = 10


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    results: Results = []
    async with run.opened(run.only("clew")) as opened:
        for each in opened:
            run.report("the delay of events")
            results += await _delays(each, sizes)
            run.report(f"{sizes.watchers} idle watchers")
            results += await _idle(each, sizes)
    # Two stores: nobody has ever watched the first, and somebody has just watched the second.
    classes = run.only("clew")
    async with run.opened([*classes, *classes]) as opened:
        if len(opened) == 2:
            run.report("saves to a store that is watched, and to one that is not")
            results += await _saves(opened, sizes)
    return results


async def _delays(each: Opened, sizes: Sizes) -> Results:
    """Time from the acknowledgement of a save to its event in another checkpointer, as of another process."""
    writer: Any = each.target.engine
    taken: list[float] = []
    async with AsyncExitStack() as stack:
        watcher = writer
        if each.place.url != "memory://":
            watcher = (await stack.enter_async_context(each.target.again())).engine
        watch = await stack.enter_async_context(watcher.awatch({"user_id": clew.ANY_USER}))
        for number in range(sizes.events):
            await asyncio.sleep(PAUSE)
            event = asyncio.ensure_future(_arrived(watch))
            await writer.aput_state(f"watched-{number % 7}", {"n": number})
            acknowledged = time.perf_counter()
            taken.append(max(0.0, await event - acknowledged))
    return [
        *Measure.times("event after the acknowledgement", {"clew": taken}),
        *Measure.times("event after the acknowledgement, the slowest of 100", {"clew": [quantile(taken, 0.99)]}),
    ]


async def _arrived(watch: Any) -> float:
    await anext(watch)
    return time.perf_counter()


async def _idle(each: Opened, sizes: Sizes) -> Results:
    """CPU time of this process while nothing happens, in percent of a core."""
    memory: Any = each.target.engine
    async with AsyncExitStack() as stack:
        busy = []
        for count in (1, sizes.watchers):
            watches = [memory.awatch({"thread_id": f"idle-{number}"}) for number in range(count)]
            await asyncio.gather(*[stack.enter_async_context(watch) for watch in watches])
            waiting = [asyncio.ensure_future(anext(watch, None)) for watch in watches]
            await asyncio.sleep(min(1.0, sizes.idle))
            before = time.process_time()
            await asyncio.sleep(sizes.idle)
            busy.append(100 * (time.process_time() - before) / sizes.idle)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
    one, many = busy
    return [
        Measure.of("one idle watcher, of a core", " %", "clew", [one]),
        Measure.of("all idle watchers, of a core", " %", "clew", [many]),
        Measure.of("each of many idle watchers, of a core", " %", "clew", [many / sizes.watchers]),
    ]


async def _saves(opened: list[Opened], sizes: Sizes) -> Results:
    plain, watched = (each.target for each in opened)
    memory: Any = watched.engine
    async with memory.awatch({"user_id": clew.ANY_USER}):
        pass
    said = [plain.message(one) for one in messages(TURNS, 1)]
    targets = {"unwatched": plain, "watched": watched}

    def saving(name: str) -> Any:
        async def save(number: int) -> None:
            await targets[name].save(f"thread-{number % 50}", {"messages": said, "n": number}, said[-2:])

        return save

    computed: dict[str, list[float]] = {}
    calls = {name: saving(name) for name in targets}
    taken = await in_turn(calls, rounds=sizes.saves, warm_up=min(60, sizes.saves), computed=computed)
    return [
        *Measure.times("a save", taken),
        *Measure.times("processor time of a save", computed),
    ]
