"""The checkpointer for llmfy's FlowEngine."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from llmfy import Content, ContentType, Message, Role
from llmfy.flow_engine.checkpointer.base_checkpointer import BaseCheckpointer as TheirCheckpointer
from llmfy.flow_engine.checkpointer.base_checkpointer import Checkpoint as TheirCheckpoint
from llmfy.flow_engine.checkpointer.base_checkpointer import CheckpointMetadata as TheirMetadata
from llmfy.llmfy_core.messages.tool_call import ToolCall

from clew.adapters.fingerprint import new_places
from clew.adapters.llmfy.messages import fingerprints, recorded
from clew.adapters.llmfy.metadata import LLMFY, field_of, fields_of, their_metadata
from clew.adapters.llmfy.states import OBJECTS, allow, check_known, copied, label, untagged
from clew.adapters.options import open_store
from clew.adapters.texts import save_cleaned
from clew.checkpointer.base import BaseCheckpointer
from clew.codec.registry import register
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, OnConflict, checked_conflict
from clew.model.config import User
from clew.model.thread import ThreadInfo

_OWN = (Role, ContentType, Content, ToolCall, Message)
for _cls in _OWN:
    register(_cls, name=f"llmfy.{_cls.__name__}")


class _Base(NamedTuple):
    """The base of a run (`None` if the session was new), and fingerprints of its messages."""

    checkpoint_id: str | None
    messages: Sequence[bytes]


class ClewCheckpointer(TheirCheckpointer):
    """llmfy's checkpoints in any Clew store: `ClewCheckpointer(clew.connect(url))`.

    Takes a checkpointer, or a URL (or nothing, for `$CLEW_URL`); it closes only what it opened.
    Every session is an ordinary Clew thread, owned by `user_id`.

    - `messages`: the field of the state whose messages are also added to the conversation record, in
      the same commit; `None` for none.
    - `types`: your classes in the state, as in `FlowEngine(types=…)`; `clew.register` does the same.
      Saving an object of any other class is refused.
    - `on_conflict`: what happens when two runs continue from the same checkpoint. "branch" keeps the
      checkpoints of both, and the later save is the latest; "reject" raises ConflictError in the later one.
    """

    # llmfy's own serialization refuses tuples and sets, and takes a dict with "__type__" for an
    # object.
    requires_serialization = False

    def __init__(
        self,
        checkpointer: BaseCheckpointer | str | None = None,
        *,
        user_id: str | int | User = None,
        messages: str | None = "messages",
        types: Iterable[type] = (),
        on_conflict: OnConflict = "branch",
    ) -> None:
        on_conflict = checked_conflict(on_conflict)
        types = tuple(types)
        for each in types:
            allow(each)
        self._classes = {label(each): each for each in (*_OWN, *types)}
        self.checkpointer, self._owns = open_store(checkpointer)
        self.user_id = user_id
        self._field = messages
        self._on_conflict: OnConflict = on_conflict
        # The base of this task's run, by session. The tasks that the run starts share the dict.
        self._bases: ContextVar[dict[str, _Base]] = ContextVar("clew_llmfy_bases")

    async def save(self, checkpoint: TheirCheckpoint) -> None:
        """Save a checkpoint as the session's latest. A known id is replaced in place."""
        await save_cleaned(partial(self._save, checkpoint.metadata), copied(checkpoint.state))

    async def _save(self, metadata: TheirMetadata, state: dict[str, Any]) -> None:
        fields = fields_of(metadata)
        session_id, checkpoint_id = metadata.session_id, metadata.checkpoint_id
        bases = self._bases.get({})
        base = bases.get(session_id)
        messages = self._messages(state)
        now = fingerprints(messages)
        before = base.messages if base is not None else await self._latest_messages(session_id)
        await self.checkpointer.aput_checkpoint(
            {
                **self._config(session_id, base.checkpoint_id if base is not None else None),
                "run_id": fields.get("run_id") or None,
            },
            state,
            messages=recorded(messages, new_places(before, now)),
            node_name=field_of(fields, "node"),
            step=field_of(fields, "step"),
            metadata={LLMFY: fields, OBJECTS: True},
            on_conflict=self._on_conflict,
            new_id=checkpoint_id,
            parent=None if base is not None and base.checkpoint_id is None else HEAD,
        )
        if base is not None:
            bases[session_id] = _Base(checkpoint_id, now)

    async def load(self, session_id: str, checkpoint_id: str | None = None) -> TheirCheckpoint | None:
        """Return the session's latest checkpoint, or the one with the id, or `None`.

        Raises ConfigError if its state contains an object of a class that is not registered.
        """
        found = await self.checkpointer.aget_checkpoint(self._config(session_id, checkpoint_id or None))
        if not checkpoint_id:
            base = _Base(None, ())
            if found is not None:
                base = _Base(found.checkpoint_id, fingerprints(self._messages(self._state(found))))
            self._bases.set({**self._bases.get({}), session_id: base})
        if found is None:
            return None
        theirs = self._theirs(found)
        check_known(theirs.state)
        return theirs

    async def list(self, session_id: str, limit: int | None = 10) -> builtins.list[TheirCheckpoint]:
        """Return the latest `limit` checkpoints, newest first; `None` for all, 0 for none."""
        return [self._theirs(each) for each in await self.checkpointer.aget_history(self._config(session_id), limit)]

    async def delete(self, session_id: str, checkpoint_id: str | None = None) -> None:
        """Remove one checkpoint, or the session with everything in it. Missing ones are ignored."""
        if checkpoint_id:
            await self.checkpointer.adelete_checkpoint(self._config(session_id, checkpoint_id))
        else:
            await self.checkpointer.adelete_thread(self._config(session_id))
        self._bases.get({}).pop(session_id, None)

    async def clear_all(self) -> None:
        """Remove all llmfy sessions of this checkpointer's user.

        Other threads in the store stay.
        """
        for thread in _sessions(await self.checkpointer.alist_threads({"user_id": self.user_id}, limit=None)):
            await self.checkpointer.adelete_thread({"thread_id": thread.thread_id, "user_id": self.user_id})
        self._bases.set({})

    async def aget_stats(self) -> dict[str, Any]:
        """Return the numbers of sessions and checkpoints, in total and per session."""
        return _stats(await self.checkpointer.alist_threads({"user_id": self.user_id}, limit=None))

    def get_stats(self) -> dict[str, Any]:
        """Sync twin of `aget_stats`."""
        return _stats(self.checkpointer.list_threads({"user_id": self.user_id}, limit=None))

    async def close(self) -> None:
        """Close the store, if this checkpointer opened it."""
        if self._owns:
            await self.checkpointer.arelease()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _messages(self, state: Any) -> Any:
        return state.get(self._field) if self._field is not None and isinstance(state, dict) else None

    async def _latest_messages(self, session_id: str) -> builtins.list[bytes]:
        """Return fingerprints of the latest checkpoint's messages, for a save outside of a run.

        A run loads first.
        """
        if self._field is None:
            return []
        found = await self.checkpointer.aget_checkpoint(self._config(session_id))
        return fingerprints(self._messages(self._state(found))) if found is not None else []

    def _theirs(self, checkpoint: Checkpoint) -> TheirCheckpoint:
        return TheirCheckpoint(metadata=their_metadata(checkpoint.metadata), state=self._state(checkpoint))

    def _state(self, checkpoint: Checkpoint) -> Any:
        """Return the state of `checkpoint`, without the tags that llmfy 0.11 once stored."""
        metadata = checkpoint.metadata.metadata
        is_tagged = OBJECTS not in metadata and "node" in metadata.get(LLMFY, {})
        return untagged(checkpoint.state, self._classes) if is_tagged else checkpoint.state

    def _config(self, session_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
        return {"thread_id": session_id, "user_id": self.user_id, "checkpoint_id": checkpoint_id}


def _sessions(threads: Iterable[ThreadInfo]) -> builtins.list[ThreadInfo]:
    """Return the threads that llmfy was the last to save."""
    return [each for each in threads if each.head is not None and LLMFY in each.head.metadata]


def _stats(threads: Iterable[ThreadInfo]) -> dict[str, Any]:
    counts = {each.thread_id: each.checkpoint_count for each in _sessions(threads)}
    return {
        "total_sessions": len(counts),
        "total_checkpoints": sum(counts.values()),
        "checkpoints_per_session": counts,
    }
