"""Interrupts of sync calls, each scenario in its own process: `python -m tests.checkpointer.interrupting NAME URL`.

The starter of the process ends a scenario that hangs. The URL `slow:` is a storage in memory that
suspends.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any

import clew
from clew.checkpointer import write_queue
from clew.checkpointer.background import Background
from clew.checkpointer.runner import LoopRunner
from clew.errors import ClewError
from clew.model.commit import Applied, Commit
from clew.model.queries import CheckpointPage, CheckpointQuery
from clew.storage.execution import may_block, run_inline
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Capabilities, Storage
from clew.storage.wrapper import StorageWrapper


class Meddled(StorageWrapper):
    """A storage that suspends, and runs `meddle` during the next commit or load."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.meddle: Callable[[], Any] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, suspends=True)

    async def _meddle(self) -> None:
        await asyncio.sleep(0)
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            await meddle()

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        await self._meddle()
        return await self.inner.apply(commits)

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        await self._meddle()
        return await self.inner.checkpoints(query)


def opened(url: str, **options: Any) -> tuple[clew.BaseCheckpointer, Meddled]:
    if url == "slow:":
        storage: Storage = MemoryStorage()
    else:
        storage = clew.connect(url).storage
    meddled = Meddled(storage)
    return clew.BaseCheckpointer(meddled, **options), meddled


async def interrupt() -> None:
    raise KeyboardInterrupt


async def leave() -> None:
    sys.exit(3)


def caught(work: Callable[[], Any]) -> str:
    """The name of the error that `work` raises, or its result."""
    try:
        return repr(work())
    except BaseException as error:
        return type(error).__name__


def in_threads(*works: Callable[[], Any]) -> Callable[[], list[str]]:
    """Start each of `works` in a thread; the returned function waits for the outcomes."""
    outcomes = [""] * len(works)

    def go(number: int) -> None:
        outcomes[number] = caught(works[number])

    threads = [threading.Thread(target=go, args=(number,), daemon=True) for number in range(len(works))]
    for thread in threads:
        thread.start()

    def wait() -> list[str]:
        for thread in threads:
            thread.join()
        return outcomes

    return wait


# Errors that asyncio raises out of its loop


def its_caller_gets_it_and_the_next_call_works(url: str) -> None:
    checkpointer, storage = opened(url)
    checkpointer.put_state("t", {"n": 0})
    for meddle, name in ((interrupt, "KeyboardInterrupt"), (leave, "SystemExit")) * 3:
        storage.meddle = meddle
        assert caught(lambda: checkpointer.put_state("t", {"n": 1})) == name
        storage.meddle = meddle
        assert caught(lambda: checkpointer.get_state("other")) == name
        checkpointer.put_state("t", {"n": 2})
        assert checkpointer.get_state("t") == {"n": 2}
    checkpointer.release()


def others_that_wait_go_on(url: str) -> None:
    checkpointer, storage = opened(url)
    checkpointer.put_state("t", {"n": 0})
    gate, waits = threading.Event(), threading.Event()

    async def hold() -> None:
        waits.set()
        await asyncio.get_running_loop().run_in_executor(None, gate.wait)

    storage.meddle = hold
    held = in_threads(lambda: checkpointer.get_state("t"))
    assert waits.wait(120)
    storage.meddle = interrupt
    assert caught(lambda: checkpointer.get_state("t")) == "KeyboardInterrupt"
    gate.set()
    assert held() == ["{'n': 0}"]
    checkpointer.release()


async def kill_a_batch(kind: type[BaseException], patience: float) -> int:
    """Cancel the first task of a batch, started or not, then raise `kind`. Returns 1 if there was one."""
    deadline = asyncio.get_running_loop().time() + patience
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        crews = [task for task in others if "_run_" in repr(task.get_coro())]
        if crews:
            random.choice(crews).cancel()
            if kind is KeyboardInterrupt:
                raise KeyboardInterrupt
            return 1
    return 0


def all_of_a_batch_get_an_answer(url: str) -> None:
    checkpointer, _ = opened(url)
    batches = "postgres" in url
    killed = 0
    for turn in range(10):
        kind = KeyboardInterrupt if turn % 2 else asyncio.CancelledError
        killer = in_threads(partial(checkpointer.run, kill_a_batch(kind, 5 if batches else 0.05), "kill"))
        outcomes = in_threads(*[partial(checkpointer.put_state, f"t{number}", {"n": turn}) for number in range(8)])()
        killed += killer() != ["0"]
        assert set(outcomes) <= {repr({"n": turn}), "TransientStorageError"}, outcomes
        for number in range(8):
            checkpointer.put_state(f"t{number}", {"n": turn})
    assert checkpointer.get_state("t1") == {"n": 9}
    assert killed or not batches
    checkpointer.release()


