"""Sync twins: `put_state = blocking(aput_state)` makes a typed method that runs the async one and
waits for it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from clew.checkpointer.runner import Runs

P = ParamSpec("P")
R = TypeVar("R")


class HasRunner(Protocol):
    @property
    def _runner(self) -> Runs: ...


S = TypeVar("S", bound=HasRunner)


if TYPE_CHECKING:

    class blocking(Generic[S, P, R]):  # noqa: N801  (reads as a decorator)
        """The sync twin of an async method, with its parameters and its result."""

        def __init__(
            self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], name: str | None = None
        ) -> None: ...
        def __call__(self, obj: S, /, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __get__(self, obj: None, owner: type[S]) -> blocking[S, P, R]: ...
        @overload
        def __get__(self, obj: S, owner: type[S]) -> Callable[P, R]: ...
        def __get__(self, obj: S | None, owner: type[S]) -> blocking[S, P, R] | Callable[P, R]: ...

else:

    def blocking(method, name=None):
        """Return the sync twin of an async method: a function with its signature and its docstring.

        `name` is the twin's, if that is not the method's without its `a`.
        """
        async_name = method.__name__
        if not async_name.startswith("a"):
            raise TypeError(f"a sync method must twin an a-prefixed method, not {async_name}")
        name = name or async_name[1:]

        @functools.wraps(method)
        def twin(self, *args, **kwargs):
            # Looked up by name, so that a subclass that overrides the async method changes the twin too.
            called = getattr(self, async_name)
            try:
                work = called(*args, **kwargs)
            except TypeError as error:
                # The call of a coroutine function only binds its arguments. The caller knows the twin's name.
                raise TypeError(str(error).replace(f"{async_name}(", f"{name}(")) from None
            return self._runner.run(work, name)

        twin.__name__ = twin.__qualname__ = name
        twin.__doc__ = f"{inspect.cleandoc(method.__doc__ or '')}\n\nSync twin of `{async_name}`."
        return twin


def show_public_names(cls: type) -> None:
    """Have TypeErrors about arguments name the public method, not the class that groups it."""
    for group in cls.__mro__:
        for name, member in vars(group).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                member.__qualname__ = member.__name__
