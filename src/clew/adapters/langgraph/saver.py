"""The checkpoint saver."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
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

from clew.adapters.langgraph.addresses import clew_config, inner_id, of_everybody, outer_id, runnable_config
from clew.adapters.langgraph.changes import Known, Memory, changes, dump
from clew.adapters.langgraph.messages import new_messages
from clew.adapters.langgraph.values import Allowed, loaded, stored, strict_serializer
from clew.checkpointer.base import BaseCheckpointer
from clew.checkpointer.finding import Namespaces
from clew.errors import ConfigError, ConflictError
from clew.factory import connect
from clew.model.checkpoint import Checkpoint
from clew.model.commit import OnConflict
from clew.model.config import ANY_USER
from clew.model.reports import RetentionPolicy

R = TypeVar("R")

BOOK: Final = "__langgraph__"
"""The field of a state that holds what LangGraph notes beside the channels: versions, what each node has seen."""
WRITE: Final = "write:"
"""Begins the keys of the attachments that are pending writes."""
STARTED: Final = "__clew_started_at__"
"""In a config that LangGraph hands back: whether a run started at the head or at a checkpoint that it named."""
PAGE: Final = 20
"""How many checkpoints are read at a time for a list."""
_END: Final = object()


class ClewSaver(BaseCheckpointSaver[Any]):
    """LangGraph's checkpoints in any Clew store: `graph.compile(checkpointer=ClewSaver(clew.connect(url)))`.

    Takes a checkpointer, or a URL (or nothing, for `$CLEW_URL`), which it then also closes. Every thread is an ordinary Clew
    thread, owned by `configurable["user_id"]` if there is one.

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
        allow: Allowed = (),
        messages: str | None = "messages",
        on_conflict: OnConflict = "branch",
        serde: SerializerProtocol | None = None,
    ) -> None:
        if on_conflict not in ("branch", "reject"):
            raise ConfigError(f'on_conflict must be "branch" or "reject", not {on_conflict!r}')
        super().__init__(serde=serde or strict_serializer(allow))
        self._owns = not isinstance(checkpointer, BaseCheckpointer)
        self.checkpointer = checkpointer if isinstance(checkpointer, BaseCheckpointer) else connect(checkpointer)
        self._channel = messages
        self._on_conflict: OnConflict = on_conflict
        self._memory = Memory()

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
        target = clew_config(config, run_id=_text_or_none(told.get("run_id")))
        thread_id, namespace, parent_id = target["thread_id"], target["checkpoint_ns"], target["checkpoint_id"]
        # A channel without a version is one that LangGraph has dropped.
        values = {
            name: value
            for name, value in checkpoint["channel_values"].items()
            if name in checkpoint["channel_versions"]
        }
        key = thread_id, namespace
        known = self._memory.get(key, parent_id)
        said = new_messages(known, self._channel, values.get(self._channel)) if self._channel and not namespace else []
        extras: dict[str, Any] = {
            "messages": said,
            "step": told.get("step"),
            "metadata": {name: stored(value, self.serde, f"metadata[{name!r}]") for name, value in told.items()},
            "on_conflict": self._choice(config, parent_id),
            "new_id": checkpoint["id"],
        }
        dumps = await self._put_changes(target, known, values, new_versions, _book(checkpoint), extras)
        self._memory.put(key, Known(checkpoint_id=checkpoint["id"], channels=frozenset(values), dumps=dumps))
        return runnable_config(thread_id, namespace, checkpoint["id"])

    async def _put_changes(
        self,
        target: dict[str, Any],
        known: Known | None,
        values: Mapping[str, Any],
        new_versions: ChannelVersions,
        book: dict[str, Any],
        extras: dict[str, Any],
    ) -> dict[str, tuple[int, bytes]]:
        def store(value: Any, name: str) -> Any:
            return stored(value, self.serde, name)

        if known is not None:
            found = changes(known, values, new_versions, store)
            try:
                await self.checkpointer.aupdate_state(
                    target,
                    set={BOOK: book, **_as_fields(found.set)},
                    append=_as_fields(found.append),
                    remove=map(_field, found.remove),
                    **extras,
                )
            except ConflictError as error:
                # The parent was taken away since (a cleanup): then all of the state is needed.
                if type(error) is not ConflictError:
                    raise
            else:
                return found.dumps
        found = changes(None, values, new_versions, store)
        state = {BOOK: book, **_as_fields(found.set)}
        if target["checkpoint_id"] is None:
            extras = {**extras, "parent": None}
        await self.checkpointer.aput_checkpoint(target, state, **extras)
        return found.dumps

    def _choice(self, config: RunnableConfig, parent_id: str | None) -> OnConflict:
        """Whoever goes back to a checkpoint by its id wants a branch; whoever goes on from the head may not get one."""
        from_head = parent_id is None or config["configurable"].get(STARTED) == "head"
        return self._on_conflict if from_head else "branch"

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, before the checkpoint that takes it in."""
        attachments = {
            f"{WRITE}{WRITES_IDX_MAP.get(channel, at)}:{task_id}": [
                task_path,
                channel,
                stored(value, self.serde, channel),
            ]
            for at, (channel, value) in enumerate(writes)
        }
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        await self.checkpointer.aput_attachments(clew_config(config), attachments, keep=not special)

    # --- Loading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, or the head of its thread and namespace."""
        source = clew_config(config)
        found = await self.checkpointer.aget_checkpoint(source)
        if found is None:
            return None
        # What LangGraph puts next is mostly a child of this one.
        made = await self._tuple(found, source, started="checkpoint" if source["checkpoint_id"] else "head")
        values = made.checkpoint["channel_values"]
        dumps = {
            name: (len(value), packed)
            for name, value in values.items()
            if type(value) is list and (packed := dump(value)) is not None
        }
        known = Known(checkpoint_id=found.checkpoint_id, channels=frozenset(values), dumps=dumps)
        if BOOK in found.state:
            self._memory.put((source["thread_id"], source["checkpoint_ns"]), known)
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
            sources = [of_everybody(each.thread_id) async for each in self._threads()]
        else:
            sources = [clew_config(config)]
        for source in sources:
            async for found in self._history(config, source, filter, before, left):
                yield await self._tuple(found, source)
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
            cursor = {**source, "checkpoint_id": inner_id(before_id)}
            cursor["checkpoint_ns"] = before["configurable"].get("checkpoint_ns") or cursor.get("checkpoint_ns")
            if await self.checkpointer.aexists(cursor):
                mark = cursor["checkpoint_id"]
            else:
                # One that is not there (any more) can still be compared with: LangGraph's ids grow with time.
                older_than = before_id
        wanted = source.get("checkpoint_id")
        while limit is None or limit > 0:
            page = await self.checkpointer.aget_history(source, PAGE, before=mark, where=filter, namespaces=namespaces)
            for found in page:
                if older_than is not None and outer_id(found.checkpoint_id) >= older_than:
                    continue
                if wanted is None or found.checkpoint_id == wanted:
                    yield found
                    limit = None if limit is None else limit - 1
                    if limit == 0:
                        return
            if len(page) < PAGE:
                return
            mark = page[-1].checkpoint_id

    async def _threads(self) -> AsyncIterator[Any]:
        offset = 0
        while page := await self.checkpointer.alist_threads({"user_id": ANY_USER}, offset=offset, limit=500):
            for each in page:
                yield each
            offset += len(page)

    async def _tuple(self, found: Checkpoint, source: dict[str, Any], started: str | None = None) -> CheckpointTuple:
        described = found.metadata
        thread_id, namespace = described.thread_id, described.namespace
        writes = await self._writes({**source, "checkpoint_id": found.checkpoint_id, "checkpoint_ns": namespace})
        marked = {STARTED: started} if started and self._on_conflict == "reject" else {}
        return CheckpointTuple(
            config=runnable_config(thread_id, namespace, found.checkpoint_id, **marked),
            checkpoint=self._graph_checkpoint(found),
            metadata=self._metadata(found),
            parent_config=(
                runnable_config(thread_id, namespace, described.parent_id) if described.parent_id is not None else None
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

    def _graph_checkpoint(self, found: Checkpoint) -> Any:
        state = found.state if isinstance(found.state, dict) else {}
        values = {_channel(name): loaded(value, self.serde) for name, value in state.items() if name != BOOK}
        book = state.get(BOOK)
        if book is None:
            # Saved without LangGraph: its fields are channels that nobody has seen yet.
            book = {
                "v": 4,
                "ts": found.metadata.timestamp.isoformat(),
                "channel_versions": dict.fromkeys(values, 1),
                "versions_seen": {},
                "updated_channels": None,
            }
        return {**book, "id": outer_id(found.checkpoint_id), "channel_values": values}

    def _metadata(self, found: Checkpoint) -> Any:
        return {name: loaded(value, self.serde) for name, value in found.metadata.metadata.items()}

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """For each channel what was written to it since its last stored value, up to the checkpoint that `config` names."""
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        waiting = set(channels)
        source = clew_config(config)
        found = await self.checkpointer.aget_checkpoint(source) if waiting else None
        while found is not None and waiting and found.metadata.parent_id is not None:
            source = {**source, "checkpoint_id": found.metadata.parent_id}
            found = await self.checkpointer.aget_checkpoint(source)
            if found is None:
                break
            for write in reversed(await self._writes(source)):
                if write[1] in waiting:
                    histories[write[1]]["writes"].insert(0, write)
            values = self._graph_checkpoint(found)["channel_values"]
            for channel in waiting & values.keys():
                histories[channel]["seed"] = values[channel]
                waiting.discard(channel)
        return histories

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Integers; a thread that came from elsewhere with textual versions goes on with those."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{random.random():016}"
        return 1 if current is None else int(current) + 1

    # --- Removing and copying. LangGraph names no user here, so these act for everybody.

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
            waiting = set(head.metadata.get("counters_since_delta_snapshot") or ())
            while waiting:
                found = await self.checkpointer.aget_checkpoint(source)
                if found is None:
                    break
                needed.add((namespace, found.checkpoint_id))
                waiting -= {_channel(name) for name in found.state}
                if found.metadata.parent_id is None:
                    break
                source = {**source, "checkpoint_id": found.metadata.parent_id}
        return needed

    # --- The same without await, from any thread.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Sync twin of `aget_tuple`."""
        return self._run(self.aget_tuple(config), "get_tuple")

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Sync twin of `alist`."""
        found = self.alist(config, filter=filter, before=before, limit=limit)

        async def following() -> Any:
            return await anext(found, _END)

        async def close() -> None:
            await found.aclose()  # type: ignore[attr-defined]

        try:
            while (each := self._run(following(), "list")) is not _END:
                yield each
        finally:
            self._run(close(), "list")

    def put(
        self,
        config: RunnableConfig,
        checkpoint: GraphCheckpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Sync twin of `aput`."""
        return self._run(self.aput(config, checkpoint, metadata, new_versions), "put")

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Sync twin of `aput_writes`."""
        self._run(self.aput_writes(config, writes, task_id, task_path), "put_writes")

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Sync twin of `aget_delta_channel_history`."""
        return self._run(self.aget_delta_channel_history(config=config, channels=channels), "get_delta_channel_history")

    def delete_thread(self, thread_id: str) -> None:
        """Sync twin of `adelete_thread`."""
        self._run(self.adelete_thread(thread_id), "delete_thread")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Sync twin of `adelete_for_runs`."""
        self._run(self.adelete_for_runs(run_ids), "delete_for_runs")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Sync twin of `acopy_thread`."""
        self._run(self.acopy_thread(source_thread_id, target_thread_id), "copy_thread")

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Sync twin of `aprune`."""
        self._run(self.aprune(thread_ids, strategy=strategy), "prune")

    def _run(self, work: Coroutine[Any, Any, R], name: str) -> R:
        return self.checkpointer._runner.run(work, name)

    # --- Lifecycle: what it opened, it closes.

    async def asetup(self) -> None:
        """Make the store ready; done by itself on first use."""
        await self.checkpointer.asetup()

    def setup(self) -> None:
        """Sync twin of `asetup`."""
        self.checkpointer.setup()

    async def __aenter__(self) -> Self:
        await self.asetup()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns:
            await self.checkpointer.arelease()

    def __enter__(self) -> Self:
        self.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns:
            self.checkpointer.__exit__(kind, error, trace)


def _book(checkpoint: GraphCheckpoint) -> dict[str, Any]:
    return {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}


def _as_fields(channels: Mapping[str, Any]) -> dict[str, Any]:
    return {_field(name): value for name, value in channels.items()}


def _field(channel: str) -> str:
    """The field of the state that holds a channel: its own name, or another one if that is taken."""
    return BOOK + channel if channel.startswith(BOOK) else channel


def _channel(field: str) -> str:
    return field.removeprefix(BOOK) if field.startswith(BOOK) else field


def _text_or_none(value: Any) -> str | None:
    return str(value) if value else None
