"""Sync twins: `put_state = blocking(aput_state)` makes a typed method that runs the async one and
waits for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from clew.checkpointer.runner import Runs

P = ParamSpec("P")
R = TypeVar("R")


class HasRunner(Protocol):
    @property
    def _runner(self) -> Runs: ...


S = TypeVar("S", bound=HasRunner)


class blocking(Generic[S, P, R]):  # noqa: N801  (reads as a decorator)
    """The sync twin of an async method, with its parameters and its result."""

    def __init__(self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> None:
        self._method_name = method.__name__
        self.__doc__ = f"Sync twin of `{method.__name__}`: {method.__doc__}"

    def __set_name__(self, owner: type, name: str) -> None:
        # `get_messages` may twin `alist_messages`, where one async name is an alias of the other.
        if not self._method_name.startswith("a"):
            raise TypeError(f"{name} must twin an a-prefixed method, not {self._method_name}")
        self._name = name

    def __call__(self, obj: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the twin on the class, as an override may do: `Base.put(self, …)`."""
        return self.__get__(obj, type(obj))(*args, **kwargs)

    @overload
    def __get__(self, obj: None, owner: type[S]) -> blocking[S, P, R]: ...
    @overload
    def __get__(self, obj: S, owner: type[S]) -> Callable[P, R]: ...
    def __get__(self, obj: S | None, owner: type[S]) -> blocking[S, P, R] | Callable[P, R]:
        if obj is None:
            return self
        # Looked up by name, so that a subclass that overrides the async method changes the twin too.
        method: Callable[P, Coroutine[Any, Any, R]] = getattr(obj, self._method_name)

        @functools.wraps(method)
        def twin(*args: P.args, **kwargs: P.kwargs) -> R:
            return obj._runner.run(method(*args, **kwargs), self._name)

        twin.__name__ = self._name
        return twin
