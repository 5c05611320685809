"""Leftovers: a released checkpointer leaves no threads or loops, and a used one keeps nothing of its callers."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from clew.answers import Answer
from clew.checkpointer.runner import LoopRunner
from clew.storage.fresh_context import in_fresh_context
from tests.checkpointer.conftest import STORES

variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")


class Mark:
    """A value in a context variable of the caller."""


def open_loops() -> set[int]:
    # By type(): `isinstance` asks proxies of other libraries for their classes, which may fail.
    loops = [each for each in gc.get_objects() if issubclass(type(each), asyncio.BaseEventLoop)]
    return {id(each) for each in loops if not each.is_closed()}


@contextmanager
def nothing_left() -> Iterator[None]:
    gc.collect()
    threads, loops = set(threading.enumerate()), open_loops()
    yield
    for thread in set(threading.enumerate()) - threads:
        # SQLite's readers may still be ending, and a loop's thread, whose last step lets the release return.
        assert thread.name.startswith(("clew-sqlite-reader", "clew-loop")), thread.name
        thread.join(120)
        assert not thread.is_alive()
    assert open_loops() <= loops


def marked(work: Callable[[], Any]) -> weakref.ref[Mark]:
    """Run `work` in a context with a marker."""

    def marking() -> weakref.ref[Mark]:
        mark = Mark()
        variable.set(mark)
        work()
        return weakref.ref(mark)

    return contextvars.Context().run(marking)


@pytest.mark.parametrize("durability", ["sync", "background"])
def test_an_async_release_leaves_nothing_of_sync_calls(store, durability):
    async def main() -> None:
        async with store.open(durability=durability) as checkpointer:
            await checkpointer.aput_state("t", {"n": 1})
            await asyncio.to_thread(checkpointer.put_state, "t", {"n": 2})
            assert await checkpointer.aget_state("t") == {"n": 2}

    with nothing_left():
        mark = marked(lambda: asyncio.run(main()))
    gc.collect()
    assert mark() is None


@pytest.mark.parametrize("durability", ["sync", "background"])
def test_a_sync_release_leaves_nothing(store, durability):
    def main() -> None:
        with store.open(durability=durability) as checkpointer:
            checkpointer.put_state("t", {"n": 1})
            assert checkpointer.get_state("t") == {"n": 1}

    with nothing_left():
        mark = marked(main)
    gc.collect()
    assert mark() is None


def test_a_release_that_fails_leaves_nothing(remote, monkeypatch):
    checkpointer = remote.open()

    async def fail() -> None:
        raise OSError("closing failed")

    with nothing_left():
        checkpointer.put_state("t", {"n": 1})
        with monkeypatch.context() as patch:
            patch.setattr(checkpointer.storage, "close", fail)
            with pytest.raises(OSError, match="closing failed"):
                checkpointer.release()
        checkpointer.release()


def test_a_release_that_was_interrupted_before_its_last_step_can_be_repeated(remote, monkeypatch):
    checkpointer = remote.open()

    def interrupt(_runner: LoopRunner) -> None:
        raise KeyboardInterrupt

    with nothing_left():
        checkpointer.put_state("t", {"n": 1})
        with monkeypatch.context() as patch:
            patch.setattr(LoopRunner, "close", interrupt)
            with pytest.raises(KeyboardInterrupt):
                checkpointer.release()
        checkpointer.release()


# asyncpg keeps the context of a statement's first caller as long as the statement: five minutes.
@pytest.fixture(params=[each for each in STORES if each.id != "postgres"])
def keeps_nothing(request, tmp_path):
    with closing(request.param(tmp_path)) as opened:
        yield opened


def test_sync_calls_keep_nothing_of_their_callers(keeps_nothing):
    checkpointer = keeps_nothing.open()

    def work() -> None:
        checkpointer.put_state("t", {"n": 1})
        checkpointer.get_state("t")

    # Without the garbage collector, so only reference counts free objects, at once.
    gc.disable()
    try:
        mark = marked(work)
        # Another thread may still hold the call for a moment. If it never releases it, this times out.
        while mark() is not None:
            checkpointer.get_state("t")
    finally:
        gc.enable()


def test_async_calls_keep_nothing_of_their_callers(keeps_nothing):
    checkpointer = keeps_nothing.open()

    async def calls() -> None:
        await checkpointer.aput_state("t", {"n": 1})
        await asyncio.gather(*(checkpointer.aget_state("t") for _ in range(8)))

    async def in_a_task() -> weakref.ref[Mark]:
        mark = Mark()
        context = contextvars.Context()
        context.run(variable.set, mark)
        await asyncio.create_task(calls(), context=context)
        return weakref.ref(mark)

    async def main() -> None:
        mark = await in_a_task()
        while mark() is not None:
            await checkpointer.aget_state("t")
            await asyncio.sleep(0)
        await checkpointer.arelease()

    asyncio.run(main())


def test_a_closed_runner_has_no_thread_and_begins_anew():
    async def work() -> int:
        return 1

    with nothing_left():
        runner = LoopRunner()
        for _ in range(2):
            assert runner.run(work(), "work") == 1
            assert runner.started
            runner.close()
            assert not runner.started


def test_the_work_of_an_interrupted_call_does_not_run_on(monkeypatch):
    begun = threading.Event()
    ended: list[str] = []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def other() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def interrupt(answer: Answer[Any], timeout: float | None = None) -> None:
        assert begun.wait(60)
        raise KeyboardInterrupt

    runner = LoopRunner()
    runner.run(other(), "other")
    with monkeypatch.context() as patch:
        patch.setattr(Answer, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            runner.run(work(), "work")
    runner.run(other(), "other")
    assert ended == ["cancelled"]
    runner.close()


def test_what_is_awaited_apart_does_not_see_its_caller_and_is_cancelled_with_it():
    seen: list[Any] = []

    async def inner() -> str:
        seen.append(variable.get(None))
        await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
        return "done"

    async def main() -> str:
        variable.set("mine")
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        return await in_fresh_context(inner())

    assert asyncio.run(main()) == "done"
    assert seen == [None, "cancelled"]
