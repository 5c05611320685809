"""What waits goes together: the way to a thread or to a server costs more than what one of many asks for."""

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
class Work:
    """Work for several who wait. `lost` gives them an error if the work was cancelled, even before it began, or failed."""

    run: Coroutine[Any, Any, None]
    lost: Callable[[], None]


class Crew:
    """Does work on one event loop, `at_once` of it at most: whenever there is room, the next that `next_work` gives."""

    def __init__(self, at_once: int, next_work: Callable[[], Work | None], *, doing: str) -> None:
        """`doing` is what a report of a failure calls the work."""
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self.running = 0
        self._at_once = at_once
        self._next_work = next_work
        self._doing = doing
        self._called = False

    def call(self) -> None:
        """Say that there is work. It is not begun at once: what others bring in this turn of the loop goes along."""
        if not self._called and self.running < self._at_once:
            self._called = True
            self.loop.call_soon(self._start)

    async def do(self, work: Awaitable[Result]) -> Result:
        """Do this in the caller's own task, for whom nobody has to wait."""
        self.running += 1
        try:
            return await work
        finally:
            self.running -= 1
            self._start()

    def _start(self) -> None:
        self._called = False
        while self.running < self._at_once and (work := self._next_work()) is not None:
            task = self.loop.create_task(work.run)
            self.running += 1
            self.tasks.add(task)
            task.add_done_callback(partial(self._ended, work.lost))

    def _ended(self, lost: Callable[[], None], task: asyncio.Task[None]) -> None:
        self.running -= 1
        self.tasks.discard(task)
        if task.cancelled():
            lost()
        elif error := task.exception():
            lost()
            self.loop.call_exception_handler({"message": f"clew: {self._doing} failed", "exception": error})
        self._start()


class Together(Generic[Question, Answer]):
    """The questions of one event loop. `answer` gives an answer for each of those that it gets, or fails for all.

    One that nobody else is in the way of goes at once. Those that come while `at_once` calls of `answer` are under way gather,
    and the next call takes up to `most` of them.
    """

    def __init__(
        self, answer: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]], *, at_once: int, most: int
    ) -> None:
        self._answer = answer
        self._most = most
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._crew = Crew(at_once, self._next, doing="a read of many")

    async def ask(self, question: Question) -> Answer:
        """The answer. Raises what `answer` does."""
        crew = self._crew
        if not crew.running and not self._waiting:
            (answer,) = await crew.do(self._answer((question,)))
            return answer
        future: asyncio.Future[Answer] = crew.loop.create_future()
        self._waiting.append((question, future))
        crew.call()
        return await future

    def _next(self) -> Work | None:
        if not self._waiting:
            return None
        asked = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        return Work(self._run(asked), partial(_lose, asked))

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
        else:
            for (_, future), answer in zip(asked, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _lose(asked: Sequence[tuple[object, asyncio.Future[Any]]]) -> None:
    for _, future in asked:
        fail(future, TransientStorageError("a read was interrupted; try again"))


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
