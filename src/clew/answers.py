"""Answers: results that cross threads, safe against KeyboardInterrupt in a waiting thread.

A thread that is interrupted inside the condition of a `concurrent.futures.Future` keeps its lock, and
then the thread that sets the result blocks forever. Here each waiter sleeps on its own lock, and the
thread that gives the answer takes no lock at all.
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
    """A result or error that one thread gives once, and any threads and event loops wait for."""

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
        """The given error, if any."""
        return self._error

    def then(self, waker: Callable[[], object]) -> None:
        """Call `waker` once: when the answer arrives, in the thread that gives it, or at once if it is there
        already. `waker` must not raise."""
        self._wakers.append(waker)
        if self.done:
            self._wake()

    def wait(self, timeout: float | None = None) -> R:
        """Block until the answer arrives and return it. Raises the given error, or TimeoutError."""
        if not self.done and not self._sleep(timeout):
            raise TimeoutError("no answer within the timeout")
        return self._outcome()

    def _sleep(self, timeout: float | None) -> bool:
        asleep = threading.Lock()
        asleep.acquire()
        # The giving thread sets `done` before it calls the wakers, so this thread sees `done` or is woken.
        self._wakers.append(wake := asleep.release)
        if self.done or asleep.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            return True
        self._forget(wake)
        return False

    def comes_within(self, seconds: float) -> bool:
        """Block for up to `seconds`; return whether the answer has arrived. Never raises its error."""
        return self.done or self._sleep(seconds)

    async def arrive(self) -> R:
        """Suspend the task until the answer arrives and return it. Raises the given error."""
        if not self.done:
            loop = asyncio.get_running_loop()
            arrived: asyncio.Future[None] = loop.create_future()
            self.then(waker := partial(_wake_task, loop, arrived))
            try:
                await arrived
            except BaseException:
                self._forget(waker)
                raise
        return self._outcome()

    def _forget(self, waker: Callable[[], object]) -> None:
        try:
            self._wakers.remove(waker)
        except ValueError:
            # It is being called right now.
            pass

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
                # Break the reference cycle: the traceback refers to this frame,
                # and this frame to the error.
                del self
        return self._result


def _wake_task(loop: asyncio.AbstractEventLoop, arrived: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_arrive, arrived)
    except RuntimeError:
        # The loop was closed along with its tasks, so nobody is waiting.
        pass


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
