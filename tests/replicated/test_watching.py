"""Watching two stores: a failover during the watch leaves nothing out."""

from __future__ import annotations

import asyncio

import pytest

import clew
from tests.replicated.test_checkpointer import FAST, Switched

HANGS = 60
ANA = {"thread_id": "t", "user_id": "ana"}


async def until(watch, wanted, seen):
    """Read events until all numbers of `wanted` were seen in checkpoints' metadata."""
    async with asyncio.timeout(HANGS):
        while not set(wanted) <= set(seen):
            event = await anext(watch)
            assert event.kind == "checkpoint", event
            if event.checkpoint is not None:
                seen.append(event.checkpoint.metadata["n"])


async def save(memory, numbers):
    for number in numbers:
        await memory.aput_checkpoint(ANA, {"n": number}, metadata={"n": number})


async def true(condition):
    async with asyncio.timeout(HANGS):
        while not await condition():  # noqa: ASYNC110  (replication rings no bell)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_is_missed_through_failover_and_failback(mode):
    primary, secondary = Switched(), Switched()

    async def settled():
        status = await memory.astatus()
        return not status.failed_over and not status.replication_queue_size and status.primary_healthy

    async def failed_over():
        return (await memory.astatus()).failed_over

    async def main():
        async with memory, memory.awatch(ANA) as watch:
            seen: list[int] = []
            await save(memory, range(5))
            await until(watch, range(5), seen)
            await true(settled)
            primary.down = True
            await save(memory, range(5, 10))
            await true(failed_over)
            await until(watch, range(10), seen)
            since = watch.position
            primary.down = False
            await true(settled)
            await save(memory, range(10, 15))
            await until(watch, range(15), seen)
            # In another process that resumes, too.
            again: list[int] = []
            async with memory.awatch(ANA, since=since) as resumed:
                await until(resumed, range(10, 15), again)

    memory = clew.DistributedCheckpointer(primary.checkpointer, secondary.checkpointer, replication_mode=mode, **FAST)
    asyncio.run(main())


def test_a_store_that_was_never_seen_is_a_gap():
    primary, secondary = Switched(), Switched()

    async def main():
        secondary.down = True
        async with memory, memory.awatch(ANA) as watch:
            await save(memory, range(2))
            seen: list[int] = []
            await until(watch, range(2), seen)
            since = watch.position
        assert (since or "").endswith("|")

    memory = clew.DistributedCheckpointer(primary.checkpointer, secondary.checkpointer, **FAST)
    asyncio.run(main())
    other = clew.DistributedCheckpointer(Switched().checkpointer, Switched().checkpointer, **FAST)

    async def resume():
        async with other, other.awatch(ANA, since="|") as watch, asyncio.timeout(HANGS):
            assert (await anext(watch)).kind == "gap"

    asyncio.run(resume())
