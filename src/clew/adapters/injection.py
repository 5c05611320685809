"""Checkpointers by dependency injection, with injectq (`pip install 'clew[injection]'`).

provide(container, checkpointer)

@resolved
async def remember(text: str, memory: clew.BaseCheckpointer = Inject[clew.BaseCheckpointer]) -> None: ...

with active(container):
    await remember("hello")
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from injectq import InjectQ

P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "_clew_resolved"


def provide(container: InjectQ, checkpointer: BaseCheckpointer) -> None:
    """Let `Inject[clew.BaseCheckpointer]`, or the checkpointer's own class, mean `checkpointer` in `container`.

    Another checkpointer that was provided there before is replaced; other containers keep theirs.
    """
    if not isinstance(checkpointer, BaseCheckpointer):
        raise ConfigError(
            f"provide takes a checkpointer such as clew.connect() gives, not {type(checkpointer).__name__}"
        )
    for cls in type(checkpointer).__mro__:
        if issubclass(cls, BaseCheckpointer):
            # Not an instance: injectq goes on giving the first one that it gave.
            container.bind_factory(cls, lambda: checkpointer)


@contextmanager
def active(container: InjectQ) -> Iterator[None]:
    """Make `container` the active one for this task or thread, and for the tasks that it starts.

    injectq's own `container.context()` also sets it for the whole thread. Tasks that overlap see each other's there, and
    leave it behind: afterwards, code that made no container active finds that one.
    """
    from injectq import ContainerContext

    variable = getattr(ContainerContext, "_context_var", None)
    if variable is None:
        with container.context():
            yield
        return
    token = variable.set(container)
    try:
        yield
    finally:
        try:
            variable.reset(token)
        except ValueError:
            # The coroutine is closed from another context: the one that it ran in is gone.
            pass


def resolved(function: Callable[P, R]) -> Callable[P, R]:
    """`function` with each `Inject[…]` default looked up at every call, in the container that is active then.

    The bare default keeps the first object that it ever found, for the whole process. Unlike injectq's `@inject`, what
    the function raises is raised as it is. Raises ConfigError if no checkpointer was provided there. A function without
    such defaults is returned unchanged.
    """
    try:
        from injectq import Inject, InjectQ, InjectQError
    except ImportError as error:
        raise MissingExtraError("injection needs injectq: pip install 'clew[injection]'", extra="injection") from error

    if getattr(function, _MARK, False):
        return function
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function
    # Not isinstance: the default poses as what it stands for, and looks that up to do so.
    services = {name: each.default.service_type for name, each in parameters.items() if type(each.default) is Inject}
    if not services:
        return function

    def found(container: InjectQ, service: Any) -> Any:
        try:
            return container.get(service)
        except InjectQError as error:
            if isinstance(service, type) and issubclass(service, BaseCheckpointer) and service not in container:
                raise ConfigError(
                    f"the active container has no {service.__name__}; give it one: "
                    f"clew.adapters.injection.provide(container, clew.connect(…))"
                ) from error
            raise

    def filled(args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
        container = InjectQ.get_instance()
        missing = services.keys() - dict(zip(parameters, args, strict=False)).keys() - given.keys()
        return {**given, **{name: found(container, services[name]) for name in missing}}

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **given: Any) -> Any:
            return await function(*args, **filled(args, given))

        setattr(call_async, _MARK, True)
        return call_async  # type: ignore[return-value]

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def each(*args: Any, **given: Any) -> Any:
            async for item in function(*args, **filled(args, given)):
                yield item

        setattr(each, _MARK, True)
        return each

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        return function(*args, **filled(args, given))

    setattr(call, _MARK, True)
    return call
