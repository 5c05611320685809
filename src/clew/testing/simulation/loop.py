"""Event loop in virtual time: time advances when no callback is ready.

The loop never sleeps and watches no files. Callbacks belong to a simulated process (`Process`).
While a process is frozen, its callbacks are held back and its timers fire late.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

MOST_CALLBACKS: Final = 400_000
"""A run with more callbacks counts as endless."""
_process: ContextVar[Process | None] = ContextVar("clew_simulated_process", default=None)


class EndlessError(Exception):
    """The run can't end: every task waits forever, or tasks loop forever."""


class Process:
    """A simulated OS process. Tasks that it starts belong to it.

    The tasks of a killed process are cancelled. What they do until then has no effect, because the
    process has no connections any more (`Link` checks `alive`).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.held: list[asyncio.Handle] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._prune_at = 64

    def add(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self._tasks = [each for each in self._tasks if not each.done()]
            self._prune_at = 64 + 2 * len(self._tasks)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, oldest first."""
        return [each for each in self._tasks if not each.done()]


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one run. `chance` draws which ready callback runs next; any order is legal."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._draw = chance.random
        self._passed = 0.0
        self._soon: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbered = 0
        self.callbacks = 0
        self.set_task_factory(_make_task)
        self.set_exception_handler(self._note_error)
        self.errors: list[str] = []
        """Unhandled errors of callbacks and tasks."""

    # The interface that asyncio needs

    def time(self) -> float:
        return self._passed

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        # Time always advances, as on a real clock. A delay that is lost in float rounding would
        # loop forever.
        return self.call_at(self._passed + max(delay, 1e-6), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbered += 1
        heappush(self._timers, (when, self._numbered, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is dropped when it is due."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there are no file events."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps."""

    def _run_once(self) -> None:
        soon, draw = self._soon, self._draw
        while not self._stopping:  # type: ignore[attr-defined]
            count = len(soon)
            if not count:
                self._pass()
                continue
            handle = soon.pop()
            if count > 1 and (at := int(draw() * count)) < count - 1:
                handle, soon[at] = soon[at], handle
            if handle._cancelled:
                continue
            process: Process | None = handle._context.get(_process)  # type: ignore[attr-defined]
            if process is not None and process.frozen:
                process.held.append(handle)
                continue
            self.callbacks += 1
            handle._run()
        if self.callbacks > MOST_CALLBACKS:
            raise EndlessError(f"the run did not end within {MOST_CALLBACKS:,} callbacks")

    def _pass(self) -> None:
        """Advance time until a callback is ready."""
        timers, soon = self._timers, self._soon
        if self.callbacks > MOST_CALLBACKS:
            raise EndlessError(f"the run did not end within {MOST_CALLBACKS:,} callbacks")
        while timers:
            when, _, handle = heappop(timers)
            if handle._cancelled:
                continue
            self._passed = max(self._passed, when)
            soon.append(handle)
            while timers and timers[0][0] <= self._passed:
                soon.append(heappop(timers)[2])
            return
        raise EndlessError("every task waits forever")

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    # Processes

    def start(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` in `process`."""
        context = contextvars.copy_context()
        context.run(_process.set, process)
        return self.create_task(work, context=context)

    def freeze(self, process: Process) -> None:
        """Stop `process`, as SIGSTOP does."""
        process.frozen = True

    def thaw(self, process: Process) -> None:
        """Continue `process`: every callback that came due in the meantime is ready at once."""
        process.frozen = False
        self._soon += process.held
        process.held = []

    def kill(self, process: Process) -> None:
        """End `process` at once."""
        process.alive = False
        self.thaw(process)
        for task in process.tasks:
            task.cancel()

    def end(self, processes: list[Process]) -> None:
        """Cancel the remaining tasks of `processes` until they end, and close the loop."""
        self.callbacks = 0
        for _ in range(1000):
            left = [task for process in processes for task in process.tasks]
            if not left:
                break
            for task in left:
                task.cancel()
            self.run_until_complete(_turn())
        self.errors.clear()
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()


async def _turn() -> None:
    await asyncio.sleep(0.001)


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: contextvars.Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    process = _process.get()
    if context is not None:
        named = context.get(_process)
        if named is None and process is not None:
            # A task started in an empty context still belongs to this process.
            context.run(_process.set, process)
        process = named or process
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **more)
    if process is not None:
        process.add(task)
    return task
