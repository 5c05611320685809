"""Dependency injection of checkpointers, with injectq (`pip install 'clew[injection]'`).

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
    """Bind `Inject[clew.BaseCheckpointer]` to `checkpointer` in `container`.

    The checkpointer's own class is bound as well. A checkpointer that was provided there before is
    replaced. Other containers keep theirs.
    """
    if not isinstance(checkpointer, BaseCheckpointer):
        raise ConfigError(
            f"provide takes a checkpointer such as clew.connect() gives, not {type(checkpointer).__name__}"
        )
    for cls in type(checkpointer).__mro__:
        if issubclass(cls, BaseCheckpointer):
            # A factory: injectq would cache an instance, and ignore a later one.
            container.bind_factory(cls, lambda: checkpointer)


@contextmanager
def active(container: InjectQ) -> Iterator[None]:
    """Make `container` active in this task or thread, and in the tasks that it starts.

    injectq's own `container.context()` sets it for the whole thread. There, concurrent tasks see
    each other's container, and a container may stay active after its block ends.
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
            # The coroutine is closed in another context than the one that it ran in, which is gone.
            pass


def resolved(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with its `Inject[…]` defaults looked up at every call.

    A bare default keeps the first object that it found, for the whole process. Unlike injectq's
    `@inject`, this does not wrap the function's exceptions. A call raises ConfigError if no
    checkpointer was provided. A function without such defaults is returned unchanged.
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
    # Not isinstance(): for that, an Inject default would look up its service.
    services = {name: each.default.service_type for name, each in parameters.items() if type(each.default) is Inject}
    if not services:
        return function

    def found(container: InjectQ, service: Any) -> Any:
        try:
            return container.get(service)
        except InjectQError as error:
            if isinstance(service, type) and issubclass(service, BaseCheckpointer) and service not in container:
                raise ConfigError(
                    f"the active container has no {service.__name__}; provide one: "
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
