"""Helpers of the LangGraph tests."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from clew.adapters.langgraph import ClewSaver


class SyncSaver(ClewSaver):
    """A saver whose async methods call the sync ones in a thread, so that a test of the async
    methods covers both.
    """

    _plain: ClewSaver | None = None

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return await self._inner(ClewSaver.put, *args, **kwargs)

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.put_writes, *args, **kwargs)

    async def aget_tuple(self, *args: Any, **kwargs: Any) -> Any:
        return await self._inner(ClewSaver.get_tuple, *args, **kwargs)

    async def alist(self, *args: Any, **kwargs: Any) -> Any:
        for each in await self._inner(lambda saver, *a, **k: list(ClewSaver.list(saver, *a, **k)), *args, **kwargs):
            yield each

    async def adelete_thread(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.delete_thread, *args, **kwargs)

    async def adelete_for_runs(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.delete_for_runs, *args, **kwargs)

    async def acopy_thread(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.copy_thread, *args, **kwargs)

    async def aprune(self, *args: Any, **kwargs: Any) -> None:
        await self._inner(ClewSaver.prune, *args, **kwargs)

    async def _inner(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        # On a plain saver, whose sync methods run ClewSaver's own async ones and not these.
        if self._plain is None:
            self._plain = ClewSaver(self.checkpointer)
        return await asyncio.to_thread(method, self._plain, *args, **kwargs)


def config(thread_id: str = "t", **more: Any) -> Any:
    """A config in the form that users of LangGraph write."""
    return {"configurable": {"thread_id": thread_id, **more}}


def chat(saver: BaseCheckpointSaver[Any], **options: Any) -> Any:
    """A one-node graph that answers each message."""

    def answer(state: MessagesState) -> dict[str, Any]:
        said = state["messages"][-1]
        return {"messages": [AIMessage(f"answer to {said.content}", id=f"answer-{len(state['messages'])}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver, **options)


def say(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=f"said-{text}")]}


def texts(state: Any) -> list[str]:
    return [message.content for message in state["messages"]]


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def asking(saver: BaseCheckpointSaver[Any]) -> Any:
    """A one-node graph that waits for an answer."""

    def ask(state: Log) -> dict[str, Any]:
        return {"log": [f"they said {interrupt({'question': 'really?'})}"]}

    builder = StateGraph(Log)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    return builder.compile(checkpointer=saver)


def _joined(old: list[Any], batches: list[list[Any]]) -> list[Any]:
    return [*(old or []), *(each for batch in batches for each in batch)]


class Grown(TypedDict):
    log: Annotated[list[Any], DeltaChannel(_joined, snapshot_frequency=5)]


def delta_graph(saver: Any) -> Any:
    """A one-node graph that answers each message, in a delta channel."""
    builder: Any = StateGraph(Grown)
    builder.add_node("node", lambda state: {"log": [AIMessage(f"answer {len(state['log'])}", id=str(uuid6()))]})
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)
