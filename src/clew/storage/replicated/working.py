"""Work that goes on beside operations: a task on each event loop that uses the storage, or an OS thread if it needs no loop."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from clew.storage.loops import PerLoop
from clew.storage.offload import may_block, run_inline

_T = TypeVar("_T")
Tick = Callable[[], Coroutine[Any, Any, None]]


class Workers:
    """Calls `tick` again and again, `pause` seconds apart or as soon as it is woken, as long as its owner lives."""

    def __init__(self, name: str, tick: Tick, pause: float, *, suspends: bool) -> None:
        self._tick = weakref.WeakMethod(tick)
        self._pause = pause
        self._suspends = suspends
        self._tasks: PerLoop[_TaskWorker] = PerLoop(name, self._begin_task, _TaskWorker.stop)
        self._thread: _ThreadWorker | None = None
        self._lock = threading.Lock()
        self._closed = False

    async def ready(self) -> None:
        """See to it that somebody works. Raises StorageError once closed."""
        if self._suspends:
            await self._tasks.get()
        elif self._thread is None or self._thread.pid != os.getpid():
            with self._lock:
                if not self._closed and (self._thread is None or self._thread.pid != os.getpid()):
                    self._thread = _ThreadWorker(self._tick, self._pause)

    async def wake(self) -> None:
        """Let the next round begin at once, if there is to be one."""
        if self._closed:
            return
        if self._suspends:
            (await self._tasks.get()).woken.set()
        elif self._thread is not None:
            self._thread.woken.set()

    async def close(self) -> None:
        """End the work that goes on. Closing twice is fine."""
        self._closed = True
        if self._suspends:
            await self._tasks.close()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.stop()

    async def _begin_task(self) -> _TaskWorker:
        return _TaskWorker(self._tick, self._pause)


class _TaskWorker:
    def __init__(self, tick: weakref.WeakMethod[Tick], pause: float) -> None:
        self.woken = asyncio.Event()
        self._tick = tick
        self._pause = pause
        # What a caller has set for itself is nothing to the work beside it.
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
        self.woken = threading.Event()
        self._tick = tick
        self._pause = pause
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="clew-replication", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stopped and (tick := self._tick()) is not None:
            self.woken.clear()
            run_inline(tick())
            del tick
            self.woken.wait(self._pause)

    def stop(self) -> None:
        self._stopped = True
        self.woken.set()
        if self.pid == os.getpid() and self._thread is not threading.current_thread():
            self._thread.join()


async def within(seconds: float, work: Awaitable[None]) -> bool:
    """Whether `work` was done within `seconds`, where there is an event loop to keep time on."""
    if may_block():
        await work
        return True
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True
