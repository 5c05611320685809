"""Effect of a cache on PostgreSQL: loads and saves with a cache in Redis, one in
memory, and none, in one run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import clew
from bench.conversation import messages
from bench.figure import Figure
from bench.goals import shown
from bench.measure import Call, Measure, in_turn
from bench.workloads.common import Results, Run
from clew.storage.cached.tier import HotTier
from clew.storage.wrapper import shared_states

Checkpointers = dict[str, clew.BaseCheckpointer]
ALONE, IN_REDIS, IN_MEMORY = "clew", "clew, cached in Redis", "clew, cached in memory"


@dataclass(frozen=True, slots=True)
class Sizes:
    turns: int
    saves: int
    loads: int


SIZES = {"tiny": Sizes(10, 3, 3), "usual": Sizes(800, 200, 100), "full": Sizes(800, 400, 200)}


async def run(run: Run) -> Results:
    sizes = SIZES[run.size]
    return [*await save(run, sizes), *await load(run, sizes)]


@asynccontextmanager
async def running(run: Run) -> AsyncIterator[Checkpointers]:
    """Yield checkpointers of one schema: without a cache, with one in Redis, with one in memory."""
    store, redis = await run.ground.place("postgres"), await run.ground.place("redis")
    caches = {ALONE: None, IN_REDIS: redis.url, IN_MEMORY: "memory://"}
    async with AsyncExitStack() as stack:
        yield {
            # A long timeout, because a slow answer on a busy machine would count as a miss.
            name: await stack.enter_async_context(clew.connect(store.url, cache=cache, cache_timeout=10.0))
            for name, cache in caches.items()
        }


async def settle(checkpointer: clew.BaseCheckpointer) -> None:
    tier = shared_states(checkpointer.storage)
    if isinstance(tier, HotTier):
        await tier.settle()


async def load(run: Run, sizes: Sizes) -> Results:
    """Load the head of a long thread in a process that does not know it, through
    warm caches and without one."""
    said = messages(sizes.turns)
    async with running(run) as all_of_them:
        writer = all_of_them[IN_REDIS]
        for turn in range(1, sizes.turns + 1):
            await writer.aput_state("t", {"messages": said[: 2 * turn]})
            run.report(f"one load: saved turn {turn}")
        await settle(writer)
        calls = {name: _loading(checkpointer) for name, checkpointer in all_of_them.items()}
        for name, call in calls.items():
            assert await call(0) == {"messages": said}
            await settle(all_of_them[name])
        taken = await in_turn(calls, rounds=sizes.loads, warm_up=1)
        for name in (IN_REDIS, IN_MEMORY):
            cache = (await all_of_them[name].astatus()).cache
            assert cache is not None
            assert cache.hits >= sizes.loads
    return _against_alone(f"load, turn {sizes.turns}", taken)


def _loading(checkpointer: clew.BaseCheckpointer) -> Call:
    async def once(_: int) -> object:
        checkpointer._engine.indexes.clear()
        return await checkpointer.aget_state("t")

    return once


async def save(run: Run, sizes: Sizes) -> Results:
    """Save at the end of a long conversation, with and without a cache."""
    said = messages(sizes.turns + sizes.saves + 1)

    def saving(name: str, checkpointer: clew.BaseCheckpointer) -> Call:
        def state_at(number: int) -> dict[str, Any]:
            return {"messages": said[: 2 * (sizes.turns + 1 + number)]}

        return lambda number: checkpointer.aput_state(name, state_at(number))

    async with running(run) as all_of_them:
        for name, checkpointer in all_of_them.items():
            await checkpointer.aput_state(name, {"messages": said[: 2 * sizes.turns]})
        run.report(f"one save at turn {sizes.turns}")
        calls = {name: saving(name, checkpointer) for name, checkpointer in all_of_them.items()}
        taken = await in_turn(calls, rounds=sizes.saves)
    return _against_alone(f"save, turn {sizes.turns}", taken)


def _against_alone(what: str, taken: dict[str, list[float]]) -> Results:
    measures = Measure.times(what, taken)
    alone, *others = measures
    return [
        *measures,
        *[
            Figure(f"{what}: {each.target}", each.median / alone.median, 1.5, f"{shown(each)} against {shown(alone)}")
            for each in others
        ],
    ]
