"""Background workers: a task on each event loop, or an OS thread for storages without one."""

from __future__ import annotations

import asyncio
import contextvars
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from clew.os_threads import OwnThread
from clew.storage.execution import may_block, run_inline
from clew.storage.loops import PerLoop

_T = TypeVar("_T")
Tick = Callable[[], Coroutine[Any, Any, None]]


class Workers:
    """Calls `tick` every `pause` seconds or when woken, as long as the owner of `tick` lives."""

    def __init__(self, name: str, tick: Tick, pause: float, *, suspends: bool) -> None:
        self._tick = weakref.WeakMethod(tick)
        self._pause = pause
        self._suspends = suspends
        self._tasks: PerLoop[_TaskWorker] = PerLoop(name, self._begin_task, _TaskWorker.stop)
        self._thread = _ThreadWorker(self._tick, pause)
        self._closed = False

    async def ready(self) -> None:
        """Start a worker if there is none. Raises StorageError after `close`."""
        if self._suspends:
            await self._tasks.get()
        elif not self._closed:
            if self._thread.pid != os.getpid():
                self._thread = _ThreadWorker(self._tick, self._pause)
            self._thread.begin()

    async def wake(self) -> None:
        """Start the next round at once. Does nothing after `close`."""
        if self._closed:
            return
        if self._suspends:
            (await self._tasks.get()).woken.set()
        else:
            self._thread.wake()

    async def close(self) -> None:
        """Stop the workers. Idempotent."""
        self._closed = True
        if self._suspends:
            await self._tasks.close()
        self._thread.stop()

    async def _begin_task(self) -> _TaskWorker:
        return _TaskWorker(self._tick, self._pause)


class _TaskWorker:
    def __init__(self, tick: weakref.WeakMethod[Tick], pause: float) -> None:
        self.woken = asyncio.Event()
        self._tick = tick
        self._pause = pause
        # An empty context: the caller's context variables don't concern the background.
        self._task = asyncio.create_task(self._work(), context=contextvars.Context())

    async def _work(self) -> None:
        while (tick := self._tick()) is not None:
            self.woken.clear()
            await tick()
            del tick
            try:
                async with asyncio.timeout(self._pause):
                    await self.woken.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class _ThreadWorker:
    def __init__(self, tick: weakref.WeakMethod[Tick], pause: float) -> None:
        self.pid = os.getpid()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._tick = tick
        self._pause = pause
        self._stopped = False
        self._thread = OwnThread(self._work, "clew-replication")

    def begin(self) -> None:
        """Start the thread if it is not running."""
        self._thread.begin()

    def wake(self) -> None:
        if self._bell.empty():
            self._bell.put(None)

    def stop(self) -> None:
        self._stopped = True
        self._bell.put(None)
        if self.pid == os.getpid():
            self._thread.wait()

    def _work(self) -> None:
        while not self._stopped and (tick := self._tick()) is not None:
            run_inline(tick())
            del tick
            try:
                self._bell.get(timeout=self._pause)
            except Empty:
                continue


async def within(seconds: float, work: Awaitable[None]) -> bool:
    """Await `work`, with an event loop for at most `seconds`. Returns whether it ended."""
    if may_block():
        await work
        return True
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
