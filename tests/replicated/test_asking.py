"""Asking both stores who serves."""

from __future__ import annotations

import asyncio

from clew.clock import SYSTEM_CLOCK
from clew.storage.memory import MemoryStorage
from clew.storage.replicated.failover import Settings
from clew.storage.replicated.steering import Steering
from clew.storage.replicated.watching import WatchedStorage


def test_an_answer_that_was_too_old_when_it_came_is_asked_for_again():
    """Found by the drill: whoever came between the answer and its callbacks took it forever, and nobody else had a turn."""

    async def ask() -> float | None:
        stores = [WatchedStorage(MemoryStorage(), side, 1.0) for side in ("primary", "secondary")]
        steering = Steering(stores[0], stores[1], Settings(interval=0.5), patience=1.0, clock=SYSTEM_CLOCK)
        answered = asyncio.ensure_future(asyncio.sleep(0))
        await answered
        steering._asking[asyncio.get_running_loop()] = answered
        await steering.ask()
        return steering.state.asked

    assert asyncio.run(ask()) is not None
