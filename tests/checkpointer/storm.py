"""Thousands of interrupts at random moments: `python -m tests.checkpointer.storm URL MODE INTERRUPTS SEED`.

Ctrl-C comes at a random moment of each round of calls. Every few rounds run without interrupts, and
everything must be intact: each save that returned is stored, states are complete, another thread of
the process can save, and `release` returns. A process that hangs ends itself and prints the stacks of
its threads. MODE is `sync`, `background`, `async` or `async-background`. In the last two, Ctrl-C
cancels the running task. In every third round it comes twice: asyncio raises the second one in the
middle of its loop. (Not on a server: an exception inside the compiled code of a driver, asyncpg or
hiredis, may crash the process.)
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any

import clew
from clew.answers import Answer
from clew.checkpointer import write_queue
from clew.storage.memory import MemoryStorage

HANG = 120.0
"""Seconds without a completed round: many times the duration of one on a busy machine."""
ROUNDS_UNCHECKED = 8
ROUNDS_OF_A_LOOP = 40
ROUNDS_OF_A_CHECKPOINTER = 400
THREADS = ("a", "b", "c")


def state_of(number: int) -> dict[str, Any]:
    return {"n": number, "log": [f"{each}: " + "x" * 200 for each in range(number % 60)], "last": [number] * 5}


class Companion:
    """Another OS thread, which saves when it is told to."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[clew.BaseCheckpointer, int, Answer[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def save(self, checkpointer: clew.BaseCheckpointer, number: int) -> Answer[Any]:
        answer: Answer[Any] = Answer()
        self._asked.put((checkpointer, number, answer))
        return answer

    def end(self) -> None:
        self._asked.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            checkpointer, number, answer = asked
            try:
                checkpointer.put_state("companion", state_of(number))
                answer.give(checkpointer.get_state("companion"))
            except BaseException as error:
                answer.fail(error)


