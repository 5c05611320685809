"""Questions that wait go together: the way to a thread or to a server costs more than what one of them asks for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from clew.errors import ClewError, TransientStorageError

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Together(Generic[Question, Answer]):
    """The questions of one event loop. `answer` gives an answer for each of those that it gets, or fails for all.

    One that nobody else is in the way of goes at once. Those that come while `at_once` calls of `answer` are under way gather,
    and the next call takes up to `most` of them.
    """

    def __init__(
        self, answer: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]], *, at_once: int, most: int
    ) -> None:
        self._answer = answer
        self._at_once, self._most = at_once, most
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._called = False

    async def ask(self, question: Question) -> Answer:
        """The answer. Raises what `answer` does."""
        if self._running or self._waiting:
            future: asyncio.Future[Answer] = self._loop.create_future()
            self._waiting.append((question, future))
            # Not at once: what others ask in this turn of the loop goes along.
            if not self._called and self._running < self._at_once:
                self._called = True
                self._loop.call_soon(self._start)
            return await future
        self._running += 1
        try:
            (answer,) = await self._answer((question,))
        finally:
            self._running -= 1
            self._start()
        return answer

    def _start(self) -> None:
        self._called = False
        while self._waiting and self._running < self._at_once:
            asked = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            task = self._loop.create_task(self._run(asked))
            self._running += 1
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running -= 1
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._loop.call_exception_handler({"message": "clew: reads that went together failed", "exception": error})
        self._start()

    async def _run(self, asked: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        # Whoever was cancelled meanwhile needs no answer.
        asked = [each for each in asked if not each[1].done()]
        try:
            answers = await self._answer([question for question, _ in asked])
        except ClewError as error:
            if len(asked) > 1 and not isinstance(error, TransientStorageError):
                # One of them is at fault: each by itself shows which.
                for each in asked:
                    await self._run([each])
            else:
                for _, future in asked:
                    fail(future, error)
        except BaseException:
            for _, future in asked:
                fail(future, TransientStorageError("a read was interrupted; try again"))
            raise
        else:
            for (_, future), answer in zip(asked, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def fail(future: asyncio.Future[Any], error: ClewError) -> None:
    """Let whoever waits for `future` know of `error`."""
    if future.done():
        return
    # Each its own: callers add their tracebacks to it.
    mine = type(error)(*error.args, **error.facts)
    mine.__cause__ = error.__cause__
    future.set_exception(mine)
    # Whoever waits is told; if nobody does any more, that is no news for the log.
    future.exception()