def a_background_save_that_is_interrupted_is_told(url: str) -> None:
    checkpointer, storage = opened(url, durability="background")
    checkpointer.put_state("t", {"n": 0})
    assert checkpointer.get_state("t") == {"n": 0}
    storage.meddle = leave
    checkpointer.put_state("t", {"n": 1})
    assert caught(lambda: checkpointer.get_state("t")) == "StorageError"
    checkpointer.put_state("t", {"n": 2})
    assert checkpointer.get_state("t") == {"n": 2}
    checkpointer.release()


# The end of the loop


def callers_that_wait_learn_of_a_release(url: str) -> None:
    checkpointer, storage = opened(url)
    checkpointer.put_state("t", {"n": 0})
    waits = threading.Event()

    async def hold() -> None:
        waits.set()
        await asyncio.Event().wait()

    storage.meddle = hold
    held = in_threads(lambda: checkpointer.get_state("t"))
    assert waits.wait(120)
    checkpointer.release()
    assert held() == ["StorageError"]


def a_loop_that_fails_wakes_its_callers_and_the_next_call_has_another(url: str) -> None:
    checkpointer, storage = opened(url)
    checkpointer.put_state("t", {"n": 0})
    waits, stopped = threading.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def hold() -> None:
        loops.append(asyncio.get_running_loop())
        waits.set()
        await asyncio.Event().wait()

    storage.meddle = hold
    held = in_threads(lambda: checkpointer.get_state("t"))
    assert waits.wait(120)

    def select(timeout: float | None = None) -> None:
        stopped.set()
        raise OSError("the selector was closed")

    loops[0]._selector.select = select  # type: ignore[attr-defined]
    loops[0].call_soon_threadsafe(lambda: None)
    assert held() == ["TransientStorageError"]
    assert stopped.is_set()
    checkpointer.put_state("t", {"n": 1})
    assert checkpointer.get_state("t") == {"n": 1}
    checkpointer.release()


def a_child_of_a_process_that_just_starts_its_loop_works(url: str) -> None:
    checkpointer, _ = opened(url)
    runner = checkpointer._runner
    assert isinstance(runner, LoopRunner)
    with runner._lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                checkpointer.put_state("t", {"n": "child"})
                code = 0 if checkpointer.get_state("t") == {"n": "child"} else 2
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    checkpointer.put_state("t", {"n": 1})
    checkpointer.release()


# Ctrl-C


