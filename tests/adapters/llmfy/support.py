"""Helpers of the llmfy tests: checkpoints of the installed generation, and flows that may crash."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

from llmfy import END, START, FlowEngine, Message, Role
from llmfy.flow_engine.checkpointer.base_checkpointer import Checkpoint, CheckpointMetadata

NEW = "node" in {each.name for each in fields(CheckpointMetadata)}
"""Whether the installed llmfy belongs to the newer generation (0.11) or the older one (0.9)."""
NODE, TIME = ("node", "created_at") if NEW else ("node_name", "timestamp")
MOMENT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def checkpoint(number: Any, session: str = "s", state: Any = None, at: datetime = MOMENT) -> Checkpoint:
    told: dict[str, Any] = {
        "checkpoint_id": f"c{number}",
        "session_id": session,
        NODE: f"node {number}",
        TIME: at,
        "step": number if isinstance(number, int) else 0,
    }
    if NEW:
        told |= {
            "run_id": "run",
            "prev_node": "__start__",
            "updated_fields": ["n"],
            "attempt": 2,
            "dispatch_id": "d",
        }
    return Checkpoint(metadata=CheckpointMetadata(**told), state={"n": number} if state is None else state)


def node_of(found: Any) -> str:
    return str(getattr(found.metadata, NODE))


def append(old: list[Any] | None, new: list[Any]) -> list[Any]:
    return (old or []) + new


class State(TypedDict):
    messages: Annotated[list[Message], append]
    visited: Annotated[list[str], append]


class Flow:
    """START, first, second, third, END: each node adds a message.

    `crash` names the node that fails. At the node `meet`, runs wait for each other.
    """

    def __init__(self, checkpointer: Any) -> None:
        self.crash: str | None = None
        self.meet: asyncio.Barrier | None = None
        self.ran: list[str] = []
        types: dict[str, Any] = {"types": [Message]} if NEW else {}
        self.engine = FlowEngine(State, checkpointer=checkpointer, **types)
        names = ["first", "second", "third"]
        for name in names:
            self.engine.add_node(name, self.node(name))
        for before, after in zip([START, *names], [*names, END], strict=True):
            self.engine.add_edge(before, after)
        self.engine.build()

    async def visited(self, session_id: str) -> list[str]:
        state = await self.engine.get_state(session_id)
        assert state is not None
        return list(state["visited"])

    def node(self, name: str) -> Any:
        async def run(state: Any) -> dict[str, Any]:
            if name == self.crash:
                raise RuntimeError(f"{name} crashed")
            if self.meet is not None and name == "first":
                await self.meet.wait()
            self.ran.append(name)
            return {"messages": [Message(role=Role.ASSISTANT, content=f"{name} says hello")], "visited": [name]}

        return run


def user(text: str) -> dict[str, Any]:
    return {"messages": [Message(role=Role.USER, content=text)]}
