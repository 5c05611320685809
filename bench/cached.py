"""What a cache in Redis, or in the process, makes of PostgreSQL: loads and saves with it and without it, in one run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import clew
from bench.conversation import messages
from bench.figure import Figure, Report
from bench.measure import in_turn_async
from clew.storage.cached import hot_tier
from clew.testing.servers import PostgresServer, RedisServer

Checkpointers = dict[str, clew.BaseCheckpointer]


@asynccontextmanager
async def running() -> AsyncIterator[Checkpointers]:
    """Checkpointers of one schema: without a cache, with one in Redis, with one in memory."""
    with PostgresServer(durable=True) as postgres, RedisServer() as redis:
        async with AsyncExitStack() as stack:
            caches = {"PostgreSQL alone": None, "cached in Redis": redis.url, "cached in memory": "memory://"}
            yield {
                # Patient: on a busy machine, a slow answer of the cache would count as none.
                name: await stack.enter_async_context(clew.connect(postgres.url, cache=cache, cache_timeout=10.0))
                for name, cache in caches.items()
            }


async def settle(checkpointer: clew.BaseCheckpointer) -> None:
    tier = hot_tier(checkpointer.storage)
    if tier is not None:
        await tier.settle()


async def load(turns: int, rounds: int, report: Report) -> list[Figure]:
    """The head of a long thread, by a process that does not know it: through the warm caches, and without one."""
    said = messages(turns)
    async with running() as all_of_them:
        writer = all_of_them["cached in Redis"]
        for turn in range(1, turns + 1):
            await writer.aput_state("t", {"messages": said[: 2 * turn]})
            report(f"cache, one load: saved turn {turn}")
        await settle(writer)

        def loading(checkpointer: clew.BaseCheckpointer) -> Callable[[int], Awaitable[object]]:
            async def once(_: int) -> object:
                checkpointer._indexes.clear()
                return await checkpointer.aget_state("t")

            return once

        calls = {name: loading(checkpointer) for name, checkpointer in all_of_them.items()}
        for name, call in calls.items():
            assert await call(0) == {"messages": said}
            await settle(all_of_them[name])
        times = await in_turn_async(calls, rounds=rounds)
        for name in ("cached in Redis", "cached in memory"):
            cache = (await all_of_them[name].astatus()).cache
            assert cache is not None
            assert cache.hits >= rounds
    alone = times["PostgreSQL alone"]
    return [
        Figure(
            f"loading the head of {turns} turns, {name}",
            times[name].median / alone.median,
            1.5,
            f"{times[name]} against {alone} without a cache",
        )
        for name in ("cached in Redis", "cached in memory")
    ]


async def save(turns: int, rounds: int, report: Report) -> list[Figure]:
    """A save at the end of a long conversation, with and without a cache."""
    said = messages(turns + rounds + 10)

    def saving(name: str, checkpointer: clew.BaseCheckpointer) -> Callable[[int], Awaitable[object]]:
        def state_at(number: int) -> dict[str, Any]:
            return {"messages": said[: 2 * (turns + 1 + number)]}

        return lambda number: checkpointer.aput_state(name, state_at(number))

    async with running() as all_of_them:
        for name, checkpointer in all_of_them.items():
            await checkpointer.aput_state(name, {"messages": said[: 2 * turns]})
        report(f"cache: one save at turn {turns}")
        calls = {name: saving(name, checkpointer) for name, checkpointer in all_of_them.items()}
        times = await in_turn_async(calls, rounds=rounds)
    alone = times["PostgreSQL alone"]
    return [
        Figure(
            f"one save at turn {turns}, {name}",
            times[name].median / alone.median,
            1.5,
            f"{times[name]} against {alone} without a cache",
        )
        for name in ("cached in Redis", "cached in memory")
    ]


WORKLOADS: dict[str, Callable[[bool, Report], Awaitable[list[Figure]]]] = {
    "save": lambda quick, report: save(40 if quick else 800, 8 if quick else 200, report),
    "load": lambda quick, report: load(40 if quick else 800, 8 if quick else 100, report),
}


def run(workload: str, _: Path, quick: bool, report: Report) -> list[Figure]:
    """The figures of one workload."""

    async def measured() -> list[Figure]:
        return await WORKLOADS[workload](quick, report)

    return asyncio.run(measured())
