"""Runners: run coroutines for sync callers.

A storage that never suspends runs in the calling thread (`InlineRunner`). One that waits on the
network runs on its checkpointer's home loop, an event loop in a thread of its own (`LoopRunner`).
Both work inside a running event loop, which they block, and log that once.

Work may raise KeyboardInterrupt or SystemExit (`sys.exit()` in a user's function), and asyncio
raises these out of `run_forever` too. The home loop continues, and the error goes to the caller of
that work. When the loop ends, by `end` or by a failure, all callers that still wait get an error.
So nobody waits forever.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
import threading
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from clew.answers import Answer
from clew.errors import BlockingCallError, StorageError, TransientStorageError
from clew.os_threads import reset_after_fork, start
from clew.storage.execution import blocked, leave_inline, may_block, run_inline

END_PATIENCE = 10.0
"""How many seconds the end of a loop waits for cancelled tasks."""
_ATTEMPTS = 3
"""How many loops are started for one call, if each ends before it takes the call."""

_log = logging.getLogger("clew")
R = TypeVar("R")


class Runs(Protocol):
    """Runs a coroutine for a caller that can't await: a runner, or a checkpointer with its own."""

    def run(self, work: Coroutine[Any, Any, R], name: str, /) -> R: ...


class Runner(Runs, Protocol):
    """Runs coroutines, and owns the resources for that."""

    async def aclose(self) -> None:
        """Release everything: no thread and no loop is left. Idempotent."""

    def close(self) -> None:
        """Sync twin of `aclose`."""


_FORMS = {"turn": "async with aturn()", "lease": "async with alease()", "watch": "async for … in awatch()"}
"""The async form of the methods whose result is not awaited."""


class Advice:
    """Logs once that sync calls block the caller's event loop. Not in a notebook, whose cells wait for each other."""

    def __init__(self) -> None:
        self._given = False

    def give(self, name: str) -> None:
        if not self._given and not hasattr(builtins, "__IPYTHON__"):
            self._given = True
            form = _FORMS.get(name, f"await a{name}()")
            _log.warning(
                "sync call in an event loop: %s() blocks the loop until it is done; use `%s` there", name, form
            )


class InlineRunner:
    """Runs coroutines that never suspend in the calling thread, without an event loop."""

    def __init__(self) -> None:
        self._advice = Advice()

    def run(self, work: Coroutine[Any, Any, R], name: str) -> R:
        if _get_running_loop() is not None:
            self._advice.give(name)
        return run_inline(work)

    async def aclose(self) -> None:
        """Nothing to release."""

    def close(self) -> None:
        """Nothing to release."""


class LoopRunner:
    """Runs coroutines on a home loop, whose thread starts with the first call.

    Every call gets an answer; if the loop ends, a StorageError. A forked child starts its own loop.
    """

    def __init__(self) -> None:
        self._home: HomeLoop | None = None
        self._lock = threading.Lock()
        self._advice = Advice()
        reset_after_fork(self)

    def run(self, work: Coroutine[Any, Any, R], name: str) -> R:
        loop = _get_running_loop()
        if loop is None:
            return self._run(work)
        home = self._home
        if home is not None and home.loop is loop:
            work.close()
            raise BlockingCallError(
                f"{name}() was called on the checkpointer's own event loop (in a function that you passed to it?), which "
                f"would wait for itself; use `await a{name}()` there, or return first"
            )
        self._advice.give(name)
        with blocked(loop):
            return self._run(work)

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        call = Call(work)
        try:
            self._hand_over(call)
            return call.answer.wait()
        except BaseException:
            # Ctrl-C must not leave the work running unnoticed.
            call.give_up()
            raise

    def start(
        self, work: Coroutine[Any, Any, R], ended: Callable[[BaseException | None], None] | None = None
    ) -> Answer[R]:
        """Run `work` on the home loop without waiting for it.

        `ended` is called exactly once on the loop's thread, with the error, if any. It must not
        raise.
        """
        call = Call(work)
        if ended is not None:
            answer = call.answer
            answer.then(lambda: ended(answer.error))
        try:
            self._hand_over(call)
        except BaseException:
            call.give_up()
            raise
        return call.answer

    @property
    def started(self) -> bool:
        """Whether there is a loop."""
        return self._home is not None

    async def aclose(self) -> None:
        """The same as `close`, without blocking the caller's event loop. A sync caller has none, and blocks."""
        if may_block():
            self.close()
        elif (ended := self._end()) is not None:
            await ended.arrive()

    def close(self) -> None:
        """End the loop and its thread; callers that still wait get a StorageError.

        The next call starts another loop. Does nothing for a caller on the home loop, which can't
        end before the caller does.
        """
        ended = self._end()
        if ended is not None:
            ended.wait()

    def _end(self) -> Answer[None] | None:
        home = self._home
        if home is None or _get_running_loop() is home.loop:
            return None
        # In this order: after an interrupt in between, close can be called again.
        home.end()
        with self._lock:
            if self._home is home:
                self._home = None
        return home.ended

    def reset(self) -> None:
        """Forget the loop in a forked child: its thread belongs to the parent."""
        _left_behind.append(self._home)
        self._home = None
        self._lock = threading.Lock()

    def _hand_over(self, call: Call[Any]) -> None:
        for _ in range(_ATTEMPTS):
            home = self._home or self._start_home()
            if home.take(call):
                return
            with self._lock:
                if self._home is home:
                    self._home = None
        raise TransientStorageError("the event loop of the checkpointer keeps failing; see the log")

    def _start_home(self) -> HomeLoop:
        with self._lock:
            if self._home is None:
                try:
                    # If an interrupt comes before the assignment, the loop finds that nobody has adopted it.
                    self._home = HomeLoop(self._is_mine)
                except RuntimeError as error:
                    raise TransientStorageError("the system can't start another thread; try again") from error
            return self._home

    def _is_mine(self, home: HomeLoop) -> bool:
        with self._lock:
            return self._home is home


