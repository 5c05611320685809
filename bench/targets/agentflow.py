"""Agentflow's checkpointers, with its own messages and state.

Its PostgreSQL checkpointer keeps the last 20 states of a thread by default, and always needs a Redis
client. Without Redis, only the durable methods are called; with Redis, the cache is used as a graph
does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Self

from agentflow.core.state import AgentState, Message, TextBlock
from agentflow.storage.checkpointer import PgCheckpointer, SqliteCheckpointer

from bench.places import File, Place
from bench.targets.protocol import State, Target

logging.getLogger("agentflow").setLevel(logging.ERROR)


@cache
def _state_class(fields: tuple[str, ...]) -> type[AgentState]:
    """AgentState with user-defined fields."""
    if not fields:
        return AgentState
    made: type[AgentState] = type(
        "BenchState", (AgentState,), {"__annotations__": dict.fromkeys(fields, Any), **dict.fromkeys(fields)}
    )
    return made


class Agentflow(Target):
    """Saves the whole state as JSON."""

    name = "agentflow"
    storages: ClassVar[Sequence[str]] = ("sqlite", "postgres")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cache: Place | None = None

    def again(self) -> Self:
        other = super().again()
        other._cache = self._cache
        return other

    async def open(self) -> None:
        self.checkpointer: Any
        if isinstance(self.place, File):
            self.checkpointer = SqliteCheckpointer(self.place.path)
        else:
            self._cache = self._cache or await self.ground.place("redis")
            self.checkpointer = PgCheckpointer(postgres_dsn=self.place.url, redis_url=self._cache.url)
        await self.checkpointer.asetup()
        self._configs: dict[str, dict[str, Any]] = {}

    async def close(self) -> None:
        await self.checkpointer.arelease()

    @property
    def engine(self) -> object:
        return self.checkpointer

    def message(self, plain: dict[str, Any]) -> Any:
        return Message(
            message_id=plain["id"],
            role=plain["role"],
            content=[TextBlock(text=plain["content"])],
            metadata=plain["metadata"],
        )

    def _config(self, thread: str) -> dict[str, Any]:
        return self._configs.setdefault(thread, {"thread_id": thread, "user_id": "ana"})

    def _state(self, state: State) -> AgentState:
        others = {name: value for name, value in state.items() if name != "messages"}
        made = _state_class(tuple(others))(**others)
        # Without pydantic's validation of each message, which a graph does not repeat either.
        made.context = state.get("messages", [])
        return made

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        await self.checkpointer.aput_state(self._config(thread), self._state(state))

    async def load(self, thread: str) -> Any:
        state = await self.checkpointer.aget_state({"thread_id": thread, "user_id": "ana"})
        return {"messages": state.context}


class AgentflowWithRedis(Agentflow):
    """Also saves the state in Redis, and loads it from there first."""

    name = "agentflow+redis"
    storages = ("postgres",)

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        made, config = self._state(state), self._config(thread)
        await self.checkpointer.aput_state(config, made)
        await self.checkpointer.aput_state_cache(config, made)

    async def load(self, thread: str) -> Any:
        state = await self.checkpointer.aget_state_cache({"thread_id": thread, "user_id": "ana"})
        return {"messages": state.context}


ALONE = (Agentflow,)
WITH_REDIS = (AgentflowWithRedis,)
