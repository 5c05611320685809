"""Removal of threads, runs and old checkpoints.

LangGraph names no user here, so it acts for every user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.addresses import any_user
from clew.adapters.langgraph.ids import outer_id
from clew.adapters.langgraph.layout import FIRST, graph_checkpoint, parents_of
from clew.adapters.langgraph.values import loaded
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, ConflictError
from clew.model.checkpoint import CheckpointInfo
from clew.model.retention import RetentionPolicy

Name = tuple[str, str]
"""A checkpoint's namespace and id."""


class Remover:
    """Removes what a saver saved."""

    def __init__(self, checkpointer: BaseCheckpointer, serde: SerializerProtocol) -> None:
        self._checkpointer = checkpointer
        self._serde = serde

    async def delete_thread(self, thread_id: str) -> None:
        await self._checkpointer.adelete_thread(any_user(thread_id))

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        await self._checkpointer.adelete_runs(_several(run_ids, "run_ids"))

    async def prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ConfigError(f'strategy must be "keep_latest" or "delete", not {strategy!r}')
        for thread_id in _several(thread_ids, "thread_ids"):
            if strategy == "delete":
                await self.delete_thread(thread_id)
            else:
                await self._keep_latest(any_user(thread_id))

    async def _keep_latest(self, address: dict[str, Any]) -> None:
        infos = await self._checkpointer.alist_checkpoints(address, limit=None, namespaces="all")
        heads = {info.namespace: info for info in reversed(infos)}
        finished = self._finished_calls(infos, heads)
        needed = await self._needed(address, [head for name, head in heads.items() if name not in finished])
        removed = [_name(each) for each in infos if each.namespace in finished]
        await self._checkpointer.acleanup(RetentionPolicy(max_history=1), config=address, keep=needed, remove=removed)
        await self._mark_orphans(address)

    def _finished_calls(self, infos: Sequence[CheckpointInfo], heads: Mapping[str, CheckpointInfo]) -> frozenset[str]:
        """Return the namespaces of subgraph calls that began before the graph's head.

        A call's namespace contains the id of a task, after a colon. A call may be saved before the
        checkpoint that it began at; such a call is not finished.
        """
        past = {outer_id(each.checkpoint_id) for each in infos if not each.namespace}
        if "" in heads:
            past.discard(outer_id(heads[""].checkpoint_id))
        return frozenset(
            namespace
            for namespace, head in heads.items()
            if ":" in namespace and parents_of(head, self._serde).get("") in past
        )

    async def _needed(self, address: dict[str, Any], heads: Sequence[CheckpointInfo]) -> set[Name]:
        """Return the ancestors from which the delta channels of `heads` are rebuilt."""
        needed: set[Name] = set()
        for head in heads:
            here = {**address, "checkpoint_ns": head.namespace, "checkpoint_id": head.checkpoint_id}
            waiting = set(loaded(head.metadata.get("counters_since_delta_snapshot"), self._serde) or ())
            while waiting:
                found = await self._checkpointer.aget_checkpoint(here)
                if found is None:
                    break
                needed.add((head.namespace, found.checkpoint_id))
                waiting -= graph_checkpoint(found, self._serde)["channel_values"].keys()
                if found.metadata.parent_id is None:
                    break
                here = {**here, "checkpoint_id": found.metadata.parent_id}
        return needed

    async def _mark_orphans(self, address: dict[str, Any]) -> None:
        """Mark the checkpoints whose parents were removed. Loading one then needs no lookup."""
        infos = await self._checkpointer.alist_checkpoints(address, limit=None, namespaces="all")
        present = set(map(_name, infos))
        # If the thread was deleted or leased meanwhile, the next prune marks what is left.
        with suppress(ConflictError):
            for each in infos:
                if each.parent_id is not None and (each.namespace, each.parent_id) not in present:
                    here = {**address, "checkpoint_ns": each.namespace, "checkpoint_id": each.checkpoint_id}
                    await self._checkpointer.aput_attachments(here, {FIRST: True}, touch=False)


def _name(info: CheckpointInfo) -> Name:
    return info.namespace, info.checkpoint_id


def _several(ids: Sequence[str], name: str) -> list[str]:
    # A text is a sequence of letters, which nobody means here.
    if isinstance(ids, (str, bytes)):
        raise ConfigError(f"{name} must be a list of ids, not one: [{ids!r:.60}]")
    return [str(each) for each in ids]
