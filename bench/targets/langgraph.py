"""LangGraph's own savers, plain and with DeltaChannel, opened as in its
docs, with LangChain's messages.

The savers are called as a graph calls them for one checkpoint. A real graph calls them several
times per turn: see workloads/graph.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph.message import _messages_delta_reducer as _reducer

from bench.places import File, Place
from bench.targets.protocol import State, Target

STORAGES = ("memory", "sqlite", "postgres")
_REDUCER: Any = _reducer


async def open_saver(place: Place, storage: str, stack: AsyncExitStack) -> Any:
    """Return the saver for `storage`, opened as in LangGraph's docs; `stack` closes it."""
    if storage == "memory":
        return InMemorySaver()
    if storage == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        assert isinstance(place, File)
        saver: Any = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(place.path)))
    else:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

        saver = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(place.url))
    await saver.setup()
    return saver


class Nowhere(BaseCheckpointSaver[Any]):
    """Keeps the graph's own objects of the last checkpoint. It saves
    nothing, and no saver can be faster."""

    def __init__(self) -> None:
        super().__init__()
        self._last: CheckpointTuple | None = None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._last

    async def aput(
        self, config: RunnableConfig, checkpoint: Any, metadata: CheckpointMetadata, new_versions: Any
    ) -> RunnableConfig:
        given = config["configurable"]
        named = {"thread_id": given["thread_id"], "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
        self._last = CheckpointTuple({"configurable": named}, checkpoint, metadata, pending_writes=[])
        return self._last.config

    async def aput_writes(self, config: RunnableConfig, writes: Any, task_id: str, task_path: str = "") -> None:
        pass


class LangGraph(Target):
    """Saves a checkpoint with all channels of the state."""

    name = "langgraph"
    storages = STORAGES

    async def open(self) -> None:
        self._stack = AsyncExitStack()
        storage = self.place.url.partition(":")[0].removesuffix("ql")
        self.saver = await open_saver(self.place, storage, self._stack)
        self._heads: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, Any] = {}
        self._steps: dict[str, int] = {}

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def engine(self) -> object:
        return self.saver

    def message(self, plain: dict[str, Any]) -> Any:
        kind = AIMessage if plain["role"] == "assistant" else HumanMessage
        return kind(plain["content"], id=plain["id"], additional_kwargs=plain["metadata"])

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        await self._put(thread, state, {}, list(state))

    async def _put(self, thread: str, values: State, metadata: dict[str, Any], changed: Sequence[str]) -> None:
        step = self._steps[thread] = self._steps.get(thread, -1) + 1
        version = self._versions[thread] = self.saver.get_next_version(self._versions.get(thread), None)
        versions = dict.fromkeys(changed, version)
        checkpoint = {
            "v": 4,
            "id": str(uuid6(clock_seq=step)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": dict(values),
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": list(changed),
        }
        told: Any = {"source": "loop", "step": step, "parents": {}, **metadata}
        self._heads[thread] = await self.saver.aput(self._head(thread), checkpoint, told, versions)

    def _head(self, thread: str) -> Any:
        return self._heads.get(thread) or {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}

    async def load(self, thread: str) -> Any:
        found = await self.saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        return found.checkpoint["channel_values"]

    async def list(self, thread: str, limit: int) -> int:
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        return len([each async for each in self.saver.alist(config, limit=limit)])


class LangGraphDelta(LangGraph):
    """Saves new messages as pending writes, with a snapshot every 100, as DeltaChannel does."""

    name = "langgraph delta"
    _EVERY = DeltaChannel(_REDUCER, list).snapshot_frequency

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        rest = {name: value for name, value in state.items() if name != "messages"}
        if thread not in self._heads:
            # A graph's input is a separate checkpoint.
            await self._put(thread, {}, {}, [])
        step = self._steps[thread] + 1
        await self.saver.aput_writes(self._heads[thread], [("messages", list(new))], f"task-{step}")
        if step % self._EVERY == 0:
            await self._put(thread, {**rest, "messages": _DeltaSnapshot(list(state["messages"]))}, {}, list(state))
        else:
            counters = {"counters_since_delta_snapshot": {"messages": (step % self._EVERY, step % self._EVERY)}}
            await self._put(thread, rest, counters, list(state))

    async def load(self, thread: str) -> Any:
        found = await self.saver.aget_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        values = dict(found.checkpoint["channel_values"])
        channel: Any = DeltaChannel(_REDUCER, list)
        if "messages" in values:
            return {**values, "messages": channel.from_checkpoint(values["messages"]).get()}
        history = await self.saver.aget_delta_channel_history(config=found.config, channels=["messages"])
        entry = history["messages"]
        channel = channel.from_checkpoint(entry.get("seed", _DeltaSnapshot([])))
        channel.replay_writes(entry["writes"])
        return {**values, "messages": channel.get()}


PLAIN = (LangGraph,)
DELTA = (LangGraphDelta,)
