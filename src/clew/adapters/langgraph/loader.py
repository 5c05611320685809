"""Loading checkpoints with their pending writes, one at a time or as a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any, Final, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew import NOT_LOADED, ConfigError
from clew.adapters.langgraph.addresses import Addresses, any_user
from clew.adapters.langgraph.changes import Known, Memory, dump
from clew.adapters.langgraph.ids import sort_key, sort_key_of
from clew.adapters.langgraph.layout import FIRST, STARTED, WRITE, graph_checkpoint, graph_metadata, is_layout
from clew.adapters.langgraph.snapshots import Snapshot
from clew.adapters.langgraph.values import listed, loaded
from clew.checkpointer.base import BaseCheckpointer
from clew.codec.packer import Packer
from clew.model.checkpoint import Checkpoint
from clew.model.config import ANY_USER
from clew.model.thread import ThreadInfo

PAGE: Final = 20
"""How many checkpoints a list reads at a time."""


class Loader:
    """Converts stored checkpoints to LangGraph's."""

    def __init__(
        self,
        checkpointer: BaseCheckpointer,
        addresses: Addresses,
        serde: SerializerProtocol,
        memory: Memory,
        *,
        marks_start: bool,
    ) -> None:
        self._checkpointer = checkpointer
        self._addresses = addresses
        self._serde = serde
        self._memory = memory
        self._packer = Packer(checkpointer.registry)
        self._marks_start = marks_start

    async def load(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the head of its thread and namespace."""
        address = await self._addresses.address(config)
        key = address["thread_id"], address["checkpoint_ns"]
        known = self._memory.last(key)
        snapshot = known.snapshot if known is not None else None
        found = await self._checkpointer.aget_checkpoint(address, known=known.saved if known and snapshot else None)
        if found is None:
            await self._addresses.check_owner(address)
            return None
        if found.state is NOT_LOADED:
            assert snapshot is not None
            found = replace(found, state=snapshot.fresh(self._packer))
        else:
            snapshot = None
        started = "checkpoint" if address["checkpoint_id"] else "head"
        marked = {STARTED: started} if self._marks_start else {}
        made = await self._tuple(found, address, self._addresses.owner_of(config), **marked)
        before = self._memory.get(key, found.checkpoint_id)
        if is_layout(found.state) and (snapshot is None or before is None or before.doubtful):
            # LangGraph's next put is usually a child of this checkpoint.
            values = made.checkpoint["channel_values"]
            dumps = {name: dumped for name, value in values.items() if type(value) is list and (dumped := dump(value))}
            known = Known(
                checkpoint_id=found.checkpoint_id,
                channels=frozenset(values),
                dumps=dumps,
                saved=replace(found, state=NOT_LOADED),
                snapshot=snapshot or Snapshot.of(found.state, self._packer),
            )
            self._memory.put(key, known)
        return made

    async def history(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first: those of a thread, or with `None` those of all threads."""
        if config is None:
            async for found, thread in self._newest(filter, before, limit):
                yield await self._tuple(found, any_user(thread.thread_id), thread.user_id)
            return
        address = await self._addresses.address(config)
        is_empty = True
        async for found in self._history(config, address, filter, before, limit):
            is_empty = False
            yield await self._tuple(found, address, self._addresses.owner_of(config))
        if is_empty:
            await self._addresses.check_owner(address)

    async def writes(self, address: dict[str, Any]) -> list[PendingWrite]:
        """Return the pending writes of a checkpoint, in the order in which a step applies them."""
        return self._writes_in(await self._checkpointer.alist_attachments(address))

    async def _newest(
        self, filter: dict[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> AsyncIterator[tuple[Checkpoint, ThreadInfo]]:
        """Merge the histories of all threads. A thread is opened when its turn may have come."""
        threads = sorted([each async for each in self._threads()], key=_updated)
        opened: list[_Next] = []
        while (threads or opened) and limit != 0:
            if threads and (not opened or _updated(threads[-1]) >= opened[0].found.metadata.timestamp):
                thread = threads.pop()
                history = self._history(None, any_user(thread.thread_id), filter, before, limit)
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
        address: dict[str, Any],
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[Checkpoint]:
        given = config["configurable"] if config is not None else {}
        namespaces: Literal["own", "all"] = "all" if given.get("checkpoint_ns") is None else "own"
        mark, older_than, reached = None, None, None
        if before is not None and (before_id := before["configurable"].get("checkpoint_id")):
            reached = sort_key(before_id)
            namespace = before["configurable"].get("checkpoint_ns") or address.get("checkpoint_ns")
            cursor = {**address, "checkpoint_ns": namespace}
            cursor["checkpoint_id"] = await self._addresses.stored_id(cursor, before_id)
            if await self._checkpointer.aexists(cursor):
                mark = cursor["checkpoint_id"]
            else:
                # The checkpoint is gone. Its id still compares with the others, because ids grow
                # with time.
                older_than = reached
        wanted, where = address.get("checkpoint_id"), None if filter is None else listed(filter)
        while limit is None or limit > 0:
            size = PAGE if limit is None or older_than or wanted else min(limit, PAGE)
            try:
                page = await self._checkpointer.aget_history(
                    address, size, before=mark, where=where, namespaces=namespaces
                )
            except ConfigError:
                if mark is None:
                    raise
                # It was removed since.
                mark, older_than = None, reached
                continue
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
            reached = sort_key_of(mark, page[-1].metadata.timestamp)

    async def _threads(self) -> AsyncIterator[ThreadInfo]:
        offset = 0
        while page := await self._checkpointer.alist_threads({"user_id": ANY_USER}, offset=offset, limit=500):
            for each in page:
                yield each
            offset += len(page)

    async def _tuple(self, found: Checkpoint, address: dict[str, Any], owner: Any, **marked: Any) -> CheckpointTuple:
        """Return the checkpoint in LangGraph's form, with `marked` in its config."""
        described = found.metadata
        thread_id, namespace = described.thread_id, described.namespace
        here = {**address, "checkpoint_id": found.checkpoint_id, "checkpoint_ns": namespace}
        attached = await self._checkpointer.alist_attachments(here)
        return CheckpointTuple(
            config=self._addresses.checkpoint_config(thread_id, namespace, found.checkpoint_id, owner=owner, **marked),
            checkpoint=graph_checkpoint(found, self._serde),
            metadata=graph_metadata(found, self._serde),
            parent_config=(
                self._addresses.checkpoint_config(thread_id, namespace, described.parent_id, owner=owner)
                if described.parent_id is not None and FIRST not in attached
                else None
            ),
            pending_writes=self._writes_in(attached),
        )

    def _writes_in(self, attached: Mapping[str, Any]) -> list[PendingWrite]:
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for key, data in attached.items():
            if key.startswith(WRITE):
                index, _, task_id = key.removeprefix(WRITE).partition(":")
                path, channel, value = data
                order = writes_sort_key(path, task_id, int(index))
                found.append((order, (task_id, channel, loaded(value, self._serde))))
        return [write for _, write in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class _Next:
    """A thread's next checkpoint to list. The newest sorts first."""

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
