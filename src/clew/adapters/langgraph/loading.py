"""Lists of checkpoints, with their pending writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key

from clew.adapters.langgraph.addresses import of_everybody
from clew.adapters.langgraph.ids import sort_key, sort_key_of
from clew.adapters.langgraph.layout import graph_checkpoint, graph_metadata
from clew.adapters.langgraph.naming import Naming
from clew.adapters.langgraph.values import listed, loaded
from clew.checkpointer.finding import Namespaces
from clew.model.checkpoint import Checkpoint
from clew.model.config import ANY_USER
from clew.model.thread import ThreadInfo

WRITE: Final = "write:"
"""Begins the keys of the attachments that are pending writes."""
FIRST: Final = "langgraph:first"
"""The key of the attachment that marks a checkpoint whose parent was pruned."""
PAGE: Final = 20
"""How many checkpoints are read at a time for a list."""


class Loading(Naming):
    """Makes LangGraph's checkpoints of the stored ones."""

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first: of the thread and namespace that `config` names, of all its namespaces, or of all
        threads. Nothing is held while the caller pauses. Raises PermissionDeniedError if the thread is somebody else's."""
        if config is None:
            async for found, thread in self._newest(filter, before, limit):
                yield await self._tuple(found, of_everybody(thread.thread_id), thread.user_id)
            return
        source = await self._named(config)
        nothing = True
        async for found in self._history(config, source, filter, before, limit):
            nothing = False
            yield await self._tuple(found, source, self._addresses.owner_of(config))
        if nothing:
            await self._check_owner(source)

    async def _newest(
        self, filter: dict[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> AsyncIterator[tuple[Checkpoint, ThreadInfo]]:
        """The checkpoints of all threads, newest first; a thread is read when its turn may have come."""
        threads = sorted([each async for each in self._threads()], key=_updated)
        opened: list[_Next] = []
        while (threads or opened) and limit != 0:
            if threads and (not opened or _updated(threads[-1]) >= opened[0].found.metadata.timestamp):
                thread = threads.pop()
                history = self._history(None, of_everybody(thread.thread_id), filter, before, limit)
            else:
                following = heappop(opened)
                thread, history = following.thread, following.history
                yield following.found, thread
                limit = None if limit is None else limit - 1
            async for found in history:
                heappush(opened, _Next(found, thread, history))
                break

    async def _history(
        self,
        config: RunnableConfig | None,
        source: dict[str, Any],
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[Checkpoint]:
        given = config["configurable"] if config is not None else {}
        namespaces: Namespaces = "all" if given.get("checkpoint_ns") is None else "own"
        mark, older_than = None, None
        if before is not None and (before_id := before["configurable"].get("checkpoint_id")):
            cursor = {
                **source,
                "checkpoint_ns": before["configurable"].get("checkpoint_ns") or source.get("checkpoint_ns"),
            }
            cursor["checkpoint_id"] = await self._stored_id(cursor, before_id)
            if await self.checkpointer.aexists(cursor):
                mark = cursor["checkpoint_id"]
            else:
                # One that is not there (any more) can still be compared with: ids grow with time.
                older_than = sort_key(before_id)
        wanted, where = source.get("checkpoint_id"), None if filter is None else listed(filter)
        while limit is None or limit > 0:
            size = PAGE if limit is None or older_than or wanted else min(limit, PAGE)
            page = await self.checkpointer.aget_history(source, size, before=mark, where=where, namespaces=namespaces)
            for found in page:
                if older_than is not None and sort_key_of(found.checkpoint_id, found.metadata.timestamp) >= older_than:
                    continue
                if wanted is None or found.checkpoint_id == wanted:
                    yield found
                    limit = None if limit is None else limit - 1
                    if limit == 0:
                        return
            if len(page) < size:
                return
            mark = page[-1].checkpoint_id

    async def _threads(self) -> AsyncIterator[ThreadInfo]:
        offset = 0
        while page := await self.checkpointer.alist_threads({"user_id": ANY_USER}, offset=offset, limit=500):
            for each in page:
                yield each
            offset += len(page)

    async def _tuple(self, found: Checkpoint, source: dict[str, Any], owner: Any, **marked: Any) -> CheckpointTuple:
        """The checkpoint as LangGraph knows it; what is `marked` is in its config."""
        described = found.metadata
        thread_id, namespace = described.thread_id, described.namespace
        here = {**source, "checkpoint_id": found.checkpoint_id, "checkpoint_ns": namespace}
        attached = await self.checkpointer.alist_attachments(here)
        return CheckpointTuple(
            config=self._addresses.runnable_config(thread_id, namespace, found.checkpoint_id, owner=owner, **marked),
            checkpoint=graph_checkpoint(found, self.serde),
            metadata=graph_metadata(found, self.serde),
            parent_config=(
                self._addresses.runnable_config(thread_id, namespace, described.parent_id, owner=owner)
                if described.parent_id is not None and FIRST not in attached
                else None
            ),
            pending_writes=self._writes_in(attached),
        )

    async def _writes(self, config: dict[str, Any]) -> list[PendingWrite]:
        """The pending writes of a checkpoint, in the order in which a step applies them."""
        return self._writes_in(await self.checkpointer.alist_attachments(config))

    def _writes_in(self, attached: Mapping[str, Any]) -> list[PendingWrite]:
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for key, data in attached.items():
            if key.startswith(WRITE):
                index, _, task_id = key.removeprefix(WRITE).partition(":")
                path, channel, value = data
                order = writes_sort_key(path, task_id, int(index))
                found.append((order, (task_id, channel, loaded(value, self.serde))))
        return [write for _, write in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class _Next:
    """The newest of a thread's checkpoints that have not been listed; the least of several is the newest."""

    found: Checkpoint
    thread: ThreadInfo
    history: AsyncIterator[Checkpoint]

    def __lt__(self, other: _Next) -> bool:
        return self._key > other._key

    @property
    def _key(self) -> tuple[datetime, str]:
        made = self.found.metadata.timestamp
        return made, sort_key_of(self.found.checkpoint_id, made)


def _updated(thread: ThreadInfo) -> datetime:
    return thread.updated_at or datetime.max.replace(tzinfo=UTC)
