"""Forks with all that a graph needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from msgspec.structs import replace

from clew.adapters.langgraph.deltas import Deltas
from clew.adapters.langgraph.ids import outer_id
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.messages import id_of, is_message, moment_of, written
from clew.adapters.langgraph.values import loaded
from clew.errors import ConfigError, ConflictError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint
from clew.model.records import CheckpointRecord
from clew.storage.copying import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The checkpoint that a fork begins at."""

    checkpoint_id: str
    made: datetime
    """When, by the clock that messages have their times from."""
    messages: frozenset[str]
    """The ids of those that its state is made of: saving them again on another branch has given them another time."""


def until(content: Content, beginning: Beginning, parents: Callable[[CheckpointRecord], Mapping[str, Any]]) -> Content:
    """The thread as it was when the graph was at this checkpoint: with what came before it, in all namespaces.

    `parents` says for a checkpoint of a subgraph which ones of the graphs above it belongs to. If the graph went on from
    the beginning, what was written or begun there since is the past of another future, and left out; if it waits there,
    it stays.
    """
    checkpoint_id = beginning.checkpoint_id
    graphs = [each for each in content.checkpoints if not each.namespace]
    origin = next((each for each in graphs if each.checkpoint_id == checkpoint_id), None)
    if origin is None:
        raise no_such_checkpoint(content.thread.thread_id, checkpoint_id)
    if graphs[-1] is origin:
        return content
    waits = all(each.parent_id != checkpoint_id for each in graphs)

    def stays(each: CheckpointRecord) -> bool:
        if each.sequence <= origin.sequence:
            return True
        return waits and bool(each.namespace) and parents(each).get("") == outer_id(checkpoint_id)

    checkpoints = tuple(each for each in content.checkpoints if stays(each))
    attached_to = {(each.namespace, each.checkpoint_id) for each in checkpoints if waits or each is not origin}
    # Those are in the order in which they were first said, whatever was done to them since.
    said = [
        at
        for at, each in enumerate(content.messages, 1)
        if each.created_at <= beginning.made or each.message_id in beginning.messages
    ]
    return replace(
        content,
        checkpoints=checkpoints,
        attachments=tuple(each for each in content.attachments if (each.namespace, each.checkpoint_id) in attached_to),
        messages=content.messages[: max(said, default=0)],
    )


def no_such_checkpoint(thread_id: str, checkpoint_id: str) -> ConflictError:
    message = f"thread {thread_id!r}, to fork from, has no checkpoint {checkpoint_id!r}"
    return ConflictError(message, thread_id=thread_id, checkpoint_id=checkpoint_id)


class Forking(Deltas):
    """Begins threads with what others have."""

    async def afork(self, config: RunnableConfig, thread_id: str | None = None) -> RunnableConfig:
        """Begin a new thread with all that the graph needs to go on in it; returns its config.

        It is a copy: all namespaces (subgraphs that wait, sub-agents with memory), ancestors, pending writes and messages, up
        to the head, or up to the config's `checkpoint_id`. If the graph went on from there, the fork begins as the checkpoint
        was when it was saved, as going back to it by its id does. Raises ConflictError if there is no such thread or
        checkpoint, or if `thread_id` is taken, and PermissionDeniedError if the thread is somebody else's.
        """
        source = await self._named(config)
        await self._check_owner(source)
        checkpoint_id = source.pop("checkpoint_id")
        if checkpoint_id is not None and source["checkpoint_ns"]:
            raise ConfigError(
                "a fork begins at a checkpoint of the graph itself, not of a subgraph: leave 'checkpoint_ns' out"
            )
        target = new_id() if thread_id is None else str(thread_id)
        choose: Callable[[Content], Content] | None = None
        if checkpoint_id is not None:
            begun = await self.checkpointer.aget_checkpoint({**source, "checkpoint_id": checkpoint_id})
            if begun is None:
                raise no_such_checkpoint(source["thread_id"], checkpoint_id)
            choose = partial(until, beginning=await self._beginning(config, begun), parents=self._parents)
        copied = await self.checkpointer._copy(source, target, choose)
        return self._addresses.thread_config(copied["thread_id"], self._addresses.owner_of(config))

    def fork(self, config: RunnableConfig, thread_id: str | None = None) -> RunnableConfig:
        """Sync twin of `afork`."""
        return self._run(self.afork(config, thread_id), "fork")

    async def _beginning(self, config: RunnableConfig, begun: Checkpoint) -> Beginning:
        checkpoint = graph_checkpoint(begun, self.serde)
        values = checkpoint["channel_values"]
        deltas = [channel for channel in checkpoint["channel_versions"] if channel not in values]
        histories = await self.aget_delta_channel_history(config=config, channels=deltas)
        held = [*values.values(), *(history.get("seed") for history in histories.values())]
        held += [value for history in histories.values() for _, _, value in history["writes"]]
        messages = [id_of(each) for value in held for each in written(value) if is_message(each)]
        return Beginning(
            checkpoint_id=begun.checkpoint_id,
            made=moment_of(checkpoint) or begun.metadata.timestamp,
            messages=frozenset(filter(None, messages)),
        )

    def _parents(self, record: CheckpointRecord) -> Any:
        told = self.checkpointer._codec.unpack(record.metadata) if record.metadata else {}
        return loaded(told.get("parents"), self.serde) or {}
