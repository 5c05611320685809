"""Forks: new threads that hold everything that a graph needs to continue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.addresses import Addresses
from clew.adapters.langgraph.ids import outer_id
from clew.adapters.langgraph.layout import parents_of
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, ConflictError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint, CheckpointInfo
from clew.model.thread import ThreadPart


class Forker:
    """Copies threads, whole or up to a checkpoint."""

    def __init__(self, checkpointer: BaseCheckpointer, addresses: Addresses, serde: SerializerProtocol) -> None:
        self._checkpointer = checkpointer
        self._addresses = addresses
        self._serde = serde

    async def fork(self, config: RunnableConfig, thread_id: str | None) -> RunnableConfig:
        """Copy the thread, up to the checkpoint if `config` names one.

        Returns the config of the new thread.
        """
        address = await self._addresses.address(config)
        await self._addresses.check_owner(address)
        checkpoint_id = address.pop("checkpoint_id")
        if checkpoint_id is not None and address["checkpoint_ns"]:
            raise ConfigError(
                "a fork begins at a checkpoint of the graph itself, not of a subgraph: leave 'checkpoint_ns' out"
            )
        target = new_id() if thread_id is None else str(thread_id)
        choose = None
        if checkpoint_id is not None:
            origin = await self._checkpointer.aget_checkpoint({**address, "checkpoint_id": checkpoint_id})
            if origin is None:
                raise _no_such_checkpoint(address["thread_id"], checkpoint_id)
            messages = {each.message_id for each in await self._checkpointer.alist_messages(origin.config, limit=None)}

            def choose(checkpoints: list[CheckpointInfo]) -> ThreadPart | None:
                return self._part_until(origin, checkpoints, messages)

        copied = await self._checkpointer.acopy_thread(address, target, choose=choose)
        return self._addresses.thread_config(str(copied["thread_id"]), self._addresses.owner_of(config))

    def _part_until(
        self, origin: Checkpoint, checkpoints: list[CheckpointInfo], messages: Collection[str]
    ) -> ThreadPart | None:
        """Return the part of the thread that existed when the graph was at `origin`.

        If the graph continued from `origin`, its later writes and subgraph calls there belong to another
        branch and are left out. If the graph still waits at `origin`, they are kept. `None` means everything.
        """
        roots = [each for each in checkpoints if not each.namespace]
        here = next((each for each in roots if each.checkpoint_id == origin.checkpoint_id), None)
        if here is None:
            raise _no_such_checkpoint(origin.metadata.thread_id, origin.checkpoint_id)
        if roots[-1] is here:
            return None
        waits = all(each.parent_id != here.checkpoint_id for each in roots)

        def stays(each: CheckpointInfo) -> bool:
            if each.sequence <= here.sequence:
                return True
            return waits and bool(each.namespace) and self._parents(each).get("") == outer_id(here.checkpoint_id)

        kept = [each for each in checkpoints if stays(each)]
        return ThreadPart(
            checkpoints=[(each.namespace, each.checkpoint_id) for each in kept],
            attachments=[(each.namespace, each.checkpoint_id) for each in kept if waits or each is not here],
            messages=messages,
        )

    def _parents(self, info: CheckpointInfo) -> Mapping[str, Any]:
        return parents_of(info, self._serde)


def _no_such_checkpoint(thread_id: str, checkpoint_id: str) -> ConflictError:
    message = f"thread {thread_id!r} has no checkpoint {checkpoint_id!r} to fork from"
    return ConflictError(message, thread_id=thread_id, checkpoint_id=checkpoint_id)
