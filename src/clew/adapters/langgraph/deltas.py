"""Histories of delta channels: the last stored value of a channel and the writes since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.addresses import Addresses
from clew.adapters.langgraph.layout import graph_checkpoint, graph_metadata
from clew.adapters.langgraph.loader import Loader
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import CorruptRecordError
from clew.model.checkpoint import Checkpoint


class DeltaHistories:
    """Walks from a checkpoint to its ancestors, across forks into the forked thread."""

    def __init__(
        self, checkpointer: BaseCheckpointer, addresses: Addresses, serde: SerializerProtocol, loader: Loader
    ) -> None:
        self._checkpointer = checkpointer
        self._addresses = addresses
        self._serde = serde
        self._loader = loader

    async def histories(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Return the history of each channel up to the checkpoint that `config` names.

        Raises CorruptRecordError if some of it was removed.
        """
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        waiting = set(channels)
        address = await self._addresses.address(config)
        found = await self._checkpointer.aget_checkpoint(address) if waiting else None
        if found is None:
            await self._addresses.check_owner(address)
        while found is not None and waiting:
            address, parent = await self._parent(address, found, waiting)
            if parent is None:
                self._check_completeness(found, waiting)
                break
            found = parent
            for write in reversed(await self._loader.writes(address)):
                if write[1] in waiting:
                    histories[write[1]]["writes"].insert(0, write)
            values = graph_checkpoint(found, self._serde)["channel_values"]
            for channel in waiting & values.keys():
                histories[channel]["seed"] = values[channel]
                waiting.discard(channel)
        return histories

    async def _parent(
        self, address: dict[str, Any], found: Checkpoint, waiting: set[str]
    ) -> tuple[dict[str, Any], Checkpoint | None]:
        """Return the checkpoint's parent and its address.

        The parent of a fork's first checkpoint is in the forked thread.
        """
        origin: Checkpoint | None = found
        while origin is not None and origin.metadata.parent_id is None and self._earlier(origin, waiting):
            thread = await self._checkpointer.aget_thread(address)
            forked = thread.forked_from if thread is not None else None
            if forked is None or forked["checkpoint_id"] != origin.checkpoint_id:
                break
            address = {**address, "thread_id": forked["thread_id"], "checkpoint_id": origin.checkpoint_id}
            origin = await self._checkpointer.aget_checkpoint(address)
        if origin is None or origin.metadata.parent_id is None:
            return address, None
        address = {**address, "checkpoint_id": origin.metadata.parent_id}
        return address, await self._checkpointer.aget_checkpoint(address)

    def _earlier(self, found: Checkpoint, waiting: set[str]) -> set[str]:
        """Return the channels that were written before this checkpoint, which lacks their values."""
        checkpoint = graph_checkpoint(found, self._serde)
        return {
            channel
            for channel in waiting
            if channel in checkpoint["channel_versions"] and channel not in checkpoint["channel_values"]
        }

    def _check_completeness(self, first: Checkpoint, waiting: set[str]) -> None:
        """Raise CorruptRecordError if a channel had a value before the oldest checkpoint.

        LangGraph would take such a channel for an empty one.
        """
        counted = graph_metadata(first, self._serde).get("counters_since_delta_snapshot") or {}
        lost = sorted(self._earlier(first, waiting) & counted.keys())
        if lost:
            thread_id = first.metadata.thread_id
            raise CorruptRecordError(
                f"thread {thread_id!r} can't be rebuilt: its delta channels {', '.join(lost)} need checkpoints before "
                f"{first.checkpoint_id}, which were removed. Clean up such threads with the saver's prune, and fork "
                "them with the saver's fork, which copies these checkpoints; the checkpointer's own fork does not",
                thread_id=thread_id,
                checkpoint_id=first.checkpoint_id,
                channels=lost,
            )
