"""A session of the OpenAI Agents SDK as an ordinary Clew thread."""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from agents import SessionSettings
from agents.memory.session_settings import coerce_session_settings
from agents.tracing import get_current_trace

from clew.adapters.openai_agents.items import (
    ITEMS,
    MESSAGE_IDS,
    checked_item,
    is_user_message,
    items_of,
    message_of,
    messages_of,
    rebuilt,
)
from clew.adapters.options import open_store
from clew.adapters.texts import save_cleaned
from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, ConflictError, CorruptRecordError, LeaseError, ThreadDeletedError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint
from clew.model.config import User
from clew.model.message import DAMAGED_ROLE, Message
from clew.model.thread import ThreadInfo

if TYPE_CHECKING:
    from agents import TResponseInputItem

_WRITES: Final = frozenset({"add_items", "pop_item", "fork", "compaction"})
"""Node names of the checkpoints that sessions write."""
_PROTOCOL: Final = ("get_items", "add_items", "pop_item", "clear_session")
"""The methods of the SDK's protocol, which a subclass may override to change what is stored."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionSnapshot:
    """The items to compact, and a function that replaces those from `start` on."""

    items: list[TResponseInputItem]
    complete: bool
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]]


class ClewSession:
    """A conversation of the Agents SDK (its `Session` protocol), with its whole history.

    `checkpointer` is a Clew checkpointer, which any number of sessions may share, or the URL of a
    store, which this session opens and closes. The thread belongs to `user_id`; sessions of other
    users find nothing in it and can't write to it. With `record_messages=False`, there is no
    searchable conversation record.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        checkpointer: BaseCheckpointer | str | None = None,
        *,
        user_id: str | int | User = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        record_messages: bool = True,
    ) -> None:
        self.session_id = session_id
        self.user_id = user_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._record_messages = record_messages
        self._checkpointer, self._owns_checkpointer = open_store(checkpointer)
        self._is_known_session = False
        """Whether the thread was checked, and was a session or empty."""

    @property
    def checkpointer(self) -> BaseCheckpointer:
        """The store. All of its methods for threads work with this session's `config`."""
        return self._checkpointer

    @property
    def config(self) -> dict[str, Any]:
        """The config that names the session's thread."""
        return {"thread_id": self.session_id, "user_id": self.user_id}

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order, or the latest `limit` of them (default:
        `session_settings.limit`).

        If the newest checkpoint is damaged, the items are read from the conversation record,
        without those that are damaged there.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        try:
            checkpoint = await self._checkpointer.aget_checkpoint(self.config)
            items = self._items(checkpoint)
        except CorruptRecordError as error:
            items = items_of(await self._checkpointer.alist_messages(self.config, limit=None))
            if not items:
                raise
            _log.warning("damaged checkpoint: session %r is read from its record: %s", self.session_id, error)
        # A negative limit means no limit, as in the SDK's own sessions.
        latest = items if limit is None or limit < 0 else items[max(0, len(items) - limit) :]
        return cast("list[TResponseInputItem]", latest)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all or none, also with concurrent writers.

        The cost does not depend on the session's length.

        Raises ThreadDeletedError if the session was cleared since it was read, and ConfigError if
        the thread is not a session.
        """
        added = [checked_item(item, at) for at, item in enumerate(items)]
        if not added:
            return
        try:
            await save_cleaned(self._append, added)
        except CorruptRecordError as error:
            await self._mend(error)
            await save_cleaned(self._append, added)
        except ThreadDeletedError as error:
            raise ThreadDeletedError(
                f"session {self.session_id!r} was cleared after this process last read it; to start it again, "
                f"read it first: get_items()",
                thread_id=self.session_id,
            ) from error

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the latest item; `None` if there is none.

        Concurrent callers get different items.
        """
        mended = False
        while True:
            try:
                checkpoint = await self._checkpointer.aget_checkpoint(self.config)
            except CorruptRecordError as error:
                if mended:
                    raise
                await self._mend(error)
                mended = True
                continue
            items = self._items(checkpoint)
            if checkpoint is None or not items:
                return None
            try:
                await self._rewrite(checkpoint, slice(0, -1), node_name="pop_item")
            except LeaseError:
                raise
            except ConflictError:
                # Another writer was faster, so the latest item has changed.
                continue
            return cast("TResponseInputItem", items[-1])

    async def clear_session(self) -> None:
        """Remove the thread with its items, history, conversation record and description.

        Forks stay.

        A run in progress in another process gets ThreadDeletedError when it adds items. The next
        run starts a new session.
        """
        await self._checkpointer.adelete_thread(self.config)

    async def fork(self, from_turn: int | None = None, *, session_id: str | None = None) -> Self:
        """Return a new session with these items, or those before user message `from_turn`.

        The first user message is number 1. The fork shares the stored data and the checkpointer.
        Raises ConflictError if `session_id` is taken or this session is empty, ConfigError if there
        is no such turn.
        """
        source, kept = self.config, None
        if from_turn is not None:
            checkpoint = await self._checkpointer.aget_checkpoint(self.config)
            kept = self._length_before(from_turn, self._items(checkpoint))
            source["checkpoint_id"] = checkpoint.checkpoint_id if checkpoint is not None else None
        forked = await self._checkpointer.afork(source, session_id)
        # A copy, so that the fork of a subclass treats items in the same way.
        session = copy.copy(self)
        session.session_id = str(forked["thread_id"])
        session._owns_checkpointer = False
        session._is_known_session = True
        if kept is not None:
            try:
                await session._keep_only(kept)
            except BaseException:
                await session.clear_session()
                raise
        return session

    async def describe(
        self, *, thread_name: str | None = None, tags: Sequence[str] = (), metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Set the thread's name, tags and metadata. They replace the old ones."""
        described = {"thread_name": thread_name, "tags": tags, "metadata": dict(metadata or {})}
        await self._checkpointer.aput_thread(self.config, described, existing_metadata="replace")

    async def info(self) -> ThreadInfo | None:
        """Return the thread's owner, description, head and counts; `None` if nothing was added yet."""
        return await self._checkpointer.aget_thread(self.config)

    async def repair(self) -> None:
        """Rebuild the head from the conversation record, if the newest checkpoint is damaged."""
        await self._checkpointer.arepair(self.config, rebuild=rebuilt)

    async def aclose(self) -> None:
        """Close the store, if this session opened it."""
        if self._owns_checkpointer:
            await self._checkpointer.arelease()

    def close(self) -> None:
        """Sync twin of `aclose`."""
        if self._owns_checkpointer:
            self._checkpointer.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _append(self, items: Sequence[dict[str, Any]]) -> None:
        if not self._is_known_session:
            await self._check_thread()
        ids = self._new_ids(items)
        await self._checkpointer.aupdate_state(
            self._config_to_write(),
            append={ITEMS: items, MESSAGE_IDS: ids},
            messages=messages_of(items, ids),
            node_name="add_items",
        )

    async def _check_thread(self) -> None:
        """Raise ConfigError if the thread is not a session.

        Usually the head's node name is enough, and its state is not read.
        """
        heads = await self._checkpointer.alist_checkpoints(self.config, limit=1)
        if heads and heads[0].node_name not in _WRITES:
            self._items(await self._checkpointer.aget_checkpoint(self.config))
        self._is_known_session = True

    async def _mend(self, error: CorruptRecordError) -> None:
        """Repair the session before a write, if it has a conversation record."""
        if not self._record_messages:
            raise error
        await self.repair()

    def _config_to_write(self) -> dict[str, Any]:
        """Return the config with the SDK's trace id as `run_id`."""
        trace = get_current_trace()
        run_id = trace.trace_id if trace is not None and trace.export() is not None else None
        return {**self.config, "run_id": run_id}

    def _items(self, checkpoint: Checkpoint | None) -> list[dict[str, Any]]:
        # After going back to before the first items, the state is None.
        state = {} if checkpoint is None or checkpoint.state is None else checkpoint.state
        items = state.get(ITEMS, None if state else []) if isinstance(state, dict) else None
        if not isinstance(items, list):
            raise ConfigError(
                f"thread {self.session_id!r} is not a session: its state has no list of {ITEMS!r}; use another session_id"
            )
        self._is_known_session = True
        return items

    def _length_before(self, turn: int, items: Sequence[Mapping[str, Any]]) -> int:
        turns = [at for at, item in enumerate(items) if is_user_message(item)]
        if not 1 <= turn <= len(turns):
            raise ConfigError(f"session {self.session_id!r} has {len(turns)} turns, and no turn {turn!r}")
        return turns[turn - 1]

    async def _keep_only(self, count: int) -> None:
        """Cut a new fork to its first `count` items, and remove the checkpoint that has all of them."""
        checkpoint = await self._checkpointer.aget_checkpoint(self.config)
        assert checkpoint is not None  # the fork brought it
        await self._rewrite(checkpoint, slice(0, count), node_name="fork")
        await self._checkpointer.adelete_checkpoint({**self.config, "checkpoint_id": checkpoint.checkpoint_id})

    async def _rewrite(self, checkpoint: Checkpoint, kept: slice, added: Sequence[Any] = (), *, node_name: str) -> None:
        """Save a new checkpoint with the `kept` items of `checkpoint`, then `added`.

        Updates the record in the same commit.

        Raises ConflictError if `checkpoint` is no longer the head.
        """
        items, ids = checkpoint.state.get(ITEMS, []), checkpoint.state.get(MESSAGE_IDS, [])
        left = set(ids[kept])
        gone = [key for key in ids if key is not None and key not in left]
        # If another branch also has these messages, this branch gets its own conversation.
        shared = await self._checkpointer.ashared_messages(self.config, gone)
        copied = await self._said_again(items[kept], ids[kept], gone) if shared else None
        record: dict[str, Any] = {"remove_messages": gone} if copied is None else {"conversation": "new"}
        said, kept_ids = copied or ([], ids[kept])

        async def save(new: list[dict[str, Any]]) -> None:
            new_ids = self._new_ids(new)
            await self._checkpointer.aput_checkpoint(
                {**self._config_to_write(), "checkpoint_id": checkpoint.checkpoint_id},
                {**checkpoint.state, ITEMS: items[kept] + new, MESSAGE_IDS: kept_ids + new_ids},
                messages=[*said, *messages_of(new, new_ids)],
                **record,
                node_name=node_name,
                on_conflict="reject",
            )

        await save_cleaned(save, [checked_item(item, at) for at, item in enumerate(added)])

    async def _said_again(
        self, items: Sequence[dict[str, Any]], ids: Sequence[str | None], gone: Iterable[str]
    ) -> tuple[list[Message], list[str | None]]:
        """Return copies of the record's messages without those in `gone`, and the new ids of `items`.

        Messages that others added to the thread keep their places between the items.
        """
        record = await self._checkpointer.alist_messages(self.config, limit=None)
        known = {each.message_id: each for each in record}
        own = {*ids, *gone}
        others = deque((at, each) for at, each in enumerate(record) if each.message_id not in own)
        places = {each.message_id: at for at, each in enumerate(record)}
        said: list[Message] = []
        new_ids: list[str | None] = []
        for item, key in zip(items, ids, strict=True):
            new_ids.append(None if key is None else new_id())
            if key is None or new_ids[-1] is None:
                continue
            while others and others[0][0] < places.get(key, 0):
                said.append(others.popleft()[1])
            again, found = message_of(item, new_ids[-1]), known.get(key)
            said.append(again if found is None else replace(again, created_at=found.created_at, run_id=found.run_id))
        said += [each for _, each in others]
        # Copies: the messages themselves would move here from the other branches.
        renamed = [each if each.message_id in new_ids else replace(each, message_id=new_id()) for each in said]
        return [each for each in renamed if each.role != DAMAGED_ROLE], new_ids

    def _new_ids(self, items: Sequence[Any]) -> list[str | None]:
        return [new_id() if self._record_messages else None for _ in items]

    # The SDK's compaction looks for the methods below, which are not part of its protocol. Without
    # them it would clear the session and add the items again, which would remove the history. They
    # bypass the methods of the protocol. So if a subclass overrides one of those (to redact or
    # count items), they do nothing, like in the SDK's own sessions.

    def _is_overridden(self) -> bool:
        """Return whether a subclass overrides a method of the protocol."""
        return any(getattr(type(self), name) is not getattr(ClewSession, name) for name in _PROTOCOL)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> CompactionSnapshot | None:
        """Return the latest `limit` items for a compare-and-swap; `None` if that is impossible."""
        if self._is_overridden():
            return None
        try:
            checkpoint = await self._checkpointer.aget_checkpoint(self.config)
        except CorruptRecordError:
            return None
        items = self._items(checkpoint)
        first = max(0, len(items) - limit)

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            end = first + start
            if checkpoint is None or end >= len(items):
                return False
            live = end if prune_prefix is None else next((at for at in range(end) if not prune_prefix(items[at])), end)
            return await self._replaced(checkpoint, slice(live if prune_prefix else 0, end), output)

        return CompactionSnapshot(cast("list[TResponseInputItem]", items[first:]), first == 0, replace_suffix)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replace all items. Returns whether it succeeded: no if another writer was faster."""
        if self._is_overridden():
            return False
        checkpoint = await self._checkpointer.aget_checkpoint(self.config)
        if checkpoint is None:
            return False
        return await self._replaced(checkpoint, slice(0, 0), items)

    async def _replaced(self, checkpoint: Checkpoint, kept: slice, added: Sequence[Any]) -> bool:
        try:
            await self._rewrite(checkpoint, kept, added, node_name="compaction")
        except LeaseError:
            raise
        except ConflictError:
            return False
        return True
