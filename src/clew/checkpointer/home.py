"""The home loop of a checkpointer: an event loop in a thread of its own, which answers every call that it takes.

Work may raise KeyboardInterrupt or SystemExit (`sys.exit()` in a function that the user gave). asyncio raises these out
of `run_forever`, too. The loop goes on, and the error goes to the caller of that work. When the loop ends, by `end` or by
a failure, each caller that still waits gets an error. So nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from clew.checkpointer.answers import Answer
from clew.errors import StorageError, TransientStorageError
from clew.storage.offload import inline

END_PATIENCE = 10.0
"""Seconds that the end of a loop waits for tasks that were cancelled."""

_log = logging.getLogger("clew")
R = TypeVar("R")


class Call(Generic[R]):
    """One coroutine that was handed over, and its answer."""

    __slots__ = ("_given_up", "_home", "_task", "_work", "answer")

    def __init__(self, work: Coroutine[Any, Any, R]) -> None:
        self.answer: Answer[R] = Answer()
        self._work = work
        self._home: HomeLoop | None = None
        self._task: asyncio.Task[R] | None = None
        self._given_up = False

    def give_up(self) -> None:
        """Stop the work: nobody waits for it any more. Does nothing if it is done."""
        if self._home is None:
            self._work.close()
        elif not self.answer.done:
            self._given_up = True
            self._home.call_soon(self._cancel)

    def hand_to(self, home: HomeLoop) -> bool:
        """Have the work done on `home`; False if that has ended."""
        self._home = home
        if home.call_soon(self._begin):
            return True
        self._home = None
        return False

    def lose(self) -> None:
        """Give the answer of a call that the loop will never finish. Called by the loop's thread only."""
        if not self.answer.done and self._home is not None:
            self.answer.fail(self._home.farewell())
        if self._task is None:
            self._work.close()

    def _begin(self) -> None:
        home = self._home
        if home is None or home.ending or self._given_up:
            self._leave()
            self.lose()
            return
        if inline.get():
            # The caller's thread may be blocked. This one serves everybody.
            inline.set(False)
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
            # Its caller was interrupted while it was handed over.
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
    """A running event loop. `adopted` tells its thread, once, whether anybody knows of it; if not, it ends at once."""

    def __init__(self, adopted: Callable[[HomeLoop], bool]) -> None:
        """Start the thread and wait until the loop is there. Raises what kept it from being made."""
        self.calls: set[Call[Any]] = set()
        self.ending = False
        self.loop: asyncio.AbstractEventLoop
        self._failure: Exception | None = None
        self._released = False
        made: Answer[asyncio.AbstractEventLoop] = Answer()
        threading.Thread(target=self._live, args=(made, adopted), name="clew-loop", daemon=True).start()
        self.loop = made.wait()

    def take(self, call: Call[Any]) -> bool:
        """Do the call's work; False if the loop has ended and the call was not begun."""
        # The thread closes the loop first and looks for calls then: it finds this one, or this one finds it closed.
        self.calls.add(call)
        if call.hand_to(self):
            return True
        self.calls.discard(call)
        return call.answer.done

    def call_soon(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called on the loop; False if the loop was closed."""
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError:
            if not self.loop.is_closed():
                raise
            return False
        return True

    def end(self) -> None:
        """Cancel everything that goes on, and end the thread."""
        self._released = self.ending = True
        self.call_soon(self.loop.stop)

    def farewell(self) -> StorageError:
        """The error for a call whose work was cancelled, or that the loop can't finish."""
        if self._released:
            return StorageError("the checkpointer was released while the call was under way; make a new one")
        message = "the call was interrupted; what it was doing may have been done; try again"
        lost = TransientStorageError(message)
        lost.__cause__ = self._failure
        return lost

    def _live(self, made: Answer[asyncio.AbstractEventLoop], adopted: Callable[[HomeLoop], bool]) -> None:
        try:
            loop = asyncio.new_event_loop()
        except Exception as error:  # For whoever asked for it.
            made.fail(error)
            return
        self.loop = loop
        made.give(loop)
        try:
            if adopted(self):
                self._run()
        except Exception as error:
            # The selector failed: asyncio hands on nothing else. The next call gets another loop.
            _log.exception("event loop of a checkpointer failed")
            self._failure = error
        finally:
            self.ending = True
            self._close()

    def _run(self) -> None:
        while not self.ending:
            try:
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # Raised by work on the loop. Its task has it, too, and hands it to whoever waits for it.
                continue

    def _close(self) -> None:
        try:
            if self._failure is None:
                last = self.loop.create_task(self._tidy())
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

    async def _tidy(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=END_PATIENCE)
        # Storages close what belongs to a loop when its generators end, as asyncio.run does it.
        await self.loop.shutdown_asyncgens()
