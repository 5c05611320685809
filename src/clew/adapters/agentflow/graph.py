"""Isolated graphs: each has its own container, and so its own checkpointer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from injectq import InjectQ
from typing_extensions import TypeVar

from clew.adapters.agentflow.checkpointer import ClewCheckpointer
from clew.adapters.agentflow.framework import AgentState, CompiledGraph, StateGraph, ToolNode
from clew.adapters.agentflow.isolation import each_within
from clew.adapters.injection import active, provide, resolved

StateT = TypeVar("StateT", bound=AgentState, default=AgentState)


class IsolatedStateGraph(StateGraph[StateT]):
    """A `StateGraph` that is built and run in its own container.

    Agentflow looks up stores, callbacks and publishers in the active container. Usually that is the
    container of the process, where the last compiled graph has put its own. And `Inject[…]` in a
    node function keeps the first object that it found. Isolated graphs can run concurrently in one
    process, and `Inject[…]` in node functions and tools is looked up at every call.
    """

    def __init__(self, *args: Any, container: InjectQ | None = None, **options: Any) -> None:
        self._own = container if container is not None else InjectQ()
        with active(self._own):
            # The argument container= would make the container active for the whole OS thread, permanently.
            super().__init__(*args, **options)

    def add_node(self, name_or_func: Any, func: Any = None) -> Any:
        """Add a node like `StateGraph`."""
        with active(self._own):
            if func is None:
                return super().add_node(_looking_up(name_or_func))
            return super().add_node(name_or_func, _looking_up(func))

    def compile(self, checkpointer: Any = None, *args: Any, **options: Any) -> Any:
        """Compile like `StateGraph`.

        In node functions, `Inject[clew.BaseCheckpointer]` is the Clew store.
        """
        with active(self._own):
            if isinstance(checkpointer, ClewCheckpointer):
                provide(self._own, checkpointer.store)
            for node in self.nodes.values():
                if isinstance(node.func, ToolNode):
                    # Once more, because tools may have been added since add_node.
                    _looking_up(node.func)
            app = super().compile(checkpointer, *args, **options)
        # StateGraph.compile has no parameter for the class of the result.
        app.__class__ = _IsolatedCompiledGraph
        app._own = self._own
        return app


class _IsolatedCompiledGraph(CompiledGraph[StateT]):
    """A compiled graph that runs in its own container."""

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
    """Return `func`, or a tool node, with `Inject[…]` defaults looked up at every call."""
    if isinstance(func, ToolNode):
        tools: dict[str, Callable[..., Any]] = func._funcs
        for name, tool in tools.items():
            tools[name] = resolved(tool)
        return func
    return resolved(func) if callable(func) else func
