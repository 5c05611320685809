"""Per-event-loop resources: connections belong to one loop, and are closed with it."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from clew.errors import StorageError
from clew.storage.execution import is_blocked

T = TypeVar("T")
_BLOCKED_SECONDS = 10.0
"""How long closing waits for another thread's loop, which may be blocked on the caller."""
_LOOK_SECONDS = 0.1
"""How often closing checks whether that loop still runs."""
_left_behind: list[Any] = []
"""Resources of a loop that ended without notice, or of the parent process: unusable here."""


def forget_closed(by_loop: dict[asyncio.AbstractEventLoop, Any]) -> None:
    """Remove the entries of closed loops from `by_loop`."""
    for loop in [loop for loop in list(by_loop) if loop.is_closed()]:
        by_loop.pop(loop, None)


class PerLoop(Generic[T]):
    """One `T` per event loop: opened on first use, closed with the loop or by `close`.

    `asyncio.run` finishes a loop's asynchronous generators before it closes the loop. Each home has
    such a generator, and so learns that its loop ends. A child process (`os.fork`) starts without
    its parent's resources.
    """

    def __init__(
        self,
        name: str,
        open: Callable[[], Awaitable[T]],
        close: Callable[[T], Awaitable[None]],
        drop: Callable[[T], None] | None = None,
    ) -> None:
        """`drop`, if given, discards a `T` without its loop, which ended without notice."""
        self._name = name
        self._open_one, self._close_one, self._drop_one = open, close, drop
        self._homes: dict[asyncio.AbstractEventLoop, _Home[T]] = {}
        self._closed = False
        _everywhere.add(self)

    def opened(self) -> T | None:
        """The running loop's `T`, if it is open."""
        home = self._homes.get(asyncio.get_running_loop())
        return home.opened() if home is not None else None

    async def get(self) -> T:
        """Return the running loop's `T`, opening it if needed. Raises StorageError once closed."""
        home = self._homes.get(asyncio.get_running_loop())
        if home is None:
            home = await self._settle()
        opened = home.opened()
        # A caller that is cancelled must not cancel the opening for the others.
        return opened if opened is not None else await asyncio.shield(home.opening)

    async def _settle(self) -> _Home[T]:
        if self._closed:
            raise StorageError(f"the storage of {self._name} was closed; make a new one")
        for loop in [loop for loop in self._homes if loop.is_closed()]:
            self._drop(loop)
        loop = asyncio.get_running_loop()
        home = _Home[T](loop)
        # Connections keep the context they are opened in, and must not keep this caller's.
        home.opening = loop.create_task(self._open(home), context=contextvars.Context())
        home.until_the_end = self._until_the_end(home)
        # This does not suspend: opening has not started, and nobody else has asked.
        await home.until_the_end.__anext__()
        self._homes[loop] = home
        return home

    async def _open(self, home: _Home[T]) -> T:
        try:
            return await self._open_one()
        except BaseException:
            # The next caller tries again.
            if self._forget(home):
                await home.until_the_end.aclose()
            raise

    async def _until_the_end(self, home: _Home[T]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._forget(home):
                await self._leave(home)

    def _forget(self, home: _Home[T]) -> bool:
        """Remove `home`. Returns whether it was there: only then does the caller close it."""
        if self._homes.get(home.loop) is not home:
            return False
        del self._homes[home.loop]
        return True

    async def _leave(self, home: _Home[T]) -> None:
        try:
            opened = await home.opening
        except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            # It never opened, and its callers got the error.
            return
        await self._close_one(opened)

    async def close(self) -> None:
        """Close the resources of all loops, but not a parent process's. Idempotent."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, home in list(self._homes.items()):
            if loop is here:
                await home.until_the_end.aclose()
            elif not loop.is_running() or not await self._end_elsewhere(loop, home):
                self._drop(loop)

    async def _end_elsewhere(self, loop: asyncio.AbstractEventLoop, home: _Home[T]) -> bool:
        """Have another thread's loop close its `T`. False if it stops or stays blocked."""
        begun = False

        async def end() -> None:
            nonlocal begun
            begun = True
            await home.until_the_end.aclose()

        work = end()
        try:
            ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        except RuntimeError:
            # The loop was closed just now.
            work.close()
            return False
        if is_blocked(loop):
            # It waits for this very call, and closes its `T` as soon as it continues.
            return True
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
        """Start without resources, in a child process: the existing ones are its parent's."""
        _left_behind.append(self._homes)
        self._homes = {}

    def _drop(self, loop: asyncio.AbstractEventLoop) -> None:
        home = self._homes.pop(loop, None)
        if home is None:
            # Its loop closed it meanwhile.
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
    """The resources of one loop."""

    opening: asyncio.Future[T]
    until_the_end: AsyncGenerator[None, None]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def opened(self) -> T | None:
        """The `T`, if opening it has succeeded."""
        opening = self.opening
        return opening.result() if opening.done() and not opening.cancelled() and not opening.exception() else None
