"""Saving checkpoints and pending writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, CheckpointMetadata, get_checkpoint_metadata
from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew import NOT_LOADED
from clew.adapters.langgraph.addresses import Addresses
from clew.adapters.langgraph.changes import Changes, Known, Memory, changes
from clew.adapters.langgraph.layout import BOOK, STARTED, WRITE, book_of, field_of, fields_of
from clew.adapters.langgraph.messages import Recorder
from clew.adapters.langgraph.snapshots import Change, Snapshot, changed
from clew.adapters.langgraph.values import stored, stored_metadata
from clew.checkpointer.base import BaseCheckpointer
from clew.codec.packer import Packer
from clew.errors import ConflictError
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, OnConflict
from clew.model.message import Message

IndexedWrite = tuple[int, str, str, str, Any]
"""A pending write: index, task id, task path, channel and value."""


class Writer:
    """Saves what changed since the parent, or everything if the parent is not in memory."""

    def __init__(
        self,
        checkpointer: BaseCheckpointer,
        addresses: Addresses,
        serde: SerializerProtocol,
        memory: Memory,
        recorder: Recorder,
        *,
        on_conflict: OnConflict,
    ) -> None:
        self._checkpointer = checkpointer
        self._addresses = addresses
        self._serde = serde
        self._memory = memory
        self._packer = Packer(checkpointer.registry)
        self._recorder = recorder
        self._on_conflict: OnConflict = on_conflict

    async def put(
        self,
        config: RunnableConfig,
        checkpoint: GraphCheckpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save `checkpoint` as a child of the one that `config` names. Returns its config."""
        described = get_checkpoint_metadata(config, metadata)
        target = await self._addresses.address(config, run_id=_text_or_none(described.get("run_id")))
        thread_id, namespace, parent_id = target["thread_id"], target["checkpoint_ns"], target["checkpoint_id"]
        # LangGraph has dropped the channels that have no version.
        values = {
            name: value
            for name, value in checkpoint["channel_values"].items()
            if name in checkpoint["channel_versions"]
        }
        options: dict[str, Any] = {
            "step": step if isinstance(step := described.get("step"), int) else None,
            "metadata": stored_metadata(described, self._serde),
            "on_conflict": self._choice(config, parent_id),
            "new_id": await self._addresses.stored_id(target, checkpoint["id"]),
        }
        key = thread_id, namespace
        known = self._memory.get(key, parent_id)
        found = changes(known, values, new_versions, self._stored)
        doubtful = found.surprising
        change = self._change(found, book_of(checkpoint, self._serde), known)
        with self._addresses.explaining_ownership():
            messages = await self._recorder.new_messages(target, known, found, checkpoint, new_versions)
            saved = await self._update(target, change, messages, options) if known is not None else None
            if saved is None:
                found = changes(None, values, new_versions, self._stored)
                change = self._change(found, book_of(checkpoint, self._serde), None)
                saved = await self._put_whole(target, change, messages, options)
        self._memory.put(
            key,
            Known(
                checkpoint_id=saved.checkpoint_id,
                channels=frozenset(values),
                dumps=found.dumps,
                saved=saved,
                snapshot=change.snapshot,
                doubtful=doubtful,
            ),
        )
        owner = self._addresses.owner_of(config)
        return self._addresses.checkpoint_config(thread_id, namespace, saved.checkpoint_id, owner=owner)

    async def put_writes(self, config: RunnableConfig, writes: Sequence[IndexedWrite], *, keep: bool) -> None:
        """Attach pending writes to the checkpoint that `config` names.

        With `keep`, existing ones stay.
        """
        attachments = {
            f"{WRITE}{index}:{task_id}": [path, channel, stored(value, self._serde, channel)]
            for index, task_id, path, channel, value in writes
        }
        with self._addresses.explaining_ownership():
            address = await self._addresses.address(config)
            await self._checkpointer.aput_attachments(address, attachments, keep=keep)

    def _change(self, found: Changes, book: dict[str, Any], known: Known | None) -> Change:
        """Return the changed channels as fields of the state, and the snapshot of the new state."""
        before = known.snapshot if known is not None else Snapshot({})
        fields = {BOOK: book, **fields_of(found.set)}
        return changed(before, fields, fields_of(found.append), [*map(field_of, found.remove)], self._packer)

    async def _update(
        self, target: dict[str, Any], change: Change, messages: list[Message], options: dict[str, Any]
    ) -> Checkpoint | None:
        """Save what changed since the parent; `None` if the parent is gone."""
        try:
            return await self._checkpointer.aupdate_state(
                target, set=change.set, append=change.append, remove=change.remove, messages=messages, **options
            )
        except ConflictError as error:
            if type(error) is not ConflictError:
                raise
            # A cleanup removed the parent, or another run was faster. Saving the whole state
            # raises the error again in the second case.
            return None

    async def _put_whole(
        self, target: dict[str, Any], change: Change, messages: list[Message], options: dict[str, Any]
    ) -> Checkpoint:
        parent = None if target["checkpoint_id"] is None else HEAD
        saved = await self._checkpointer.aput_checkpoint(
            target, change.set, parent=parent, messages=messages, **options
        )
        return replace(saved, state=NOT_LOADED)

    def _stored(self, value: Any, name: str) -> Any:
        return stored(value, self._serde, name)

    def _choice(self, config: RunnableConfig, parent_id: str | None) -> OnConflict:
        """A save after going back to a checkpoint by its id always branches.

        For the head, `on_conflict` decides.
        """
        from_head = parent_id is None or config["configurable"].get(STARTED) == "head"
        return self._on_conflict if from_head else "branch"


def _text_or_none(value: Any) -> str | None:
    return str(value) if value else None