class Interrupts:
    """Raises KeyboardInterrupt in this thread where Python checks for signals: at the `at`th call or return of a C function.

    With `sys.setprofile`, so that every such moment is hit once; a real signal would hit most of them
    only by luck.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __enter__(self) -> Interrupts:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: Any, event: str, function: Any) -> None:
        if event in ("call", "c_return") and function is not sys.setprofile:
            self.left -= 1
            if self.left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


def interrupted_everywhere(work: Callable[[], Any], check: Callable[[], Any]) -> int:
    """Repeat `work`, interrupted one moment later each time, and `check` after each; returns the number of moments."""
    at = 0
    while True:
        interrupts = Interrupts(at)
        try:
            with interrupts:
                work()
        except KeyboardInterrupt:
            pass
        except RuntimeError as error:
            # An interrupt inside a condition variable of Python, while a thread starts.
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
        check()
        if interrupts.left >= 0:
            return at
        at += 1


def a_call_is_interrupted_at_every_moment(url: str) -> None:
    checkpointer, _ = opened(url)
    numbers = iter(range(1_000_000))

    def check() -> None:
        number = next(numbers)
        checkpointer.put_state("t", {"n": number})
        assert checkpointer.get_state("t") == {"n": number}

    check()
    assert interrupted_everywhere(lambda: checkpointer.get_state("t"), check) > 10
    assert interrupted_everywhere(lambda: checkpointer.put_state("u", {"n": 1}), check) > 10
    checkpointer.release()


def the_next_writers_do_not_wait_for_an_interrupted_one(url: str) -> None:
    # A writer that waits for one that is gone waits longer than the time limit.
    write_queue.PATIENCE = 3600.0  # type: ignore[misc]
    checkpointer = clew.connect(url)
    done: SimpleQueue[int] = SimpleQueue()
    ended = threading.Event()
    numbers = iter(range(1_000_000))

    def write_along() -> None:
        while not ended.is_set():
            checkpointer.put_state("t", {"n": (number := next(numbers))})
            checkpointer.update_state("t", set={"m": number})
            done.put(number)

    def check() -> None:
        checkpointer.put_state("t", {"n": next(numbers)})
        begun_before = next(numbers)
        while done.get() < begun_before:
            pass

    other = threading.Thread(target=write_along, daemon=True)
    other.start()
    check()
    assert interrupted_everywhere(lambda: checkpointer.put_state("t", {"n": -1}), check) > 30
    assert interrupted_everywhere(lambda: checkpointer.update_state("t", set={"n": -2}), check) > 30
    ended.set()
    other.join()
    checkpointer.release()


def the_first_call_is_interrupted_at_every_moment(url: str) -> None:
    runners: list[LoopRunner] = []

    async def work() -> int:
        await asyncio.sleep(0)
        return 1

    def first() -> None:
        runners.append(LoopRunner())
        runners[-1].run(work(), "work")

    def check() -> None:
        if runners:
            assert runners[-1].run(work(), "work") == 1
            runners.pop().close()

    assert interrupted_everywhere(first, check) > 30
    for thread in threading.enumerate():
        if thread.name == "clew-loop":
            # A loop that nobody has adopted ends by itself.
            thread.join(60)
            assert not thread.is_alive()


def accepting_a_save_is_interrupted_at_every_moment(url: str) -> None:
    background = Background(LoopRunner(), max_saves=10, max_bytes=1000, tasks=())
    done: list[int] = []
    numbers = iter(range(1_000_000))

    async def save(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    def accept() -> None:
        number = next(numbers)
        run_inline(background.put("t", "u", 10, lambda: save(number)))

    def check() -> None:
        run_inline(background.finished("t"))
        accept()
        run_inline(background.finished())
        status = background.status
        assert (status.pending, status.pending_bytes, status.failed) == (0, 0, 0)
        assert done == sorted(set(done))

    assert interrupted_everywhere(accept, check) > 20


def a_save_that_gets_no_thread_is_refused_and_the_next_is_not(url: str) -> None:
    checkpointer = clew.BaseCheckpointer(MemoryStorage(), durability="background", retry_for=0)
    # No thread can have a stack of this size.
    before = threading.stack_size(1 << 46)
    assert caught(lambda: checkpointer.put_state("t", {"n": 0})) == "TransientStorageError"
    assert caught(lambda: checkpointer.get_state("t")) == "None"
    other = clew.BaseCheckpointer(MemoryStorage(), durability="background")
    assert caught(lambda: other.put_state("t", {"n": 0})) == "TransientStorageError"
    other.release()
    threading.stack_size(before)
    checkpointer.put_state("t", {"n": 1})
    assert checkpointer.get_state("t") == {"n": 1}
    checkpointer.release()


def real_signals_at_random_moments_leave_it_working(url: str) -> None:
    checkpointer, _ = opened(url)
    checkpointer.put_state("t", {"n": 0})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupted)
    chance = random.Random(1)
    interrupts = 0
    for number in range(400):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.002))
                checkpointer.put_state("t", {"n": number})
                checkpointer.get_state("t")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupts += 1
        if number % 20 == 0:
            checkpointer.put_state("u", {"n": number})
            assert checkpointer.get_state("u") == {"n": number}
    assert interrupts > 20, interrupts
    checkpointer.release()


# Calls within calls


def a_call_from_a_callers_thread_that_may_be_blocked_does_not_block_the_loop(url: str) -> None:
    checkpointer, storage = opened(url)
    seen: list[bool] = []

    async def look() -> None:
        seen.append(may_block())

    async def within() -> None:
        storage.meddle = look
        checkpointer.put_state("t", {"n": 0})

    run_inline(within())
    assert seen == [False]
    checkpointer.release()


SCENARIOS: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (
        its_caller_gets_it_and_the_next_call_works,
        others_that_wait_go_on,
        all_of_a_batch_get_an_answer,
        a_background_save_that_is_interrupted_is_told,
        callers_that_wait_learn_of_a_release,
        a_loop_that_fails_wakes_its_callers_and_the_next_call_has_another,
        a_child_of_a_process_that_just_starts_its_loop_works,
        a_call_is_interrupted_at_every_moment,
        real_signals_at_random_moments_leave_it_working,
        a_call_from_a_callers_thread_that_may_be_blocked_does_not_block_the_loop,
    )
}
"""Scenarios for every storage that suspends."""
LOCAL: dict[str, Callable[[str], None]] = {
    each.__name__: each for each in (the_next_writers_do_not_wait_for_an_interrupted_one,)
}
"""Scenarios for every storage whose sync calls run in the caller's thread."""
ALONE: dict[str, Callable[[str], None]] = {
    each.__name__: each
    for each in (
        the_first_call_is_interrupted_at_every_moment,
        accepting_a_save_is_interrupted_at_every_moment,
        a_save_that_gets_no_thread_is_refused_and_the_next_is_not,
    )
}
"""Scenarios without a storage."""

if __name__ == "__main__":
    (SCENARIOS | LOCAL | ALONE)[sys.argv[1]](sys.argv[2])
    print("done")
