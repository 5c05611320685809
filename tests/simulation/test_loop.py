"""Virtual time: waiting takes no real time, the seed draws the order of callbacks, processes can be
stopped."""

from __future__ import annotations

import asyncio
import contextvars
import random
import time

import pytest

from clew.testing.simulation.loop import EndlessError, Process, VirtualLoop


def run(work, seed=1):
    loop = VirtualLoop(random.Random(seed))
    try:
        return loop.run_until_complete(work(loop))
    finally:
        loop.close()


def test_a_long_wait_takes_no_time():
    async def wait(loop):
        await asyncio.sleep(10**6)
        return loop.time()

    begun = time.monotonic()
    assert run(wait) == 10**6
    assert time.monotonic() - begun < 60


def test_the_seed_decides_which_callback_goes_next():
    async def race(loop):
        order = []

        async def enter(name):
            await asyncio.sleep(1)
            order.append(name)

        await asyncio.gather(*map(enter, "abcdef"))
        return "".join(order)

    assert run(race, seed=1) == run(race, seed=1)
    assert len({run(race, seed=seed) for seed in range(20)}) > 10


def test_a_stopped_process_does_nothing_and_its_timers_fire_late():
    async def stop(loop):
        process, ticks = Process("p"), []

        async def tick():
            # In a new context, like some background work.
            await asyncio.create_task(beat(), context=contextvars.Context())

        async def beat():
            while True:
                await asyncio.sleep(1)
                ticks.append(loop.time())

        loop.start(process, tick())
        await asyncio.sleep(2.5)
        loop.freeze(process)
        await asyncio.sleep(100)
        loop.thaw(process)
        await asyncio.sleep(1.5)
        loop.kill(process)
        await asyncio.sleep(5)
        assert not process.tasks
        return ticks

    assert run(stop) == [1, 2, 102.5, 103.5]


def test_tasks_that_all_wait_forever_are_an_error():
    async def wait(loop):
        await loop.create_future()

    with pytest.raises(EndlessError):
        run(wait)
