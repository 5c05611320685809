"""The checkpoint saver."""

from __future__ import annotations

import random
from asyncio import _get_running_loop
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import Any, Final, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.addresses import Addresses, any_user, check_owner_key
from clew.adapters.langgraph.changes import Memory
from clew.adapters.langgraph.deltas import DeltaHistories
from clew.adapters.langgraph.forks import Forker
from clew.adapters.langgraph.graphs import classes_of, tell_savers_of_graphs
from clew.adapters.langgraph.loader import Loader
from clew.adapters.langgraph.messages import Recorder
from clew.adapters.langgraph.removal import Remover
from clew.adapters.langgraph.serializer import GraphSerializer
from clew.adapters.langgraph.values import Allowed, strict_serializer
from clew.adapters.langgraph.writer import IndexedWrite, Writer
from clew.adapters.options import open_store
from clew.checkpointer.base import BaseCheckpointer
from clew.checkpointer.blocking import blocking
from clew.errors import ConfigError
from clew.model.commit import OnConflict, checked_conflict

_END: Final = object()


class ClewSaver(BaseCheckpointSaver[Any]):
    """LangGraph's checkpoints in any Clew store:
    `graph.compile(checkpointer=ClewSaver(clew.connect(url)))`.

    Takes a checkpointer, or a URL (or nothing, for `$CLEW_URL`); it closes only what it opened.
    Every thread is an ordinary Clew thread, owned by `configurable["user_id"]` if that is set. Sync
    methods work in any thread. In a running event loop they block it, and log that once.

    - `owner_key`: the configurable that names the owner; `None` for threads without owners.
    - `allow`: classes (or pairs of module and name) that values may have. LangGraph's and LangChain's
      own data types are always allowed, and so are the classes that the graph names in its schema,
      context, response format and nodes. Saving any other raises UnsupportedTypeError. Stored data
      never names code to import.
    - `messages`: the channel whose messages are also added to the conversation record, in the same
      commit; `None` for none.
    - `on_conflict`: what happens when two runs continue from the same checkpoint. "branch" keeps both,
      like LangGraph's own savers; "reject" raises ConflictError in the later one. Going back to a
      checkpoint by its id always branches.
    - `serde`: your own serializer for everything in states and writes.
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
        on_conflict = checked_conflict(on_conflict)
        if serde is not None and not (hasattr(serde, "dumps_typed") or hasattr(serde, "dumps")):
            raise ConfigError(
                f"serde must be a serializer of LangGraph's kind, with dumps_typed and loads_typed; got {serde!r:.60}"
            )
        check_owner_key(owner_key)
        serde = serde or strict_serializer(allow)
        self.checkpointer, self._owns = open_store(checkpointer)
        # The sync methods run like the checkpointer's own.
        self._runner = self.checkpointer
        self._addresses = Addresses(self.checkpointer, owner_key)
        self._memory = Memory()
        self._messages = messages
        self._on_conflict: OnConflict = on_conflict
        super().__init__(serde=serde)
        tell_savers_of_graphs(_tell)

    @property
    def serde(self) -> SerializerProtocol:
        """The serializer of values that are not plain data."""
        return self._serde

    @serde.setter
    def serde(self, serde: SerializerProtocol) -> None:
        # LangGraph copies a saver and sets another serializer on the copy (`with_allowlist`), so
        # the parts that hold the serializer are made here.
        self._serde = serde
        store, addresses, on_conflict = self.checkpointer, self._addresses, self._on_conflict
        self._loader = Loader(store, addresses, serde, self._memory, marks_start=on_conflict == "reject")
        recorder = Recorder(store, serde, self._loader, self._messages)
        self._writer = Writer(store, addresses, serde, self._memory, recorder, on_conflict=on_conflict)
        self._deltas = DeltaHistories(store, addresses, serde, self._loader)
        self._forker = Forker(store, addresses, serde)
        self._remover = Remover(store, serde)

    @property
    def owner_key(self) -> str | None:
        """The configurable that names the owner of a thread."""
        return self._addresses.owner_key

    # --- Saving

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as a child of the one that `config` names. Returns its config."""
        return await self._writer.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, before the checkpoint that applies it."""
        indexed = [
            (WRITES_IDX_MAP.get(channel, at), task_id, task_path, channel, value)
            for at, (channel, value) in enumerate(writes)
        ]
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        await self.aput_indexed_writes(config, indexed, keep=not special)

    async def aput_indexed_writes(
        self, config: RunnableConfig, writes: Sequence[IndexedWrite], *, keep: bool = False
    ) -> None:
        """Save writes that have indexes: (index, task, path, channel, value)."""
        await self._writer.put_writes(config, writes, keep=keep)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the next version: an integer, or text in a thread that came with textual versions."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{random.random():016}"
        return 1 if current is None else int(current) + 1

    # --- Loading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the head of its thread and namespace.

        Raises PermissionDeniedError if the thread belongs to another user.
        """
        return await self._loader.load(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first.

        `config` selects a thread and namespace, or without a namespace all of the thread's; `None`
        selects all threads. No connection or lock is held between two checkpoints. Raises
        PermissionDeniedError if the thread belongs to another user.
        """
        async for each in self._loader.history(config, filter, before, limit):
            yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the last stored value of each channel and the writes since.

        Raises CorruptRecordError if some of that was removed, and PermissionDeniedError if the
        thread belongs to another user.
        """
        return await self._deltas.histories(config, channels)

    # --- Threads

    async def afork(self, config: RunnableConfig, thread_id: str | None = None) -> RunnableConfig:
        """Create a new thread with everything that the graph needs to continue in it. Returns its config.

        It is a copy of all namespaces (waiting subgraphs, sub-agents with memory), ancestors,
        pending writes and messages, up to the head or up to the config's `checkpoint_id`. If the
        graph continued from that checkpoint, the fork has the checkpoint as it was saved, like going
        back to it by its id. Raises ConflictError if the thread or checkpoint does not exist or
        `thread_id` is taken, and PermissionDeniedError if the thread belongs to another user.
        """
        return await self._forker.fork(config, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes to a new thread, which belongs to the same owner."""
        await self.checkpointer.acopy_thread(any_user(source_thread_id), str(target_thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove the thread with everything in it. A run in progress gets ThreadDeletedError."""
        await self._remover.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints and writes of these runs, in all threads."""
        await self._remover.delete_runs(run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the latest checkpoint of each namespace, or nothing (`strategy="delete"`).

        Ancestors from which delta channels are rebuilt are kept. The namespace of a finished
        subgraph call is removed; a subgraph with its own memory (`checkpointer=True`) keeps its
        latest checkpoint. A checkpoint whose parent was removed has no parent from then on.
        """
        await self._remover.prune(thread_ids, strategy)

    # --- Sync twins

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Sync twin of `alist`."""
        found = cast(AsyncGenerator[CheckpointTuple], self.alist(config, filter=filter, before=before, limit=limit))

        async def following() -> Any:
            return await anext(found, _END)

        async def close() -> None:
            await found.aclose()

        try:
            while (each := self.checkpointer.run(following(), "list")) is not _END:
                yield each
        finally:
            self.checkpointer.run(close(), "list")

    get_tuple = blocking(aget_tuple)
    put = blocking(aput)
    put_writes = blocking(aput_writes)
    put_indexed_writes = blocking(aput_indexed_writes)
    get_delta_channel_history = blocking(aget_delta_channel_history)
    fork = blocking(afork)
    copy_thread = blocking(acopy_thread)
    delete_thread = blocking(adelete_thread)
    delete_for_runs = blocking(adelete_for_runs)
    prune = blocking(aprune)

    # --- Lifecycle

    async def asetup(self) -> None:
        """Prepare the store. Optional: the first use does it."""
        await self.checkpointer.asetup()

    def setup(self) -> Awaitable[None]:
        """Prepare the store.

        The result may be awaited, like the `setup` of LangGraph's async savers.

        In a running event loop, the work is done when the result is awaited.
        """
        if _get_running_loop() is not None:
            return _Deferred(self.asetup)
        self.checkpointer.setup()
        return _Deferred(None)

    async def __aenter__(self) -> Self:
        await self.asetup()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns:
            await self.checkpointer.arelease()

    def __enter__(self) -> Self:
        self.checkpointer.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns:
            self.checkpointer.release()


class _Deferred:
    """An awaitable for the remaining work, if any.

    Unlike a coroutine, it need not be awaited.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, None]:
        if self._work is not None:
            yield from self._work().__await__()


def _tell(saver: Any, graph: Any) -> None:
    """Let the saver learn the classes that a graph names."""
    if isinstance(saver, ClewSaver) and isinstance(saver.serde, GraphSerializer):
        saver.serde.classes.learn(classes_of(graph))
