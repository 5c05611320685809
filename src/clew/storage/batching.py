"""Batching: waiting requests share a round trip, which costs more than the requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from clew.errors import ClewError, TransientStorageError

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Batch:
    """Work that several callers wait for.

    `lost` gives them an error if the work failed, or was cancelled (even before it started).
    """

    run: Coroutine[Any, Any, None]
    lost: Callable[[], None]


class BatchRunner:
    """Runs the batches of `next_batch` on one event loop, at most `at_once` concurrently."""

    def __init__(self, at_once: int, next_batch: Callable[[], Batch | None], *, doing: str) -> None:
        """`doing` names the work in the report of a failure."""
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self.running = 0
        self._at_once = at_once
        self._next_batch = next_batch
        self._doing = doing
        self._called = False

    def call(self) -> None:
        """Announce work. It starts in the loop's next iteration, together with others'."""
        if not self._called and self.running < self._at_once:
            self._called = True
            self.loop.call_soon(self._start)

    async def do(self, work: Awaitable[Result]) -> Result:
        """Do `work` in the caller's own task. It counts against `at_once`."""
        self.running += 1
        try:
            return await work
        finally:
            self.running -= 1
            self._start()

    def _start(self) -> None:
        self._called = False
        while self.running < self._at_once and (batch := self._next_batch()) is not None:
            task = self.loop.create_task(batch.run)
            self.running += 1
            self.tasks.add(task)
            task.add_done_callback(partial(self._ended, batch.lost))

    def _ended(self, lost: Callable[[], None], task: asyncio.Task[None]) -> None:
        self.running -= 1
        self.tasks.discard(task)
        if task.cancelled():
            lost()
        elif error := task.exception():
            lost()
            self.loop.call_exception_handler({"message": f"clew: {self._doing} failed", "exception": error})
        self._start()


class ReadBatcher(Generic[Question, Answer]):
    """Batches the questions of one event loop. `answer` answers all of them in order, or fails.

    A question that finds nothing running is asked immediately. Questions that arrive while
    `at_once` calls of `answer` are running wait, and the next call takes up to `most` of them.
    """

    def __init__(
        self, answer: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]], *, at_once: int, most: int
    ) -> None:
        self._answer = answer
        self._most = most
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._runner = BatchRunner(at_once, self._next, doing="a batch of reads")

    async def ask(self, question: Question) -> Answer:
        """Return the answer. Raises what `answer` raises."""
        runner = self._runner
        if not runner.running and not self._waiting:
            (answer,) = await runner.do(self._answer((question,)))
            return answer
        future: asyncio.Future[Answer] = runner.loop.create_future()
        self._waiting.append((question, future))
        runner.call()
        return await future

    def _next(self) -> Batch | None:
        if not self._waiting:
            return None
        asked = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        return Batch(self._run(asked), partial(_lose, asked))

    async def _run(self, asked: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        # Cancelled callers need no answer.
        asked = [each for each in asked if not each[1].done()]
        try:
            answers = await self._answer([question for question, _ in asked])
        except ClewError as error:
            if len(asked) > 1 and not isinstance(error, TransientStorageError):
                # One question is at fault: ask each separately to find out which.
                for each in asked:
                    await self._run([each])
            else:
                for _, future in asked:
                    fail(future, error)
        else:
            for (_, future), answer in zip(asked, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _lose(asked: Sequence[tuple[object, asyncio.Future[Any]]]) -> None:
    for _, future in asked:
        fail(future, TransientStorageError("a read was interrupted; try again"))


def fail(future: asyncio.Future[Any], error: ClewError) -> None:
    """Raise a copy of `error` in the code that awaits `future`."""
    if future.done():
        return
    # A copy for each caller, because callers add their tracebacks to it.
    mine = type(error)(*error.args, **error.facts)
    mine.__cause__ = error.__cause__
    future.set_exception(mine)
    # Mark it as retrieved: asyncio would log an error that no caller awaits any more.
    future.exception()
