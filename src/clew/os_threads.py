"""OS threads that survive Ctrl-C and "can't start new thread": each is either
running or was never started.

`Thread.start`, `Thread.join`, `Condition`, `Event`, `Semaphore` and `ThreadPoolExecutor` take locks
in Python code. A KeyboardInterrupt right after such a line leaves the lock held forever. Here,
threads communicate only through C locks in `with` statements, C queues and `Answer`s.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple

from clew.answers import Answer

Result = TypeVar("Result")
Args = TypeVarTuple("Args")


class Resettable(Protocol):
    def reset(self) -> None: ...


_resettable: weakref.WeakSet[Resettable] = weakref.WeakSet()


def reset_after_fork(each: Resettable) -> None:
    """Have `each.reset()` called in forked child processes, where its locks may be held and its threads don't run."""
    _resettable.add(each)


def _reset_all() -> None:
    for each in list(_resettable):
        each.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)


def start(target: Callable[[], object], name: str) -> threading.Thread:
    """Start a daemon thread that calls `target`. Raises RuntimeError if the system can't start one.

    If the caller is interrupted, the thread may be running although this function did not return it.
    """
    thread = threading.Thread(target=target, name=name, daemon=True)
    started: Answer[None] = Answer()
    # `thread.start` takes locks, so it runs in a thread that gets no signals.
    _thread.start_new_thread(_start, (thread, started))
    started.wait()
    return thread


def _start(thread: threading.Thread, started: Answer[None]) -> None:
    try:
        thread.start()
    except BaseException as error:  # Raised in the waiting caller.
        started.fail(error)
    else:
        started.give(None)


class OwnThread:
    """A thread that calls `serve`, at most one at a time. `wait` returns when it has ended."""

    def __init__(self, serve: Callable[[], object], name: str) -> None:
        self._serve = serve
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended: Answer[None] = Answer()
        reset_after_fork(self)

    def reset(self) -> None:
        """Forget the thread in a forked child: it runs in the parent only."""
        self._thread, self._ended, self._lock = None, Answer(), threading.Lock()

    @property
    def begun(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        """Whether the caller is the thread."""
        return self._thread is threading.current_thread()

    def begin(self) -> None:
        """Start the thread unless it is running. Raises RuntimeError if the system can't start one."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._ended = Answer()
                    self._thread = start(self._live, self._name)

    def wait(self) -> None:
        """Block until the thread has ended. Returns at once if none is running, or if
        called from the thread itself."""
        ended = self._ended
        if self.begun and not self.is_current:
            ended.wait()

    async def arrive(self) -> None:
        """Like `wait`, without blocking the event loop."""
        ended = self._ended
        if self.begun and not self.is_current:
            await ended.arrive()

    def _live(self) -> None:
        # `begin` holds the lock until `_thread` is set. If it was interrupted, this
        # thread is unknown and must end.
        with self._lock:
            if not self.is_current:
                return
            ended = self._ended
        try:
            self._serve()
        finally:
            self._thread = None
            ended.give(None)


class Hands:
    """A pool of up to `most` threads for blocking work, started when all others are busy."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._begun = 0
        self._closed = False
        self._idle: deque[None] = deque()
        self._tasks: SimpleQueue[_Task[Any] | None] = SimpleQueue()

    async def do(self, work: Callable[[*Args], Result], *args: *Args) -> Result:
        """Run `work(*args)` in a thread and return its result. Work that is cancelled
        before it starts is skipped.

        Raises RuntimeError after `close`, or if the system can't start the first thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._make_room()
        self._tasks.put(_Task(loop, future, lambda: work(*args)))
        if self._closed:
            self._refuse_leftovers()
        return await future

    def close(self) -> None:
        """Let the threads end after their current work. Queued work is refused."""
        self._closed = True
        self._refuse_leftovers()

    def _refuse_leftovers(self) -> None:
        while True:
            try:
                task = self._tasks.get_nowait()
            except Empty:
                break
            if task is not None:
                task.refuse()
        self._tasks.put(None)

    def _make_room(self) -> None:
        try:
            self._idle.pop()
        except IndexError:
            if self._begun < self._most:
                try:
                    start(self._serve, f"{self._name}_{self._begun}")
                except RuntimeError:
                    if not self._begun:
                        raise
                else:
                    self._begun += 1

    def _serve(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                # Pass the signal on to the next thread.
                self._tasks.put(None)
                return
            task.run()
            del task
            self._idle.append(None)


class _Task(Generic[Result]):
    __slots__ = ("_loop", "_work", "future")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Result], work: Callable[[], Result]
    ) -> None:
        self._loop = loop
        self._work = work
        self.future = future

    def run(self) -> None:
        if self.future.done():
            return
        try:
            result = self._work()
        except BaseException as error:  # Raised in the waiting caller.
            self._tell(self._fail, error)
            del error
        else:
            self._tell(self._give, result)

    def refuse(self) -> None:
        self._tell(self._fail, RuntimeError("the thread pool was closed"))

    def _tell(self, how: Callable[[Any], None], outcome: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(how, outcome)
        except RuntimeError:
            # The loop was closed, so nobody is waiting.
            pass

    def _give(self, result: Result) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)
