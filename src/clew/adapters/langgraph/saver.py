"""The checkpoint saver."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph.changes import Changes, Known, Memory, changes, dump
from clew.adapters.langgraph.graphs import classes_of, tell_savers_of_graphs
from clew.adapters.langgraph.keeping import Change, Kept, changed
from clew.adapters.langgraph.layout import (
    BOOK,
    book_of,
    field_of,
    fields_of,
    is_layout,
)
from clew.adapters.langgraph.loading import WRITE
from clew.adapters.langgraph.recording import Recording
from clew.adapters.langgraph.serializing import GraphSerializer
from clew.adapters.langgraph.values import Allowed, stored, stored_metadata, strict_serializer
from clew.checkpointer.base import BaseCheckpointer
from clew.checkpointer.saving import NOT_LOADED
from clew.codec.packing import Packer
from clew.errors import ConfigError, ConflictError
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, OnConflict
from clew.model.message import Message

STARTED: Final = "__clew_started_at__"
"""In a config that LangGraph hands back: whether a run started at the head or at a checkpoint that it named."""


class ClewSaver(Recording):
    """LangGraph's checkpoints in any Clew store: `graph.compile(checkpointer=ClewSaver(clew.connect(url)))`.

    Takes a checkpointer, or a URL (or nothing, for `$CLEW_URL`), which it then also closes. Every thread is an ordinary Clew
    thread, owned by `configurable["user_id"]` if there is one.

    - `owner_key`: the configurable that names the owner; `None` if none does, and threads belong to nobody.
    - `allow`: classes (or pairs of module and name) that values may have, beside LangGraph's and LangChain's own data types
      and those that the graph names in its schema, context, response format and nodes. Others are refused when they are
      saved, with UnsupportedTypeError: what is stored never names code to import.
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
        if serde is not None and not (hasattr(serde, "dumps_typed") or hasattr(serde, "dumps")):
            raise ConfigError(
                f"serde must be a serializer of LangGraph's kind, with dumps_typed and loads_typed; got {serde!r:.60}"
            )
        super().__init__(checkpointer, serde=serde or strict_serializer(allow), owner_key=owner_key, messages=messages)
        self._on_conflict: OnConflict = on_conflict
        self._memory = Memory()
        self._packer = Packer(self.checkpointer._codec.registry)
        tell_savers_of_graphs(_tell)

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
            "metadata": stored_metadata(told, self.serde),
            "on_conflict": self._choice(config, parent_id),
            "new_id": await self._stored_id(target, checkpoint["id"]),
        }
        key = thread_id, namespace
        known = self._memory.get(key, parent_id)
        found = changes(known, values, new_versions, self._stored)
        doubtful = found.surprising
        change = self._change(found, book_of(checkpoint, self.serde), known)
        with self._addresses.naming_the_owner():
            said = await self._said(target, known, found, checkpoint, new_versions)
            saved = await self._update(target, change, said, described) if known is not None else None
            if saved is None:
                found = changes(None, values, new_versions, self._stored)
                change = self._change(found, book_of(checkpoint, self.serde), None)
                saved = await self._put_whole(target, change, said, described)
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
        self, target: dict[str, Any], change: Change, said: list[Message], described: dict[str, Any]
    ) -> Checkpoint | None:
        """Save what has changed since the parent; `None` if the parent is not there any more."""
        try:
            return await self.checkpointer.aupdate_state(
                target, set=change.set, append=change.append, remove=change.remove, messages=said, **described
            )
        except ConflictError as error:
            if type(error) is not ConflictError:
                raise
            # Another run was faster, which saving the whole will tell too; or a cleanup has taken the parent away.
            return None

    async def _put_whole(
        self, target: dict[str, Any], change: Change, said: list[Message], described: dict[str, Any]
    ) -> Checkpoint:
        parent = None if target["checkpoint_id"] is None else HEAD
        saved = await self.checkpointer.aput_checkpoint(target, change.set, parent=parent, messages=said, **described)
        return replace(saved, state=NOT_LOADED)

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
        """The checkpoint that `config` names, or the head of its thread and namespace.

        Raises PermissionDeniedError if the thread is somebody else's.
        """
        source = await self._named(config)
        key = source["thread_id"], source["checkpoint_ns"]
        known = self._memory.last(key)
        kept = known.kept if known is not None else None
        found = await self.checkpointer.aget_checkpoint(source, known=known.saved if known and kept else None)
        if found is None:
            await self._check_owner(source)
            return None
        if found.state is NOT_LOADED:
            assert kept is not None
            found = replace(found, state=kept.fresh(self._packer))
        else:
            kept = None
        # What LangGraph puts next is mostly a child of this one.
        started = "checkpoint" if source["checkpoint_id"] else "head"
        marked = {STARTED: started} if self._on_conflict == "reject" else {}
        made = await self._tuple(found, source, self._addresses.owner_of(config), **marked)
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

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Integers; a thread that came from elsewhere with textual versions goes on with those."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{random.random():016}"
        return 1 if current is None else int(current) + 1


def _tell(saver: Any, graph: Any) -> None:
    """Let the saver know the classes that a graph names."""
    if isinstance(saver, ClewSaver) and isinstance(saver.serde, GraphSerializer):
        saver.serde.classes.learn(classes_of(graph))


def _text_or_none(value: Any) -> str | None:
    return str(value) if value else None
