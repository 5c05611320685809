"""Coordinator: asking both stores for the roles."""

from __future__ import annotations

import asyncio

from clew.clock import SYSTEM_CLOCK
from clew.storage.memory import MemoryStorage
from clew.storage.replicated.coordinator import Coordinator
from clew.storage.replicated.failover import Settings
from clew.storage.replicated.timeout import TimeoutStorage


def test_an_outdated_answer_is_not_reused():
    """Found by the drill: a caller between an answer and its callbacks reused the old answer
    forever."""

    async def ask() -> float | None:
        stores = [TimeoutStorage(MemoryStorage(), side, 1.0) for side in ("primary", "secondary")]
        coordinator = Coordinator(stores[0], stores[1], Settings(interval=0.5), patience=1.0, clock=SYSTEM_CLOCK)
        answered = asyncio.ensure_future(asyncio.sleep(0))
        await answered
        coordinator._asking[asyncio.get_running_loop()] = answered
        await coordinator.ask()
        return coordinator.state.asked

    assert asyncio.run(ask()) is not None
