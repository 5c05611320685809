"""The checkpoint saver."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.addresses import Addresses, of_everybody
from clew.adapters.langgraph.changes import Changes, Known, Memory, changes, dump, new_elements
from clew.adapters.langgraph.ids import inner_id, outer_id, sort_key
from clew.adapters.langgraph.keeping import Change, Kept, changed
from clew.adapters.langgraph.layout import (
    BOOK,
    book_of,
    field_of,
    fields_of,
    graph_checkpoint,
    graph_metadata,
    is_layout,
)
from clew.adapters.langgraph.messages import moment_of, recorded
from clew.adapters.langgraph.removing import Removing
from clew.adapters.langgraph.values import Allowed, loaded, stored, strict_serializer
from clew.checkpointer.base import BaseCheckpointer
from clew.checkpointer.finding import Namespaces
from clew.checkpointer.saving import NOT_LOADED
from clew.clock import SYSTEM_CLOCK
from clew.codec.packing import Packer
from clew.errors import ConfigError, ConflictError
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, OnConflict
from clew.model.config import ANY_USER
from clew.model.message import Message
from clew.model.thread import ThreadInfo

WRITE: Final = "write:"
"""Begins the keys of the attachments that are pending writes."""
STARTED: Final = "__clew_started_at__"
"""In a config that LangGraph hands back: whether a run started at the head or at a checkpoint that it named."""
PAGE: Final = 20
"""How many checkpoints are read at a time for a list."""


class ClewSaver(Removing):
    """LangGraph's checkpoints in any Clew store: `graph.compile(checkpointer=ClewSaver(clew.connect(url)))`.

    Takes a checkpointer, or a URL (or nothing, for `$CLEW_URL`), which it then also closes. Every thread is an ordinary Clew
    thread, owned by `configurable["user_id"]` if there is one.

    - `owner_key`: the configurable that names the owner; `None` if none does, and threads belong to nobody.
    - `allow`: classes (or pairs of module and name) that values may come back as, beside LangGraph's and LangChain's own.
      Others come back as their plain data: what is stored never names code to import.
    - `messages`: the channel whose messages go into the conversation record too, with the same commit; `None` for none.
    - `on_conflict`: what happens when two runs go on from the same checkpoint. "branch" keeps both, as LangGraph's own savers
      do; "reject" raises ConflictError in the one that comes later. Going back to a checkpoint by its id always branches.
    - `serde`: a serializer of your own for everything that is stored in states and writes.
    """

    def __init__(
        self,
        checkpointer: BaseCheckpointer | str | None = None,
        *,
        owner_key: str | None = "user_id",
        allow: Allowed = (),
        messages: str | None = "messages",
        on_conflict: OnConflict = "branch",
        serde: SerializerProtocol | None = None,
    ) -> None:
        if on_conflict not in ("branch", "reject"):
            raise ConfigError(f'on_conflict must be "branch" or "reject", not {on_conflict!r}')
        self._addresses = Addresses(owner_key)
        super().__init__(checkpointer, serde=serde or strict_serializer(allow))
        self._channel = messages
        self._on_conflict: OnConflict = on_conflict
        self._memory = Memory()
        self._packer = Packer(self.checkpointer._codec.registry)

    @property
    def owner_key(self) -> str | None:
        """The configurable that names the owner of a thread."""
        return self._addresses.owner_key

    async def _named(self, config: RunnableConfig, **more: Any) -> dict[str, Any]:
        """Clew's config for what LangGraph's names."""
        named = self._addresses.clew_config(config, **more)
        checkpoint_id = named["checkpoint_id"]
        return {**named, "checkpoint_id": await self._stored_id(named, checkpoint_id)} if checkpoint_id else named

    async def _stored_id(self, where: dict[str, Any], outer: str) -> str:
        """The stored id of the checkpoint that LangGraph calls `outer`, in the thread and namespace of `where`."""
        known = inner_id(outer)
        if known is not None:
            return known
        there = await self.checkpointer.alist_checkpoints({**where, "checkpoint_id": None}, limit=None)
        return next((each.checkpoint_id for each in there if outer_id(each.checkpoint_id) == outer), outer)

    # --- Saving

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: GraphCheckpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as a child of the one that `config` names."""
        told = get_checkpoint_metadata(config, metadata)
        target = await self._named(config, run_id=_text_or_none(told.get("run_id")))
        thread_id, namespace, parent_id = target["thread_id"], target["checkpoint_ns"], target["checkpoint_id"]
        # A channel without a version is one that LangGraph has dropped.
        values = {
            name: value
            for name, value in checkpoint["channel_values"].items()
            if name in checkpoint["channel_versions"]
        }
        described: dict[str, Any] = {
            "step": step if isinstance(step := told.get("step"), int) else None,
            "metadata": {name: stored(value, self.serde, f"metadata[{name!r}]") for name, value in told.items()},
            "on_conflict": self._choice(config, parent_id),
            "new_id": await self._stored_id(target, checkpoint["id"]),
        }
        key = thread_id, namespace
        known = self._memory.get(key, parent_id)
        found = changes(known, values, new_versions, self._stored)
        doubtful = found.surprising
        change = self._change(found, book_of(checkpoint), known)
        with self._addresses.naming_the_owner():
            saved = await self._update(target, known, found, change, values, described) if known is not None else None
            if saved is None:
                found = changes(None, values, new_versions, self._stored)
                change = self._change(found, book_of(checkpoint), None)
                saved = await self._put_whole(target, found, change, values, described)
        self._memory.put(
            key,
            Known(
                checkpoint_id=saved.checkpoint_id,
                channels=frozenset(values),
                dumps=found.dumps,
                saved=saved,
                kept=change.kept,
                doubtful=doubtful,
            ),
        )
        owner = self._addresses.owner_of(config)
        return self._addresses.runnable_config(thread_id, namespace, saved.checkpoint_id, owner=owner)

    def _change(self, found: Changes, book: dict[str, Any], known: Known | None) -> Change:
        """What was `found` to have changed, as fields, and what is kept of the state that it makes."""
        before = known.kept if known is not None else Kept({})
        fields = {BOOK: book, **fields_of(found.set)}
        return changed(before, fields, fields_of(found.append), [*map(field_of, found.remove)], self._packer)

    async def _update(
        self,
        target: dict[str, Any],
        known: Known,
        found: Changes,
        change: Change,
        values: Mapping[str, Any],
        described: dict[str, Any],
    ) -> Checkpoint | None:
        """Save what was `found` to have changed since the parent; `None` if the parent is not there any more."""
        try:
            return await self.checkpointer.aupdate_state(
                target,
                set=change.set,
                append=change.append,
                remove=change.remove,
                messages=self._said(target, known, found, values, change),
                **described,
            )
        except ConflictError as error:
            if type(error) is not ConflictError:
                raise
            # Another run was faster, which saving the whole will tell too; or a cleanup has taken the parent away.
            return None

    async def _put_whole(
        self,
        target: dict[str, Any],
        found: Changes,
        change: Change,
        values: Mapping[str, Any],
        described: dict[str, Any],
    ) -> Checkpoint:
        saved = await self.checkpointer.aput_checkpoint(
            target,
            change.set,
            parent=None if target["checkpoint_id"] is None else HEAD,
            messages=self._said(target, None, found, values, change),
            **described,
        )
        return replace(saved, state=NOT_LOADED)

    def _said(
        self,
        target: dict[str, Any],
        known: Known | None,
        found: Changes,
        values: Mapping[str, Any],
        change: Change,
    ) -> list[Message]:
        """What is new in the conversation. A subgraph's is its own affair: what it says to others comes up here anyway."""
        if self._channel is None or target["checkpoint_ns"]:
            return []
        new = new_elements(known, found, self._channel, values.get(self._channel))
        return recorded(new, moment_of(change.set[BOOK]) or SYSTEM_CLOCK.now())

    def _stored(self, value: Any, name: str) -> Any:
        return stored(value, self.serde, name)

    def _choice(self, config: RunnableConfig, parent_id: str | None) -> OnConflict:
        """Whoever goes back to a checkpoint by its id wants a branch; whoever goes on from the head may not get one."""
        from_head = parent_id is None or config["configurable"].get(STARTED) == "head"
        return self._on_conflict if from_head else "branch"

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, before the checkpoint that takes it in."""
        indexed = [
            (WRITES_IDX_MAP.get(channel, at), task_id, task_path, channel, value)
            for at, (channel, value) in enumerate(writes)
        ]
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        await self.aput_indexed_writes(config, indexed, keep=not special)

    async def aput_indexed_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[int, str, str, str, Any]], *, keep: bool = False
    ) -> None:
        """Save writes that have their indexes: (index, task, path, channel, value)."""
        attachments = {
            f"{WRITE}{index}:{task_id}": [path, channel, stored(value, self.serde, channel)]
            for index, task_id, path, channel, value in writes
        }
        with self._addresses.naming_the_owner():
            await self.checkpointer.aput_attachments(await self._named(config), attachments, keep=keep)

    def put_indexed_writes(self, config: RunnableConfig, writes: Sequence[tuple[int, str, str, str, Any]]) -> None:
        """Sync twin of `aput_indexed_writes`."""
        self._run(self.aput_indexed_writes(config, writes), "put_indexed_writes")

    # --- Loading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the head of its thread and namespace."""
        source = await self._named(config)
        key = source["thread_id"], source["checkpoint_ns"]
        known = self._memory.last(key)
        kept = known.kept if known is not None else None
        found = await self.checkpointer.aget_checkpoint(source, known=known.saved if known and kept else None)
        if found is None:
            return None
        if found.state is NOT_LOADED:
            assert kept is not None
            found = replace(found, state=kept.fresh(self._packer))
        else:
            kept = None
        # What LangGraph puts next is mostly a child of this one.
        started = "checkpoint" if source["checkpoint_id"] else "head"
        made = await self._tuple(found, source, self._addresses.owner_of(config), started)
        before = self._memory.get(key, found.checkpoint_id)
        if is_layout(found.state) and (kept is None or before is None or before.doubtful):
            values = made.checkpoint["channel_values"]
            dumps = {name: dumped for name, value in values.items() if type(value) is list and (dumped := dump(value))}
            known = Known(
                checkpoint_id=found.checkpoint_id,
                channels=frozenset(values),
                dumps=dumps,
                saved=replace(found, state=NOT_LOADED),
                kept=kept or Kept.of(found.state, self._packer),
            )
            self._memory.put(key, known)
        return made

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first: of the thread and namespace that `config` names, of all its namespaces, or of all
        threads. Nothing is held while the caller pauses."""
        left = limit
        if config is None:
            sources = [(of_everybody(each.thread_id), each.user_id) async for each in self._threads()]
        else:
            sources = [(await self._named(config), self._addresses.owner_of(config))]
        for source, owner in sources:
            async for found in self._history(config, source, filter, before, left):
                yield await self._tuple(found, source, owner)
                if left is not None:
                    left -= 1

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
                older_than = before_id
        wanted = source.get("checkpoint_id")
        while limit is None or limit > 0:
            size = PAGE if limit is None or older_than or wanted else min(limit, PAGE)
            page = await self.checkpointer.aget_history(source, size, before=mark, where=filter, namespaces=namespaces)
            for found in page:
                if older_than is not None and sort_key(found.checkpoint_id, found.metadata.timestamp) >= older_than:
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

    async def _tuple(
        self, found: Checkpoint, source: dict[str, Any], owner: Any, started: str | None = None
    ) -> CheckpointTuple:
        described = found.metadata
        thread_id, namespace = described.thread_id, described.namespace
        writes = await self._writes({**source, "checkpoint_id": found.checkpoint_id, "checkpoint_ns": namespace})
        marked = {STARTED: started} if started and self._on_conflict == "reject" else {}
        return CheckpointTuple(
            config=self._addresses.runnable_config(thread_id, namespace, found.checkpoint_id, owner=owner, **marked),
            checkpoint=graph_checkpoint(found, self.serde),
            metadata=graph_metadata(found, self.serde),
            parent_config=(
                self._addresses.runnable_config(thread_id, namespace, described.parent_id, owner=owner)
                if described.parent_id is not None
                else None
            ),
            pending_writes=writes,
        )

    async def _writes(self, config: dict[str, Any]) -> list[PendingWrite]:
        """The pending writes of a checkpoint, in the order in which a step applies them."""
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for key, data in (await self.checkpointer.alist_attachments(config)).items():
            if key.startswith(WRITE):
                index, _, task_id = key.removeprefix(WRITE).partition(":")
                path, channel, value = data
                order = writes_sort_key(path, task_id, int(index))
                found.append((order, (task_id, channel, loaded(value, self.serde))))
        return [write for _, write in sorted(found, key=lambda each: each[0])]

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel what was written to it since its last stored value, up to the checkpoint that `config` names."""
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        waiting = set(channels)
        source = await self._named(config)
        found = await self.checkpointer.aget_checkpoint(source) if waiting else None
        while found is not None and waiting and found.metadata.parent_id is not None:
            source = {**source, "checkpoint_id": found.metadata.parent_id}
            found = await self.checkpointer.aget_checkpoint(source)
            if found is None:
                break
            for write in reversed(await self._writes(source)):
                if write[1] in waiting:
                    histories[write[1]]["writes"].insert(0, write)
            values = graph_checkpoint(found, self.serde)["channel_values"]
            for channel in waiting & values.keys():
                histories[channel]["seed"] = values[channel]
                waiting.discard(channel)
        return histories

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Integers; a thread that came from elsewhere with textual versions goes on with those."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{random.random():016}"
        return 1 if current is None else int(current) + 1


def _text_or_none(value: Any) -> str | None:
    return str(value) if value else None
