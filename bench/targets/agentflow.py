"""Agentflow's checkpointers, with its own messages and state.

Its PostgreSQL one keeps the last 20 states of a thread unless told otherwise, and wants a Redis client in any case: alone, the
durable methods are called only; with Redis, the cache is written and read as a graph does.
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
    """AgentState with these fields of the user's own."""
    if not fields:
        return AgentState
    made: type[AgentState] = type(
        "BenchState", (AgentState,), {"__annotations__": dict.fromkeys(fields, Any), **dict.fromkeys(fields)}
    )
    return made


class Agentflow(Target):
    """The state as JSON, whole, a save."""

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
        # Past pydantic's check of each message, which a graph does not repeat either.
        made.context = state.get("messages", [])
        return made

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        await self.checkpointer.aput_state(self._config(thread), self._state(state))

    async def load(self, thread: str) -> Any:
        state = await self.checkpointer.aget_state({"thread_id": thread, "user_id": "ana"})
        return {"messages": state.context}


class AgentflowWithRedis(Agentflow):
    """The same, and the state in Redis as well; loads ask Redis first."""

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