class Storm:
    """The rounds of one process."""

    def __init__(self, url: str, mode: str, seed: int) -> None:
        self._url, self._mode = url, mode
        self._on_a_loop = "async" in mode
        self._chance = random.Random(seed)
        self._memory = MemoryStorage()
        self._companion = Companion()
        self._checkpointer = self._opened()
        self._runner: asyncio.Runner | None = None
        self._tried = 0
        self._saved = dict.fromkeys(THREADS, 0)
        self._messages: set[str] = set()
        self._under_way: set[tuple[str, int]] = set()
        self._sent: set[tuple[str, int]] = set()
        self._pace = 0.002
        self._left = 0
        self._cancelled = False
        self.counts: Counter[str] = Counter()

    def _opened(self) -> clew.BaseCheckpointer:
        options: dict[str, Any] = {"durability": "background"} if "background" in self._mode else {}
        if self._url == "memory:":
            return clew.BaseCheckpointer(self._memory, **options)
        return clew.connect(self._url, **options)

    def run(self, interrupts: int) -> None:
        signal.signal(signal.SIGALRM, self._interrupt)
        self._settle()
        while self.counts["interrupts"] < interrupts:
            for _ in range(ROUNDS_UNCHECKED):
                self._round()
            self._check()
            if self.counts["rounds"] % ROUNDS_OF_A_CHECKPOINTER < ROUNDS_UNCHECKED:
                self._release()
                self._checkpointer = self._opened()
                self._check()
        self._end()

    def _round(self) -> None:
        faulthandler.dump_traceback_later(HANG, exit=True)
        self.counts["rounds"] += 1
        self._cancelled = False
        self._under_way.clear()
        twice = self._on_a_loop and self.counts["rounds"] % 3 == 0 and self._url.startswith(("memory", "sqlite"))
        begun = time.perf_counter()
        if self._interrupted(self._calls_on_a_loop if self._on_a_loop else self._calls, twice=twice):
            if self._on_a_loop:
                # The commit of a cancelled task may be applied after the next one.
                self._sent |= self._under_way
            if twice:
                self._abandon_loop()
            elif not self._cancelled:
                self._leave_loop()
        else:
            # The interrupts are spread over the duration of a round.
            self._pace += (time.perf_counter() - begun - self._pace) / 10

    def _interrupted(self, work: Callable[[], object], *, twice: bool = False) -> bool:
        before = self.counts["interrupts"]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            try:
                try:
                    self._left = 2 if twice else 1
                    moment = self._chance.uniform(0.00001, 1.1 * self._pace)
                    signal.setitimer(signal.ITIMER_REAL, moment, self._pace / 4 if twice else 0)
                    work()
                finally:
                    self._left = 0
            except (KeyboardInterrupt, asyncio.CancelledError):
                self._left = 0
        except KeyboardInterrupt:
            self._left = 0
        return self.counts["interrupts"] > before

    def _interrupt(self, *_: object) -> None:
        if self._left:
            self._left -= 1
            self.counts["interrupts"] += 1
            signal.raise_signal(signal.SIGINT)

    def _save_of(self, thread: str) -> tuple[int, dict[str, Any]]:
        self._tried += 1
        self._under_way.add((thread, self._tried))
        return self._tried, state_of(self._tried)

    def _calls(self) -> None:
        checkpointer, chance = self._checkpointer, self._chance
        thread = chance.choice(THREADS)
        number, state = self._save_of(thread)
        checkpointer.put_state(thread, state)
        self._saved[thread] = number
        match chance.randrange(6):
            case 0:
                checkpointer.put_messages(thread, [clew.Message(role="user", content="hello", message_id=f"m{number}")])
                self._messages.add(f"m{number}")
            case 1:
                checkpointer.update_state(thread, set={"extra": number}, append={"last": [1]})
            case 2:
                with checkpointer.lease(f"turn {number}"):
                    checkpointer.get_state(thread)
            case 3:
                checkpointer.fork(thread, f"fork {number}")
            case _:
                checkpointer.get_state(thread)

    def _calls_on_a_loop(self) -> None:
        if self._runner is None:
            self._runner = asyncio.Runner()
        self._runner.run(self._some_calls())

    async def _some_calls(self) -> None:
        try:
            await asyncio.gather(*(self._acalls(thread) for thread in THREADS))
        except asyncio.CancelledError:
            # Ctrl-C where asyncio handles it. At any other moment, the loop can't go on.
            self._cancelled = True
            raise

    async def _acalls(self, thread: str) -> None:
        checkpointer = self._checkpointer
        number, state = self._save_of(thread)
        await checkpointer.aput_state(thread, state)
        self._saved[thread] = number
        self._under_way.discard((thread, number))
        match self._chance.randrange(6):
            case 0:
                messages = [clew.Message(role="user", content="hello", message_id=f"m{number}")]
                await checkpointer.aput_messages(thread, messages)
                self._messages.add(f"m{number}")
            case 1:
                await checkpointer.aupdate_state(thread, set={"extra": number}, append={"last": [1]})
            case 2:
                async with checkpointer.alease(f"turn {number}"):
                    await checkpointer.aget_state(thread)
            case 3:
                await checkpointer.afork(thread, f"fork {number}")
            case _:
                await checkpointer.aget_state(thread)

    # Without interrupts

    def _do(self, name: str, *args: Any) -> Any:
        """A call in the style of the mode, or with the sync twin."""
        if not self._on_a_loop or self._chance.random() < 0.5:
            return getattr(self._checkpointer, name)(*args)
        if self._runner is None:
            self._runner = asyncio.Runner()

        async def call() -> Any:
            work: Awaitable[Any] = getattr(self._checkpointer, f"a{name}")(*args)
            return await work

        return self._runner.run(call())

    def _settle(self) -> None:
        for thread in THREADS:
            self._do("put_state", thread, state_of(0))

    def _check(self) -> None:
        faulthandler.dump_traceback_later(HANG, exit=True)
        self.counts["checks"] += 1
        waits = self._companion.save(self._checkpointer, self.counts["checks"])
        for thread in THREADS:
            self._check_thread(thread)
        self._tried += 1
        thread = self._chance.choice(THREADS)
        self._do("put_state", thread, state_of(self._tried))
        self._saved[thread] = self._tried
        self._check_thread(thread)
        # The same round without an interrupt.
        self._calls_on_a_loop() if self._on_a_loop else self._calls()
        assert waits.wait() == state_of(self.counts["checks"])
        if self._runner is not None and self._chance.random() < ROUNDS_UNCHECKED / ROUNDS_OF_A_LOOP:
            self._close_loop()

    def _check_thread(self, thread: str) -> None:
        found = self._do("get_state", thread)
        is_newest = self._saved[thread] <= found["n"] <= self._tried
        assert is_newest or (thread, found["n"]) in self._sent, (thread, found["n"], self._saved[thread], self._tried)
        expected = state_of(found["n"])
        if "extra" in found:
            expected |= {"extra": found["n"], "last": [found["n"]] * 5 + [1]}
        assert found == expected, (thread, found["n"])
        there = {message.message_id for message in self._do("list_messages", thread, None, 0, None)}
        self._messages -= there
        self.counts["saves"] += 1

    def _close_loop(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._runner = None

    def _leave_loop(self) -> None:
        """Close the loop after an interrupt before or after its run."""
        try:
            self._close_loop()
        except RuntimeError:
            # It was stopped before it could close everything.
            self._abandon_loop()

    def _abandon_loop(self) -> None:
        """Close the loop without cancelling its tasks: it was interrupted too, so asyncio can't run it any more."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.get_loop().close()

    def _release(self) -> None:
        self.counts["releases"] += 1
        if self._interrupted(self._checkpointer.release):
            self.counts["releases interrupted"] += 1
        self._close_loop()
        self._checkpointer.release()

    def _end(self) -> None:
        self._release()
        self._checkpointer = self._opened()
        for thread in THREADS:
            self._check_thread(thread)
        assert not self._messages, self._messages
        self._check()
        report = self._do("verify")
        assert not report.damage, report.damage
        self._close_loop()
        self._checkpointer.release()
        self._companion.end()
        for other in threading.enumerate():
            if other is not threading.main_thread():
                # Threads that are about to end. One that stays hangs.
                other.join()


if __name__ == "__main__":
    url, mode, interrupts, seed = sys.argv[1:]
    faulthandler.enable()
    # asyncio warns about abandoned loops.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    # No writer waits for one that was interrupted.
    write_queue.PATIENCE = 2 * HANG  # type: ignore[misc]
    storm = Storm(url, mode, int(seed))
    begun = time.monotonic()
    storm.run(int(interrupts))
    print(json.dumps({**storm.counts, "seconds": round(time.monotonic() - begun, 1)}))
