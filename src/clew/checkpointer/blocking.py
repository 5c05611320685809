"""Sync twins: `put_state = blocking(aput_state)` makes a typed method that runs the async one and waits for it.

Async is the only body. How a coroutine is run without an event loop depends on the storage: one that never suspends
runs right in the calling thread; one that waits on the network runs on the one home loop of its checkpointer.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from clew.checkpointer.answers import Answer
from clew.checkpointer.home import Call, HomeLoop
from clew.errors import BlockingCallError, TransientStorageError
from clew.storage.offload import run_inline

P = ParamSpec("P")
R = TypeVar("R")
_ATTEMPTS = 3
"""How many loops are started for one call, if each of them ends before it takes the call."""


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
    """Runs coroutines on one home loop, in a thread of its own that starts with the first call.

    The caller always gets an answer: if the loop ends, a StorageError. A child process (`os.fork`) starts a loop of its own.
    """

    def __init__(self) -> None:
        self._home: HomeLoop | None = None
        self._lock = threading.Lock()
        _everywhere.add(self)

    def run(self, work: Coroutine[Any, Any, R], name: str) -> R:
        if _get_running_loop() is not None:
            work.close()
            raise BlockingCallError(f"{name}() would block the running event loop; use `await a{name}()` here")
        call = Call(work)
        try:
            self._hand_over(call)
            return call.answer.wait()
        except BaseException:
            # Ctrl-C must not leave work going on unseen.
            call.give_up()
            raise

    def start(
        self, work: Coroutine[Any, Any, R], ended: Callable[[BaseException | None], None] | None = None
    ) -> Answer[R]:
        """Have `work` done on the home loop, and don't wait for it.

        `ended` is called on the loop's thread, once, whatever comes of the work: with its error, if any. It must not raise.
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

    def is_home(self) -> bool:
        """Whether the caller runs on the home loop."""
        return self._home is not None and _get_running_loop() is self._home.loop

    def close(self) -> None:
        """End the loop; callers that still wait get a StorageError. The next call starts another loop."""
        with self._lock:
            home, self._home = self._home, None
        if home is not None:
            home.end()

    def begin_anew(self) -> None:
        """Leave the loop alone: this is a child process now, and its thread is the parent's."""
        _left_behind.append(self._home)
        self._home = None
        self._lock = threading.Lock()

    def _hand_over(self, call: Call[Any]) -> None:
        for _ in range(_ATTEMPTS):
            home = self._home or self._settle()
            if home.take(call):
                return
            with self._lock:
                if self._home is home:
                    self._home = None
        raise TransientStorageError("the event loop of the checkpointer keeps failing; the log says why")

    def _settle(self) -> HomeLoop:
        with self._lock:
            if self._home is None:
                # Whoever is interrupted before the next line ends has a loop that nobody adopts.
                self._home = HomeLoop(self._is_mine)
            return self._home

    def _is_mine(self, home: HomeLoop) -> bool:
        with self._lock:
            return self._home is home


_everywhere: weakref.WeakSet[LoopRunner] = weakref.WeakSet()
_left_behind: list[HomeLoop | None] = []
"""Loops of the parent process: they can neither be used nor closed here."""


def _after_fork() -> None:
    for each in list(_everywhere):
        each.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
