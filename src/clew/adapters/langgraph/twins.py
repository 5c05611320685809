"""The methods of a saver that don't await, each a twin of one that does; and its lifecycle."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import BlockingCallError
from clew.factory import connect

R = TypeVar("R")

_END: Final = object()


class _Later:
    """Something to await: work that is to be done, or nothing. Unlike a coroutine, it may also be left alone."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, None]:
        if self._work is not None:
            yield from self._work().__await__()


class SyncTwins(BaseCheckpointSaver[Any]):
    """Runs the async methods for callers that can't await, in any thread; closes the checkpointer if it opened it.

    Inside a running event loop they work where the storage never suspends; elsewhere BlockingCallError names the async one.
    """

    def __init__(self, checkpointer: BaseCheckpointer | str | None, *, serde: SerializerProtocol) -> None:
        super().__init__(serde=serde)
        self._owns = not isinstance(checkpointer, BaseCheckpointer)
        self.checkpointer = checkpointer if isinstance(checkpointer, BaseCheckpointer) else connect(checkpointer)

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
        found = cast(AsyncGenerator[CheckpointTuple], self.alist(config, filter=filter, before=before, limit=limit))

        async def following() -> Any:
            return await anext(found, _END)

        async def close() -> None:
            await found.aclose()

        try:
            while (each := self._run(following(), "list")) is not _END:
                yield each
        finally:
            self._run(close(), "list")

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
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

    def setup(self) -> Awaitable[None]:
        """Make the store ready; what it returns may be awaited, as LangGraph's async savers want it.

        Where a sync call can't wait, in an event loop on a storage over a network, it is done once that is awaited.
        """
        try:
            self.checkpointer.setup()
        except BlockingCallError:
            return _Later(self.asetup)
        return _Later(None)

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
            self.checkpointer.__exit__(kind, error, trace)
