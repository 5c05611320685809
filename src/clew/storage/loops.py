"""What belongs to an event loop: connections, and whatever waits on them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from clew.errors import StorageError

T = TypeVar("T")
_BLOCKED_SECONDS = 10.0
"""How long closing waits for another thread's loop to begin: it may be blocked, and wait for whoever closes."""
_LOOK_SECONDS = 0.1
"""How often closing looks whether that loop still runs."""
_left_behind: list[Any] = []
"""What is of a loop that ended without a word, or of the parent of this process: it can neither be used nor closed here."""


def forget_closed(by_loop: dict[asyncio.AbstractEventLoop, Any]) -> None:
    """Take out what is of a loop that was closed, and so can't be used any more."""
    for loop in [loop for loop in list(by_loop) if loop.is_closed()]:
        by_loop.pop(loop, None)


class PerLoop(Generic[T]):
    """One `T` for each event loop that asks for it: opened when it first does, closed with the loop or with `close`.

    `asyncio.run` ends a loop's asynchronous generators before it closes the loop: a generator of ours is how we hear of it.
    A child process (`os.fork`) begins anew, and leaves its parent's alone.
    """

    def __init__(
        self,
        name: str,
        open: Callable[[], Awaitable[T]],
        close: Callable[[T], Awaitable[None]],
        drop: Callable[[T], None] | None = None,
    ) -> None:
        """`drop`, if it can be done, lets go of one without its loop, which ended without a word."""
        self._name = name
        self._open_one, self._close_one, self._drop_one = open, close, drop
        self._homes: dict[asyncio.AbstractEventLoop, _Home[T]] = {}
        self._closed = False
        _everywhere.add(self)

    async def get(self) -> T:
        """The running loop's own. Raises StorageError once closed, and whatever opening it raises."""
        home = self._homes.get(asyncio.get_running_loop())
        if home is None:
            home = await self._settle()
        opened = home.opened()
        if opened is not None:
            return opened
        try:
            # Whoever gives up waiting does not take it from the others.
            return await asyncio.shield(home.opening)
        except BaseException:
            if home.opening.done():
                # The next to ask tries anew.
                await self._end(asyncio.get_running_loop(), home)
            raise

    async def _settle(self) -> _Home[T]:
        if self._closed:
            raise StorageError(f"the storage of {self._name} was closed; make a new one")
        for loop in [loop for loop in self._homes if loop.is_closed()]:
            self._drop(loop)
        loop = asyncio.get_running_loop()
        home = self._homes[loop] = _Home(asyncio.ensure_future(self._open_one()))
        home.until_the_end = self._until_the_end(loop, home)
        await home.until_the_end.__anext__()
        return home

    async def _until_the_end(self, loop: asyncio.AbstractEventLoop, home: _Home[T]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._homes.get(loop) is home:
                del self._homes[loop]
            await self._leave(home)

    async def _leave(self, home: _Home[T]) -> None:
        try:
            opened = await home.opening
        except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            # It never opened; whoever asked for it was told.
            return
        await self._close_one(opened)

    async def _end(self, loop: asyncio.AbstractEventLoop, home: _Home[T]) -> None:
        if self._homes.get(loop) is home:
            del self._homes[loop]
        if home.until_the_end is not None:
            await home.until_the_end.aclose()

    async def close(self) -> None:
        """Close what all loops have. Closing twice is fine; in a child process, the parent's is not touched."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, home in list(self._homes.items()):
            if loop is here:
                await self._end(loop, home)
            elif not loop.is_running() or not await self._end_elsewhere(loop, home):
                self._drop(loop)

    async def _end_elsewhere(self, loop: asyncio.AbstractEventLoop, home: _Home[T]) -> bool:
        """Whether another thread's loop closed its own. False if that loop stops first, or is blocked for too long."""
        begun = False

        async def end() -> None:
            nonlocal begun
            begun = True
            await self._end(loop, home)

        work = end()
        try:
            ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        except RuntimeError:
            # It was closed in this moment.
            work.close()
            return False
        waited = 0.0
        while not ended.done() and loop.is_running() and (begun or waited < _BLOCKED_SECONDS):
            await asyncio.wait([ended], timeout=_LOOK_SECONDS)
            waited += _LOOK_SECONDS
        if not ended.done() or ended.cancelled():
            ended.cancel()
            return False
        ended.result()
        return True

    def begin_anew(self) -> None:
        """Leave what is there alone: this is a child process now, and it is the parent's."""
        _left_behind.append(self._homes)
        self._homes = {}

    def _drop(self, loop: asyncio.AbstractEventLoop) -> None:
        home = self._homes.pop(loop, None)
        if home is None:
            # It ended while it was given up.
            return
        _left_behind.append(home)
        if self._drop_one is not None and (opened := home.opened()) is not None:
            self._drop_one(opened)


_everywhere: WeakSet[PerLoop[Any]] = WeakSet()


def _after_fork() -> None:
    for each in _everywhere:
        each.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Home(Generic[T]):
    """What one loop has."""

    def __init__(self, opening: asyncio.Future[T]) -> None:
        self.opening = opening
        self.until_the_end: AsyncGenerator[None, None] | None = None

    def opened(self) -> T | None:
        """What was opened, if that is done and went well."""
        opening = self.opening
        return opening.result() if opening.done() and not opening.cancelled() and not opening.exception() else None
