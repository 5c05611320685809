"""Helpers of the Agentflow tests: graphs, and the names that both distributions share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from clew.adapters.agentflow import IsolatedStateGraph
from clew.adapters.agentflow.framework import AgentState, Message, StateGraph, ToolNode

NAME = StateGraph.__module__.partition(".")[0]
"""The package name of the installed distribution."""

_utils = import_module(f"{NAME}.utils")
START, END = _utils.START, _utils.END
interrupt = import_module(f"{NAME}.utils.interrupt").interrupt
AgentflowCheckpointer = import_module(f"{NAME}.storage.checkpointer").BaseCheckpointer
InMemoryCheckpointer = import_module(f"{NAME}.storage.checkpointer").InMemoryCheckpointer
exceptions = import_module(f"{NAME}.core.exceptions")
NodeError = import_module(f"{NAME}.core.exceptions").NodeError
ToolResult = import_module(f"{NAME}.core.state").ToolResult


def said(text: str, role: str = "user", **fields: Any) -> Message:
    message = Message.text_message(text, role=role)
    return message.model_copy(update=fields)


def calls(*names: str, message_id: str = "asks") -> Message:
    """A message with tool calls, like a model's."""
    tool_calls = [{"id": f"call-{name}", "function": {"name": name, "arguments": "{}"}} for name in names]
    return Message(message_id=message_id, role="assistant", content=[], tools_calls=tool_calls)


def line(*functions: Any, kind: Any = IsolatedStateGraph, state: Any = None, **options: Any) -> Any:
    """A graph whose nodes run in sequence, each named after its function."""
    graph = kind(state, **options)
    names = []
    for function in functions:
        name = getattr(function, "__name__", "tools")
        graph.add_node(name, function)
        names.append(name)
    for one, next_one in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, next_one)
    return graph


def talking(*texts: str, seen: list[str] | None = None) -> list[Any]:
    """Node functions that each add one text and log that they ran."""

    def node(text: str) -> Any:
        async def say(state: AgentState, config: dict[str, Any]) -> Message:
            if seen is not None:
                seen.append(text)
            return said(text, "assistant", message_id=f"{text}-{len(state.context)}")

        say.__name__ = text
        return say

    return [node(text) for text in texts]


def agent(*tools: Any, kind: Any = IsolatedStateGraph, asks: Message | None = None, **options: Any) -> Any:
    """A graph with a scripted model that calls all `tools` once and then reports their results."""
    named = {tool.__name__ for tool in tools}

    async def model(state: AgentState, config: dict[str, Any]) -> Message:
        last = state.context[-1]
        if last.role == "user":
            return asks or calls(*sorted(named))
        results = [each.text() for each in state.context if each.role == "tool"]
        return said(" and ".join(results), "assistant", message_id="answers")

    def route(state: AgentState) -> str:
        return "tools" if state.context[-1].tools_calls else END

    graph = kind(**options)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph


def hello(text: str = "hello") -> Mapping[str, Any]:
    return {"messages": [said(text)]}


def texts(messages: Any) -> list[str]:
    return [each.text() for each in messages]