_left_behind: list[HomeLoop | None] = []
"""Loops of the parent process. They can be neither used nor closed here."""


class Call(Generic[R]):
    """A coroutine handed to a home loop, and its answer."""

    __slots__ = ("_given_up", "_home", "_task", "_work", "answer")

    def __init__(self, work: Coroutine[Any, Any, R]) -> None:
        self.answer: Answer[R] = Answer()
        self._work = work
        self._home: HomeLoop | None = None
        self._task: asyncio.Task[R] | None = None
        self._given_up = False

    def give_up(self) -> None:
        """Stop the work, because nobody waits for it any more. Does nothing if it is done."""
        if self._home is None:
            self._work.close()
        elif not self.answer.done:
            self._given_up = True
            self._home.call_soon(self._cancel)

    def hand_to(self, home: HomeLoop) -> bool:
        """Start the work on `home`; False if that has ended."""
        self._home = home
        if home.call_soon(self._begin):
            return True
        self._home = None
        return False

    def lose(self) -> None:
        """Answer a call that the loop will never finish. Only called by the loop's thread."""
        if not self.answer.done and self._home is not None:
            self.answer.fail(self._home.lost_call_error())
        if self._task is None:
            self._work.close()

    def _begin(self) -> None:
        home = self._home
        if home is None or home.ending or self._given_up:
            self._leave()
            self.lose()
            return
        # The caller's thread may block, but this one serves everybody.
        leave_inline()
        try:
            self._task = home.loop.create_task(self._work)
        except BaseException as error:
            self._leave()
            self.answer.fail(error)
            raise
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self.answer.done:
            # The caller was interrupted during the hand-over.
            self._leave()
            self.lose()

    def _leave(self) -> None:
        if self._home is not None:
            self._home.calls.discard(self)

    def _end(self, task: asyncio.Task[R]) -> None:
        self._leave()
        if task.cancelled():
            self.lose()
        elif (error := task.exception()) is not None:
            self.answer.fail(error)
        else:
            self.answer.give(task.result())


class HomeLoop:
    """A running event loop. Its thread calls `adopted` once, and ends if no runner has adopted it."""

    def __init__(self, adopted: Callable[[HomeLoop], bool]) -> None:
        """Start the thread and wait for the loop. Raises the error if it can't be made."""
        self.calls: set[Call[Any]] = set()
        self.ending = False
        self.loop: asyncio.AbstractEventLoop
        self._failure: Exception | None = None
        self._released = False
        self.ended: Answer[None] = Answer()
        """Given when the loop is closed and every call has its answer."""
        made: Answer[asyncio.AbstractEventLoop] = Answer()
        start(partial(self._live, made, adopted), "clew-loop")
        self.loop = made.wait()

    def take(self, call: Call[Any]) -> bool:
        """Start the call; False if the loop has ended and the call was not begun."""
        # The thread closes the loop before it looks for calls: it finds this call, or the call
        # finds it closed.
        self.calls.add(call)
        if call.hand_to(self):
            return True
        self.calls.discard(call)
        return call.answer.done

    def call_soon(self, callback: Callable[[], None]) -> bool:
        """Schedule `callback` on the loop; False if the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError:
            if not self.loop.is_closed():
                raise
            return False
        return True

    def end(self) -> None:
        """Cancel all work and end the thread."""
        self._released = self.ending = True
        self.call_soon(self.loop.stop)

    def lost_call_error(self) -> StorageError:
        """The error for a call that was cancelled, or that the loop can't finish."""
        if self._released:
            return StorageError("this checkpointer was released during the call; call clew.connect() again")
        lost = TransientStorageError("the call was interrupted; it may or may not have taken effect; try again")
        lost.__cause__ = self._failure
        return lost

    def _live(self, made: Answer[asyncio.AbstractEventLoop], adopted: Callable[[HomeLoop], bool]) -> None:
        try:
            loop = asyncio.new_event_loop()
        except Exception as error:  # The starter raises it.
            made.fail(error)
            return
        self.loop = loop
        made.give(loop)
        try:
            if adopted(self):
                self._run()
        except Exception as error:
            # The selector failed: asyncio raises nothing else here. The next call gets another loop.
            _log.exception("event loop of a checkpointer failed")
            self._failure = error
        finally:
            self.ending = True
            try:
                self._close()
            finally:
                self.ended.give(None)

    def _run(self) -> None:
        while not self.ending:
            try:
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # Raised by work on the loop. Its task has the error too, for the caller that waits for it.
                continue

    def _close(self) -> None:
        try:
            if self._failure is None:
                last = self.loop.create_task(self._cancel_all())
                while not last.done():
                    try:
                        self.loop.run_until_complete(last)
                    except (KeyboardInterrupt, SystemExit):
                        continue
        finally:
            self.loop.close()
            while True:
                try:
                    call = self.calls.pop()
                except KeyError:
                    break
                call.lose()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=END_PATIENCE)
        # Storages close what belongs to a loop when its generators end, as asyncio.run does it.
        await self.loop.shutdown_asyncgens()
