"""Answers that cross threads, without a lock that an interrupted waiter could keep.

`concurrent.futures.Future` has a condition. Whoever is interrupted by Ctrl-C right inside that condition keeps its lock,
and then the thread that brings the answer waits for ever. Here a waiter sleeps on a lock of its own, and the thread that
brings the answer takes no lock at all.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

R = TypeVar("R")


class Answer(Generic[R]):
    """A result or an error that one thread gives, once, and that any number of threads and event loops wait for."""

    __slots__ = ("_error", "_result", "_wakers", "done")

    _result: R

    def __init__(self) -> None:
        self.done = False
        self._error: BaseException | None = None
        self._wakers: deque[Callable[[], object]] = deque()

    def give(self, result: R) -> None:
        self._result = result
        self._tell()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._tell()

    @property
    def error(self) -> BaseException | None:
        """The error that was given, if any."""
        return self._error

    def then(self, waker: Callable[[], object]) -> None:
        """Call `waker` once when the answer is there: in the thread that gives it, or at once. It must not raise."""
        self._wakers.append(waker)
        if self.done:
            self._wake()

    def wait(self, timeout: float | None = None) -> R:
        """The result; blocks the calling thread. Raises the error that was given, or TimeoutError."""
        if not self.done:
            asleep = threading.Lock()
            asleep.acquire()
            # Whoever gives the answer sets `done` first and wakes then, so one of the two is seen here.
            self._wakers.append(asleep.release)
            if not self.done and not asleep.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
                raise TimeoutError("no answer came in time")
        return self._outcome()

    async def arrive(self) -> R:
        """The result; suspends the calling task. Raises the error that was given."""
        if not self.done:
            loop = asyncio.get_running_loop()
            arrived: asyncio.Future[None] = loop.create_future()
            self.then(partial(_wake_task, loop, arrived))
            await arrived
        return self._outcome()

    def _tell(self) -> None:
        self.done = True
        self._wake()

    def _wake(self) -> None:
        while True:
            try:
                waker = self._wakers.popleft()
            except IndexError:
                return
            waker()

    def _outcome(self) -> R:
        if self._error is not None:
            try:
                raise self._error
            finally:
                # The traceback refers to this frame, and this frame to the error.
                del self
        return self._result


def _wake_task(loop: asyncio.AbstractEventLoop, arrived: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_arrive, arrived)
    except RuntimeError:
        # The loop was closed, and its tasks with it: nobody waits any more.
        pass


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
