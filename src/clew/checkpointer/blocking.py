"""Sync twins: `put_state = blocking(aput_state)` makes a typed method that runs the async one and waits for it.

Async is the only body. How a coroutine is run without an event loop depends on the storage: one that never suspends
runs right in the calling thread; one that waits on the network runs on the one home loop of its checkpointer.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from clew.errors import BlockingCallError
from clew.storage.offload import run_inline

P = ParamSpec("P")
R = TypeVar("R")


class Runner(Protocol):
    """Runs a coroutine for a caller that can't await."""

    def run(self, work: Coroutine[Any, Any, R], name: str) -> R: ...

    def close(self) -> None: ...


class InlineRunner:
    """Runs coroutines that never suspend, in the calling thread: no loop, no hop."""

    def run(self, work: Coroutine[Any, Any, R], name: str) -> R:
        return run_inline(work)

    def close(self) -> None:
        """Nothing to let go of."""


class LoopRunner:
    """Runs coroutines on one home loop, in a thread of its own that starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, R], name: str) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise BlockingCallError(f"{name}() would block the running event loop; use `await a{name}()` here")
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C must not leave work going on unseen.
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Have `work` done on the home loop, and don't wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._home())

    def is_home(self) -> bool:
        """Whether the caller runs on the home loop."""
        return self._loop is not None and _get_running_loop() is self._loop

    def close(self) -> None:
        with self._lock:
            if self._loop is not None and self._pid == os.getpid():
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _home(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=_serve, args=(self._loop,), name="clew-loop", daemon=True).start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        # Storages close what belongs to a loop when its generators end, as asyncio.run does it.
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class HasRunner(Protocol):
    @property
    def _runner(self) -> Runner: ...


S = TypeVar("S", bound=HasRunner)


class blocking(Generic[S, P, R]):  # noqa: N801  (reads as a decorator)
    """The sync twin of an async method, with its parameters and its result."""

    def __init__(self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> None:
        self._method_name = method.__name__
        self.__doc__ = f"Sync twin of `{method.__name__}`: {method.__doc__}"

    def __set_name__(self, owner: type, name: str) -> None:
        # `get_messages` may twin `alist_messages` where one async name is another's alias.
        if not self._method_name.startswith("a"):
            raise TypeError(f"{name} must twin an a-prefixed method, not {self._method_name}")
        self._name = name

    @overload
    def __get__(self, obj: None, owner: type[S]) -> blocking[S, P, R]: ...
    @overload
    def __get__(self, obj: S, owner: type[S]) -> Callable[P, R]: ...
    def __get__(self, obj: S | None, owner: type[S]) -> blocking[S, P, R] | Callable[P, R]:
        if obj is None:
            return self
        # By name, so that a subclass that overrides the async method changes the twin too.
        method: Callable[P, Coroutine[Any, Any, R]] = getattr(obj, self._method_name)

        @functools.wraps(method)
        def twin(*args: P.args, **kwargs: P.kwargs) -> R:
            return obj._runner.run(method(*args, **kwargs), self._name)

        twin.__name__ = self._name
        return twin
