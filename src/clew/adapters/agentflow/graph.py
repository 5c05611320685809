"""Graphs that keep to themselves: each with its own container, so that each gets its own checkpointer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from injectq import InjectQ
from typing_extensions import TypeVar

from clew.adapters.agentflow.apart import each_within
from clew.adapters.agentflow.checkpointer import ClewCheckpointer
from clew.adapters.agentflow.framework import AgentState, CompiledGraph, StateGraph, ToolNode
from clew.adapters.injection import active, provide, resolved

StateT = TypeVar("StateT", bound=AgentState, default=AgentState)


class IsolatedStateGraph(StateGraph[StateT]):
    """A `StateGraph` with a container of its own, in which it is built and each of its runs takes place.

    Agentflow looks stores, callbacks and publishers up in the container that is active when they are needed: usually the one
    of the process, where the last compiled graph has put its own. And `Inject[…]` in a node function keeps what it found
    first. Here, graphs run in one process, one after the other or at once, each with its own, and `Inject[…]` in node
    functions and tools is looked up at every call.
    """

    def __init__(self, *args: Any, container: InjectQ | None = None, **options: Any) -> None:
        self._own = container if container is not None else InjectQ()
        with active(self._own):
            # Not container=: that would make it the active one of the whole thread, for good.
            super().__init__(*args, **options)

    def add_node(self, name_or_func: Any, func: Any = None) -> Any:
        """Add a node as `StateGraph` does."""
        with active(self._own):
            if func is None:
                return super().add_node(_looking_up(name_or_func))
            return super().add_node(name_or_func, _looking_up(func))

    def compile(self, checkpointer: Any = None, *args: Any, **options: Any) -> Any:
        """Compile as `StateGraph` does. In node functions `Inject[clew.BaseCheckpointer]` is then the store itself."""
        with active(self._own):
            if isinstance(checkpointer, ClewCheckpointer):
                provide(self._own, checkpointer.store)
            for node in self.nodes.values():
                if isinstance(node.func, ToolNode):
                    # Again, because tools may have been added to it since.
                    _looking_up(node.func)
            app = super().compile(checkpointer, *args, **options)
        # StateGraph.compile names the class that it makes.
        app.__class__ = _IsolatedCompiledGraph
        app._own = self._own
        return app


class _IsolatedCompiledGraph(CompiledGraph[StateT]):
    """A compiled graph whose runs take place in its own container."""

    _own: InjectQ

    async def ainvoke(self, *args: Any, **options: Any) -> Any:
        with active(self._own):
            return await super().ainvoke(*args, **options)

    def override_node(self, name: str, func: Any) -> Any:
        with active(self._own):
            return super().override_node(name, _looking_up(func))

    async def astop(self, *args: Any, **options: Any) -> Any:
        with active(self._own):
            return await super().astop(*args, **options)

    async def astream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async for chunk in each_within(partial(active, self._own), super().astream(*args, **options)):
            yield chunk

    async def arealtime(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        async for event in each_within(partial(active, self._own), super().arealtime(*args, **options)):
            yield event


def _looking_up(func: Any) -> Any:
    """`func` with its `Inject[…]` defaults looked up at each call; the tools of a tool node likewise."""
    if isinstance(func, ToolNode):
        tools: dict[str, Callable[..., Any]] = func._funcs
        for name, tool in tools.items():
            tools[name] = resolved(tool)
        return func
    return resolved(func) if callable(func) else func
