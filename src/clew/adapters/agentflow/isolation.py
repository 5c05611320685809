"""Isolation of plain `StateGraph`s: each run finds the checkpointer of its own graph.

Agentflow's runs look up their checkpointer in a container that all plain graphs share, where the
last compiled graph has put its own. So each run sets a context variable (`CompiledGraph` is wrapped
once, when the first graph with a `ClewCheckpointer` is compiled), and a container with two
checkpointers reads that variable. A container with a single checkpointer is not changed.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakKeyDictionary

from injectq import InjectQ

from clew.adapters.agentflow.framework import BaseCheckpointer, CompiledGraph

_MARK: Final = "_clew_kept_apart"
_running: ContextVar[Any] = ContextVar("clew_agentflow_running", default=None)
"""The checkpointer of the graph that is running in this task."""


class _Latest:
    """The checkpointer that a container returns outside of runs: that of the graph compiled last."""

    def __init__(self, checkpointer: Any) -> None:
        self.checkpointer = checkpointer

    def found(self) -> Any:
        running = _running.get()
        return self.checkpointer if running is None else running


_asking: WeakKeyDictionary[InjectQ, _Latest] = WeakKeyDictionary()
"""The containers that read the context variable."""


def keep_apart(checkpointer: Any) -> None:
    """Make the active container return each run's own checkpointer, if the container already has another one.

    Call it when a graph is compiled with `checkpointer`.
    """
    _wrap_runs()
    container = InjectQ.get_instance()
    if container in _asking:
        _asking[container].checkpointer = checkpointer
    elif container.has(BaseCheckpointer) and container.try_get(BaseCheckpointer) is not checkpointer:
        _ask(container, checkpointer)


async def each_within(enter: Callable[[], AbstractContextManager[None]], items: Any) -> AsyncIterator[Any]:
    """Yield the items of an async generator, each computed within `enter()`.

    A context that stayed open over a `yield` would leak into the consumer, and into other streams
    that it reads in turns.
    """
    try:
        while True:
            with enter():
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            yield item
    finally:
        with enter():
            await items.aclose()


def _ask(container: InjectQ, latest: Any) -> None:
    _asking[container] = _Latest(latest)
    container.bind_factory(BaseCheckpointer, _asking[container].found)


@contextmanager
def _run_of(app: Any) -> Iterator[None]:
    """Let code in the block find the checkpointer that `app` was compiled with."""
    own = app._checkpointer
    container = InjectQ.get_instance()
    if _is_kept_apart(own) and container not in _asking and container.has(BaseCheckpointer):
        present = container.try_get(BaseCheckpointer)
        if present is not own:
            _ask(container, present)
    token = _running.set(own)
    try:
        yield
    finally:
        try:
            _running.reset(token)
        except ValueError:
            # The coroutine is closed in another context than the one that it ran in, which is gone.
            pass


def _is_kept_apart(checkpointer: Any) -> bool:
    return bool(getattr(checkpointer, "keeps_apart", False))


def _wrap_runs() -> None:
    if _MARK in vars(CompiledGraph):
        return
    for name in ("ainvoke", "astop"):
        setattr(CompiledGraph, name, _as_run(getattr(CompiledGraph, name)))
    for name in ("astream", "arealtime"):
        setattr(CompiledGraph, name, _as_stream(getattr(CompiledGraph, name)))
    setattr(CompiledGraph, _MARK, True)


def _as_run(method: Any) -> Any:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **options: Any) -> Any:
        with _run_of(self):
            return await method(self, *args, **options)

    return call


def _as_stream(method: Any) -> Any:
    @functools.wraps(method)
    async def each(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        items = each_within(functools.partial(_run_of, self), method(self, *args, **options))
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()  # type: ignore[attr-defined]

    return each
