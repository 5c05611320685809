"""llmfy's checkpointers, with the async drivers that it recommends (except on PostgreSQL).

They get what its engine passes: a state of plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from llmfy.flow_engine.checkpointer import InMemoryCheckpointer
from llmfy.flow_engine.checkpointer.base_checkpointer import Checkpoint, CheckpointMetadata

from bench.places import STORAGES, File
from bench.targets.protocol import State, Target


class Llmfy(Target):
    """Saves the whole state as JSON (in memory: as a deep copy)."""

    name = "llmfy"
    storages = STORAGES

    async def open(self) -> None:
        self.checkpointer: Any
        url = self.place.url
        if url.startswith("memory"):
            self.checkpointer = InMemoryCheckpointer()
        elif url.startswith("redis"):
            from llmfy.flow_engine.checkpointer import RedisCheckpointer

            self.checkpointer = RedisCheckpointer(redis_url=url)
        else:
            from llmfy.flow_engine.checkpointer import SQLCheckpointer

            if isinstance(self.place, File):
                self.checkpointer = SQLCheckpointer(f"sqlite+aiosqlite:///{self.place.path}")
            else:
                # With asyncpg, which it recommends, every save of llmfy 0.11 fails: its times
                # have a zone, its column none.
                self.checkpointer = SQLCheckpointer(url.replace("postgresql", "postgresql+psycopg2"))
        await self.checkpointer.list("nobody", limit=1)
        self._steps: dict[str, int] = {}

    async def close(self) -> None:
        if hasattr(self.checkpointer, "close"):
            await self.checkpointer.close()

    @property
    def engine(self) -> object:
        return self.checkpointer

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        step = self._steps[thread] = self._steps.get(thread, -1) + 1
        metadata = CheckpointMetadata(
            checkpoint_id=str(uuid4()),
            session_id=thread,
            run_id="run",
            created_at=datetime.now(UTC),
            node="answer",
            prev_node="__start__",
            step=step,
            updated_fields=["messages"],
            attempt=1,
            dispatch_id=None,
        )
        await self.checkpointer.save(Checkpoint(metadata=metadata, state=dict(state)))

    async def load(self, thread: str) -> Any:
        return (await self.checkpointer.load(thread)).state

    async def list(self, thread: str, limit: int) -> int:
        return len(await self.checkpointer.list(thread, limit))


CHECKPOINTERS = (Llmfy,)
