"""Removing and copying what a saver saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from clew.adapters.langgraph.addresses import of_everybody
from clew.adapters.langgraph.ids import outer_id
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.loading import FIRST, Loading
from clew.adapters.langgraph.values import loaded
from clew.checkpointer.cleaning import MOST_REMOVED
from clew.errors import ConfigError, ConflictError, LeaseError
from clew.model.checkpoint import CheckpointInfo
from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.model.records import AttachmentRecord, ThreadRecord
from clew.model.retention import RetentionPolicy


class Removing(Loading):
    """Methods for whole threads and runs. LangGraph names no user in its own, so these act for everybody."""

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove the thread with everything; a run that still goes on in it gets ThreadDeletedError."""
        await self.checkpointer.adelete_thread(of_everybody(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints and writes of these runs, in all threads."""
        await self.checkpointer.adelete_runs([str(run_id) for run_id in _several(run_ids, "run_ids")])

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes to a new thread, which belongs to the owner of the first."""
        await self.checkpointer.acopy_thread(of_everybody(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the latest checkpoint of each namespace, and what its delta channels are rebuilt from; or nothing at all
        (`strategy="delete"`).

        The namespace of a subgraph's call goes with the checkpoint that it was called from; a subgraph with a memory of its
        own (`checkpointer=True`) keeps its latest. A checkpoint whose parent is gone has none from then on.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ConfigError(f'strategy must be "keep_latest" or "delete", not {strategy!r}')
        for thread_id in _several(thread_ids, "thread_ids"):
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                await self._prune(of_everybody(thread_id))

    async def _prune(self, config: dict[str, Any]) -> None:
        infos = await self.checkpointer.alist_checkpoints(config, limit=None, namespaces="all")
        heads = {info.namespace: info for info in reversed(infos)}
        over = self._calls_that_are_over(infos, heads)
        keep = await self._needed(config, [head for namespace, head in heads.items() if namespace not in over])
        going = [(each.namespace, each.checkpoint_id) for each in infos if each.namespace in over]
        for record in await self.checkpointer._thread_page(ThreadQuery(user=ANY_USER, thread_id=config["thread_id"])):
            # If somebody has its turn, the thread is left to the next prune, as by any cleanup.
            with suppress(LeaseError):
                for some in range(0, len(going), MOST_REMOVED):
                    removal = Removal(checkpoints=tuple(going[some : some + MOST_REMOVED]))
                    await self.checkpointer._upkeep(record, remove=removal)
                await self.checkpointer.acleanup(RetentionPolicy(max_history=1), config=config, keep=keep)
                await self._mark_first_ones(record)

    def _calls_that_are_over(
        self, infos: Sequence[CheckpointInfo], heads: Mapping[str, CheckpointInfo]
    ) -> frozenset[str]:
        """The namespaces of those calls of subgraphs that began at a checkpoint of the graph which is not its head.

        A call's namespace has the id of a task in it, after a colon. A call may be saved before the checkpoint that it began
        at, and is not over then.
        """
        roots = {outer_id(each.checkpoint_id) for each in infos if not each.namespace}
        if "" in heads:
            roots.discard(outer_id(heads[""].checkpoint_id))
        return frozenset(
            namespace
            for namespace, head in heads.items()
            if ":" in namespace and (loaded(head.metadata.get("parents"), self.serde) or {}).get("") in roots
        )

    async def _needed(self, config: dict[str, Any], heads: Sequence[CheckpointInfo]) -> set[tuple[str, str]]:
        """The ancestors from which the delta channels of these heads are rebuilt."""
        needed: set[tuple[str, str]] = set()
        for head in heads:
            source = {**config, "checkpoint_ns": head.namespace, "checkpoint_id": head.checkpoint_id}
            waiting = set(loaded(head.metadata.get("counters_since_delta_snapshot"), self.serde) or ())
            while waiting:
                found = await self.checkpointer.aget_checkpoint(source)
                if found is None:
                    break
                needed.add((head.namespace, found.checkpoint_id))
                waiting -= graph_checkpoint(found, self.serde)["channel_values"].keys()
                if found.metadata.parent_id is None:
                    break
                source = {**source, "checkpoint_id": found.metadata.parent_id}
        return needed

    async def _mark_first_ones(self, record: ThreadRecord) -> None:
        """Mark the checkpoints whose parents are gone, without touching the thread's time."""
        page = await self.checkpointer._checkpoint_page(record, detail="info")
        there = {(each.namespace, each.checkpoint_id) for each in page.checkpoints}
        marks = tuple(
            AttachmentRecord(
                namespace=each.namespace,
                checkpoint_id=each.checkpoint_id,
                key=FIRST,
                data=self.checkpointer._codec.pack(True, name=FIRST),
            )
            for each in page.checkpoints
            if each.parent_id is not None and (each.namespace, each.parent_id) not in there
        )
        if marks:
            # If the thread was deleted or cleaned up meanwhile, there is nothing to mark, or the next prune does it.
            with suppress(ConflictError):
                await self.checkpointer._upkeep(record, basis=page.basis, attachments=marks)


def _several(ids: Sequence[str], name: str) -> list[str]:
    """The ids. A text is a sequence of letters, and nobody means those."""
    if isinstance(ids, (str, bytes)):
        raise ConfigError(f"{name} must be a list of ids, not one: [{ids!r:.60}]")
    return [str(each) for each in ids]
