"""What delta channels are rebuilt from: the last stored value, and what was written to the channel since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory

from clew.adapters.langgraph.layout import graph_checkpoint, graph_metadata
from clew.adapters.langgraph.removing import Removing
from clew.errors import CorruptRecordError
from clew.model.checkpoint import Checkpoint


class Deltas(Removing):
    """Walks from a checkpoint to its ancestors, and from a fork on into what it was forked from."""

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel what was written to it since its last stored value, up to the checkpoint that `config` names.

        Raises CorruptRecordError if some of that is not there any more, and PermissionDeniedError if the thread is somebody
        else's.
        """
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        waiting = set(channels)
        source = await self._named(config)
        found = await self.checkpointer.aget_checkpoint(source) if waiting else None
        if found is None:
            await self._check_owner(source)
        while found is not None and waiting:
            source, parent = await self._parent(source, found, waiting)
            if parent is None:
                self._check_nothing_is_missing(found, waiting)
                break
            found = parent
            for write in reversed(await self._writes(source)):
                if write[1] in waiting:
                    histories[write[1]]["writes"].insert(0, write)
            values = graph_checkpoint(found, self.serde)["channel_values"]
            for channel in waiting & values.keys():
                histories[channel]["seed"] = values[channel]
                waiting.discard(channel)
        return histories

    async def _parent(
        self, source: dict[str, Any], found: Checkpoint, waiting: set[str]
    ) -> tuple[dict[str, Any], Checkpoint | None]:
        """The parent of the checkpoint and its config. That of a fork's first one is in the thread that was forked."""
        origin: Checkpoint | None = found
        while origin is not None and origin.metadata.parent_id is None and self._begun_before(origin, waiting):
            thread = await self.checkpointer.aget_thread(source)
            forked = thread.forked_from if thread is not None else None
            if forked is None or forked["checkpoint_id"] != origin.checkpoint_id:
                break
            source = {**source, "thread_id": forked["thread_id"], "checkpoint_id": origin.checkpoint_id}
            origin = await self.checkpointer.aget_checkpoint(source)
        if origin is None or origin.metadata.parent_id is None:
            return source, None
        source = {**source, "checkpoint_id": origin.metadata.parent_id}
        return source, await self.checkpointer.aget_checkpoint(source)

    def _begun_before(self, found: Checkpoint, waiting: set[str]) -> set[str]:
        """Those channels that something was written to before this checkpoint, which does not have their value."""
        checkpoint = graph_checkpoint(found, self.serde)
        return {
            channel
            for channel in waiting
            if channel in checkpoint["channel_versions"] and channel not in checkpoint["channel_values"]
        }

    def _check_nothing_is_missing(self, first: Checkpoint, waiting: set[str]) -> None:
        """That no channel had a value before the `first` checkpoint that there is: LangGraph would take it for empty."""
        counted = graph_metadata(first, self.serde).get("counters_since_delta_snapshot") or {}
        lost = sorted(self._begun_before(first, waiting) & counted.keys())
        if lost:
            told = first.metadata
            raise CorruptRecordError(
                f"thread {told.thread_id!r} can't be rebuilt: its delta channels {', '.join(lost)} go back to checkpoints "
                f"before {first.checkpoint_id}, which are gone. Clean up such threads with the saver's prune, and fork them "
                "with its fork, which copies what they need: a fork of the checkpointer's own needs its source",
                thread_id=told.thread_id,
                checkpoint_id=first.checkpoint_id,
                channels=lost,
            )
