"""Removing and copying what a saver saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from clew.adapters.langgraph.addresses import of_everybody
from clew.adapters.langgraph.forking import Beginning, no_such_checkpoint, until, whole
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.loading import Loading
from clew.adapters.langgraph.messages import id_of, is_message, moment_of, written
from clew.adapters.langgraph.values import loaded
from clew.errors import ConfigError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint
from clew.model.records import CheckpointRecord
from clew.model.retention import RetentionPolicy
from clew.storage.copying import Content


class Removing(Loading):
    """Methods for whole threads and runs. LangGraph names no user in its own, so these act for everybody."""

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove the thread with everything; a run that still goes on in it gets ThreadDeletedError."""
        await self.checkpointer.adelete_thread(of_everybody(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints and writes of these runs, in all threads."""
        await self.checkpointer.adelete_runs([str(run_id) for run_id in run_ids])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes to a new thread, which belongs to the owner of the first."""
        await self.checkpointer.acopy_thread(of_everybody(source_thread_id), str(target_thread_id))

    async def afork(self, config: RunnableConfig, thread_id: str | None = None) -> RunnableConfig:
        """Begin a new thread with all that the graph needs to go on in it; returns its config.

        It is a copy: all namespaces (subgraphs that wait, sub-agents with memory), ancestors, pending writes and messages, up
        to the head, or up to the config's `checkpoint_id`. If the graph went on from there, the fork begins as the checkpoint
        was when it was saved, as going back to it by its id does. Raises ConflictError if there is no such thread or
        checkpoint, or if `thread_id` is taken.
        """
        source = await self._named(config)
        checkpoint_id = source.pop("checkpoint_id")
        if checkpoint_id is not None and source["checkpoint_ns"]:
            raise ConfigError(
                "a fork begins at a checkpoint of the graph itself, not of a subgraph: leave 'checkpoint_ns' out"
            )
        target = new_id() if thread_id is None else str(thread_id)
        choose: Callable[[Content], Content] = whole
        if checkpoint_id is not None:
            begun = await self.checkpointer.aget_checkpoint({**source, "checkpoint_id": checkpoint_id})
            if begun is None:
                raise no_such_checkpoint(source["thread_id"], checkpoint_id)
            choose = partial(until, beginning=self._beginning(begun), parents=self._parents)
        copied = await self.checkpointer._copy(source, target, choose)
        return self._addresses.thread_config(copied["thread_id"], self._addresses.owner_of(config))

    def fork(self, config: RunnableConfig, thread_id: str | None = None) -> RunnableConfig:
        """Sync twin of `afork`."""
        return self._run(self.afork(config, thread_id), "fork")

    def _beginning(self, begun: Checkpoint) -> Beginning:
        checkpoint = graph_checkpoint(begun, self.serde)
        messages = [id_of(each) for value in checkpoint["channel_values"].values() for each in _messages(value)]
        return Beginning(
            checkpoint_id=begun.checkpoint_id,
            made=moment_of(checkpoint) or begun.metadata.timestamp,
            messages=frozenset(filter(None, messages)),
        )

    def _parents(self, record: CheckpointRecord) -> Any:
        told = self.checkpointer._codec.unpack(record.metadata) if record.metadata else {}
        return loaded(told.get("parents"), self.serde) or {}

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the latest checkpoint of each namespace, and what its delta channels are rebuilt from; or nothing at all
        (`strategy="delete"`)."""
        if strategy not in ("keep_latest", "delete"):
            raise ConfigError(f'strategy must be "keep_latest" or "delete", not {strategy!r}')
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            config = of_everybody(thread_id)
            keep = await self._needed_by_heads(config)
            await self.checkpointer.acleanup(RetentionPolicy(max_history=1), config=config, keep=keep)

    async def _needed_by_heads(self, config: dict[str, Any]) -> set[tuple[str, str]]:
        """The ancestors from which the delta channels of each namespace's head are rebuilt."""
        infos = await self.checkpointer.alist_checkpoints(config, limit=None, namespaces="all")
        heads = {info.namespace: info for info in reversed(infos)}
        needed: set[tuple[str, str]] = set()
        for namespace, head in heads.items():
            source = {**config, "checkpoint_ns": namespace, "checkpoint_id": head.checkpoint_id}
            waiting = set(head.metadata.get("counters_since_delta_snapshot") or ())
            while waiting:
                found = await self.checkpointer.aget_checkpoint(source)
                if found is None:
                    break
                needed.add((namespace, found.checkpoint_id))
                waiting -= graph_checkpoint(found, self.serde)["channel_values"].keys()
                if found.metadata.parent_id is None:
                    break
                source = {**source, "checkpoint_id": found.metadata.parent_id}
        return needed


def _messages(value: Any) -> list[Any]:
    value = value.value if isinstance(value, _DeltaSnapshot) else value
    return [each for each in written(value) if is_message(each)]
