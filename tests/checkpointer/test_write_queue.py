"""Queues of writers: turns in one thread, writes for others, and no writer waits forever."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest

from clew.checkpointer import write_queue
from clew.checkpointer.write_queue import WriteQueues, Writer
from clew.storage.execution import run_inline
from tests.checkpointer.support import run


async def enter(queues, key, item):
    """Join the queue and wait for the turn."""
    writer: Writer[Any, Any] = Writer(queues, key, item)
    writer.presence.acquire()
    try:
        await writer.enter()
    except BaseException:
        leave(writer)
        raise
    return writer


def leave(writer):
    writer.leave()
    if writer.presence.locked():
        writer.presence.release()


async def waiting(queues, count, key="t"):
    """Start writers that wait in the queue, each with a number as its item."""
    tasks = [asyncio.create_task(enter(queues, key, number)) for number in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_writers_lead_one_after_the_other_in_the_order_in_which_they_came():
    async def go():
        queues, order = WriteQueues(), []

        async def write(number):
            writer = await enter(queues, "t", None)
            assert writer.leads
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)
            leave(writer)

        await asyncio.gather(*[write(number) for number in range(5)])
        assert order == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        assert len(queues) == 0

    run(go())


def test_writers_of_different_threads_do_not_wait_for_each_other():
    async def go():
        queues = WriteQueues()
        writers = [await enter(queues, key, None) for key in "abc"]
        assert all(writer.leads for writer in writers)
        assert len(queues) == 3
        for writer in writers:
            leave(writer)
        assert len(queues) == 0

    run(go())


def test_the_leader_takes_along_those_who_can_be_served_up_to_the_first_who_cannot():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        tasks = await waiting(queues, 2)
        cannot = asyncio.create_task(enter(queues, "t", None))
        behind = (await waiting(queues, 1))[0]
        leader.take_along(10)
        assert [each.item for each in leader.taken] == [0, 1]
        for each in list(leader.taken):
            leader.serve(each, f"did {each.item}")
        leave(leader)
        assert [(await task).outcome for task in tasks] == ["did 0", "did 1"]
        writer = await cannot
        assert writer.leads
        assert not behind.done()
        leave(writer)
        leave(await behind)
        assert len(queues) == 0

    run(go())


def test_a_writer_that_was_taken_along_and_not_served_is_next():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        first, second, third = await waiting(queues, 3)
        leader.take_along(2)
        leave(leader)
        for task in (first, second, third):
            writer = await task
            assert writer.leads
            leave(writer)
        assert len(queues) == 0

    run(go())


def test_a_cancelled_writer_leaves_the_queue():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        first, second, third = await waiting(queues, 3)
        second.cancel()
        leave(leader)
        leave(await first)
        assert (await third).leads
        leave(await third)
        assert len(queues) == 0

    run(go())


def test_a_writer_that_is_cancelled_just_when_its_turn_comes_passes_it_on():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        first, second = await waiting(queues, 2)
        leave(leader)
        first.cancel()
        writer = await second
        assert first.cancelled()
        assert writer.leads
        leave(writer)
        assert len(queues) == 0

    run(go())


def test_a_writer_that_is_cancelled_while_another_serves_it_does_not_get_the_turn_back():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        first, second = await waiting(queues, 2)
        leader.take_along(1)
        first.cancel()
        await asyncio.wait([first])
        leave(leader)
        leave(await second)
        assert len(queues) == 0

    run(go())


def test_after_a_queue_is_dissolved_everybody_writes_without_a_turn_and_the_next_begins_a_new_queue():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        tasks = await waiting(queues, 3)
        leader.take_along(1)
        leader.dissolve()
        writers = await asyncio.gather(*tasks)
        assert [(writer.leads, writer.outcome) for writer in writers] == [(False, None)] * 3
        other = await enter(queues, "t", None)
        assert other.leads
        leave(leader)
        assert len(queues) == 1
        leave(other)
        assert len(queues) == 0

    run(go())


def test_a_queue_that_does_not_move_is_dissolved(monkeypatch):
    monkeypatch.setattr(write_queue, "PATIENCE", 0.01)

    async def go():
        queues = WriteQueues()
        await enter(queues, "t", "stands still")
        writers = await asyncio.gather(*await waiting(queues, 3))
        assert not any(writer.leads for writer in writers)
        assert len(queues) == 0

    run(go())


def test_a_leader_whose_loop_does_not_run_holds_nobody_up():
    queues = WriteQueues()
    loop = asyncio.new_event_loop()
    leader = loop.run_until_complete(enter(queues, "t", "goes on later"))
    writer = run_inline(enter(queues, "t", None))
    assert writer.leads
    leave(leader)
    assert len(queues) == 1
    leave(writer)
    loop.run_until_complete(enter(queues, "t", "never goes on"))
    loop.close()
    writer = run_inline(enter(queues, "t", None))
    assert writer.leads
    leave(writer)
    assert len(queues) == 0


def test_a_sync_caller_inside_a_running_loop_does_not_wait_for_a_task_of_that_loop():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "of this loop")
        writer = run_inline(enter(queues, "t", None))
        assert not writer.leads
        leave(leader)

    run(go())


def test_os_threads_and_event_loops_share_a_queue():
    queues = WriteQueues()
    inside: list[None] = []
    most: list[int] = []

    def note():
        inside.append(None)
        most.append(len(inside))
        inside.pop()

    async def write():
        writer = await enter(queues, "t", None)
        assert writer.leads
        note()
        leave(writer)

    def sync():
        for _ in range(50):
            run_inline(write())

    async def tasks():
        for _ in range(10):
            await asyncio.gather(*[write() for _ in range(5)])

    threads = [threading.Thread(target=work) for work in (sync, sync, lambda: run(tasks()), lambda: run(tasks()))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 200
    assert max(most) == 1
    assert len(queues) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no child processes like this here")
def test_a_child_process_does_not_wait_for_its_parents_writers():
    queues = WriteQueues()
    leader = run_inline(enter(queues, "t", "the parent's"))
    with queues._lock:
        child = os.fork()
        if not child:
            writer = run_inline(enter(queues, "t", None))
            os._exit(0 if writer.leads else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave(leader)


def interrupt_after_joining(queues):
    """A writer that joins the queue and is interrupted before it can leave: only its `with` statement ends."""
    writer: Writer[Any, Any] = Writer(queues, "t", None)
    with writer.presence:
        run_inline(writer.enter())


def test_a_leader_that_was_interrupted_before_it_left_holds_nobody_up():
    queues = WriteQueues()
    interrupt_after_joining(queues)
    writer = run_inline(enter(queues, "t", None))
    assert writer.leads
    leave(writer)
    assert len(queues) == 0


def test_writers_that_wait_notice_that_the_leader_is_gone(monkeypatch):
    monkeypatch.setattr(write_queue, "PATIENCE", 3600.0)

    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "interrupted before it left")
        tasks = await waiting(queues, 3)
        leader.take_along(1)
        leader.presence.release()
        writers = await asyncio.gather(*tasks)
        assert not any(writer.leads for writer in writers)
        assert len(queues) == 0

    run(go())


def test_writers_that_wait_for_a_gone_leader_are_woken_by_the_next_one(monkeypatch):
    monkeypatch.setattr(write_queue, "LOOK", 3600.0)

    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "interrupted before it left")
        tasks = await waiting(queues, 3)
        leader.take_along(1)
        leader.presence.release()
        following = await enter(queues, "t", None)
        assert following.leads
        assert not any(writer.leads for writer in await asyncio.gather(*tasks))
        leave(following)
        assert len(queues) == 0

    run(go())


def test_a_writer_that_became_leader_and_was_not_told_leads(monkeypatch):
    monkeypatch.setattr(write_queue, "PATIENCE", 3600.0)

    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", None)
        (task,) = await waiting(queues, 1)
        monkeypatch.setattr(Writer, "_wake", lambda self: None)
        leave(leader)
        assert (await task).leads
        leave(await task)
        assert len(queues) == 0

    run(go())


def test_the_turn_is_not_passed_to_a_writer_that_was_interrupted_while_it_waited():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", None)
        first, second = await waiting(queues, 2)
        queue = leader._queue
        queue.waiting[0].presence.release()
        leave(leader)
        assert (await second).leads
        leave(await second)
        assert len(queues) == 0
        first.cancel()

    run(go())


def test_a_writer_with_a_result_gets_no_turn():
    async def go():
        queues = WriteQueues()
        leader = await enter(queues, "t", "mine")
        served, behind = await waiting(queues, 2)
        leader.take_along(1)
        (other,) = leader.taken
        leader.serve(other, "done")
        # Interrupted in the middle of `serve`.
        leader.taken = [other]
        leave(leader)
        assert (await behind).leads
        assert (await served).outcome == "done"
        leave(await behind)
        assert len(queues) == 0

    run(go())
