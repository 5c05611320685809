"""Removing and copying what a saver saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.adapters.langgraph.addresses import of_everybody
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.loading import Loading
from clew.adapters.langgraph.values import loaded
from clew.errors import ConfigError
from clew.model.retention import RetentionPolicy


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
            waiting = set(loaded(head.metadata.get("counters_since_delta_snapshot"), self.serde) or ())
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
