"""PerLoop: resources are opened once per event loop, and closed with it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from typing import Any

import pytest

import clew
from clew.errors import StorageError
from clew.storage import loops as loops_module
from clew.storage.loops import PerLoop


class Door:
    """A resource that remembers where it was opened and closed."""

    def __init__(self) -> None:
        self.opened: list[asyncio.AbstractEventLoop] = []
        self.closed: list[asyncio.AbstractEventLoop] = []
        self.fails = 0

    async def open(self) -> int:
        await asyncio.sleep(0)
        if self.fails:
            self.fails -= 1
            raise StorageError("stuck")
        self.opened.append(asyncio.get_running_loop())
        return len(self.opened)

    async def close(self, _: int) -> None:
        await asyncio.sleep(0)
        self.closed.append(asyncio.get_running_loop())


@pytest.fixture
def door():
    return Door()


@pytest.fixture
def homes(door):
    return PerLoop("a test", door.open, door.close)


def test_all_who_ask_in_one_loop_get_the_same(homes, door):
    async def ask() -> list[int]:
        return await asyncio.gather(*(homes.get() for _ in range(5)), homes.get())

    assert asyncio.run(ask()) == [1] * 6
    assert len(door.opened) == 1


def test_it_is_closed_with_its_loop_and_another_loop_gets_its_own(homes, door):
    assert asyncio.run(homes.get()) == 1
    assert door.closed == door.opened
    assert asyncio.run(homes.get()) == 2
    assert door.closed == door.opened


def test_closing_closes_once_and_for_all(homes, door):
    async def use() -> None:
        await homes.get()
        await homes.close()
        await homes.close()
        with pytest.raises(StorageError, match="closed"):
            await homes.get()

    asyncio.run(use())
    assert len(door.closed) == 1


def test_closing_reaches_a_loop_that_runs_in_another_thread(homes, door):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(homes.get(), loop).result(120)

    async def close() -> None:
        await homes.get()
        await homes.close()

    asyncio.run(close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert set(door.closed) == set(door.opened)
    assert loop in door.closed


def test_what_could_not_be_opened_is_tried_anew(homes, door):
    door.fails = 1

    async def use() -> Any:
        with pytest.raises(StorageError, match="stuck"):
            await asyncio.gather(homes.get(), homes.get())
        return await homes.get()

    assert asyncio.run(use()) == 1
    assert len(door.closed) == 1


def test_who_gives_up_waiting_does_not_take_it_from_the_others(homes, door):
    async def use() -> Any:
        first = asyncio.create_task(homes.get())
        second = asyncio.create_task(homes.get())
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(use()) == 1


def test_closing_while_the_opening_is_cancelled_raises_nothing(homes, door):
    async def use() -> bool:
        waiting = asyncio.create_task(homes.get())
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task(), waiting}:
            task.cancel()
        # Before the opening notices.
        await homes.close()
        return isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)

    assert asyncio.run(use())
    assert door.opened == door.closed == []


@pytest.mark.parametrize("turns", range(5))
def test_a_cancelled_caller_gets_its_cancellation_whenever_it_comes(homes, door, turns):
    """Even in the iteration of the loop that opens it; it stays open for the others."""

    async def ask() -> list[Any]:
        callers = [asyncio.ensure_future(homes.get()) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        callers[0].cancel()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert not door.closed
        return [*outcomes, await homes.get()]

    first, *others = asyncio.run(ask())
    assert first == 1 or isinstance(first, asyncio.CancelledError)
    assert others == [1, 1, 1]
    assert len(door.opened) == len(door.closed) == 1


@pytest.mark.parametrize("turns", range(5))
def test_all_who_wait_for_what_can_not_be_opened_are_told_and_the_next_tries_anew(homes, door, turns):
    door.fails = 1

    async def ask() -> list[Any]:
        callers = [asyncio.ensure_future(homes.get()) for _ in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        callers[1].cancel()
        return [*await asyncio.gather(*callers, return_exceptions=True), await homes.get()]

    *outcomes, later = asyncio.run(ask())
    assert {type(each) for each in outcomes} <= {StorageError, asyncio.CancelledError}
    assert later == 1


def test_an_opening_that_nobody_waits_for_any_more_is_closed_with_its_loop(homes, door):
    async def ask() -> None:
        caller = asyncio.ensure_future(homes.get())
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])

    asyncio.run(ask())
    assert len(door.opened) == len(door.closed)


def test_a_loop_that_ended_without_notice_is_left_alone(homes, door):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(homes.get())
    loop.close()
    assert asyncio.run(homes.get()) == 2
    assert loop not in door.closed


def test_a_child_process_begins_anew_and_leaves_its_parents_alone(homes, door):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(homes.get())
    child = os.fork()
    if child == 0:
        # It opened its own, and closed only that.
        os._exit(0 if asyncio.run(homes.get()) == 2 and loop not in door.closed else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert not door.closed
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    assert door.closed == [loop]


def test_event_loops_that_came_and_went_are_not_kept(tmp_path):
    with clew.connect(f"sqlite:///{tmp_path / 'clew.db'}") as memory:
        loops = []

        async def go():
            loops.append(weakref.ref(asyncio.get_running_loop()))
            await memory.aput_state("t", {"n": len(loops)})
            await memory.aget_state("t")

        for _ in range(10):
            asyncio.run(go())
        gc.collect()
        # The last loop is forgotten when another one comes.
        assert [each() for each in loops[:-1]] == [None] * 9


def test_closing_does_not_wait_for_a_loop_that_is_blocked(homes, door, monkeypatch):
    monkeypatch.setattr(loops_module, "_BLOCKED_SECONDS", 0.2)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(homes.get(), loop).result(120)
    go_on, blocked = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        go_on.wait(240)

    loop.call_soon_threadsafe(block)
    assert blocked.wait(120)
    asyncio.run(asyncio.wait_for(homes.close(), 120))
    go_on.set()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def test_closing_does_not_wait_for_a_loop_that_stops_meanwhile(homes, door, monkeypatch):
    monkeypatch.setattr(loops_module, "_BLOCKED_SECONDS", 1000)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(homes.get(), loop).result(120)
    closing = threading.Event()

    def stop_before_it_begins() -> None:
        closing.wait(120)
        loop.stop()

    loop.call_soon_threadsafe(stop_before_it_begins)

    async def close() -> None:
        asyncio.get_running_loop().call_soon(closing.set)
        await asyncio.wait_for(homes.close(), 120)

    asyncio.run(close())
    thread.join()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
