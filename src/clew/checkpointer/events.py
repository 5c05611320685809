"""Events of a feed's entries: what happened comes from the feed, the content from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from clew.checkpointer.feed import Scope
from clew.checkpointer.records import checkpoint_info, listed_message, listed_thread
from clew.checkpointer.users import Users
from clew.codec.state import StateCodec
from clew.errors import TransientStorageError
from clew.model.checkpoint import CheckpointInfo
from clew.model.event import Event
from clew.model.feed import FeedEntry
from clew.model.message import Message
from clew.model.queries import CheckpointQuery, MessageQuery, ThreadQuery
from clew.model.records import MessageRecord
from clew.model.thread import ThreadInfo
from clew.storage.execution import may_block, pause
from clew.storage.protocol import Storage

_AT_ONCE: Final = 16
"""How many messages of an event are read at a time."""
_RETRY_SECONDS: Final = 0.2
R = TypeVar("R")


class EventReader:
    """Makes the events of a watcher. It reads as the watcher's user, and so nothing of others."""

    def __init__(self, storage: Storage, codec: StateCodec, users: Users, scope: Scope) -> None:
        self._storage = storage
        self._codec = codec
        self._users = users
        self._scope = scope

    async def events(self, entry: FeedEntry) -> list[Event]:
        """Return the events of a commit, in the order of its parts, without their positions."""
        parts, shown, showed = entry.parts, self._scope.shows(entry.owner), self._scope.showed(entry)
        found: list[Event] = []
        owner = self._users.shown(entry.owner)
        event = Event(kind="deleted", position="", thread_id=entry.thread_id, user_id=owner, sequence=entry.sequence)
        if showed and (parts.deleted or not shown):
            former = entry.owner if parts.former is None else parts.former[1:] or None
            found.append(replace(event, user_id=self._users.shown(former)))
        if not shown:
            return found
        if parts.cleared or parts.gone_checkpoints or parts.gone_messages:
            gone = tuple([checkpoint_id for _, checkpoint_id in parts.gone_checkpoints])
            found.append(
                replace(
                    event,
                    kind="removed",
                    checkpoint_ids=gone,
                    all_checkpoints=parts.cleared,
                    message_ids=parts.gone_messages,
                )
            )
        if parts.checkpoint is not None:
            info = await self._checkpoint(entry, *parts.checkpoint)
            found.append(replace(event, kind="checkpoint", checkpoint=info, checkpoint_ids=(parts.checkpoint[1],)))
        if parts.messages:
            messages = await self._messages(entry.thread_id, parts.messages)
            found.append(replace(event, kind="messages", messages=messages, message_ids=parts.messages))
        if parts.described or not showed:
            found.append(replace(event, kind="thread", thread=await self._thread(entry.thread_id)))
        return found

    async def _checkpoint(self, entry: FeedEntry, namespace: str, checkpoint_id: str) -> CheckpointInfo | None:
        thread_id = entry.thread_id
        query = CheckpointQuery(
            thread_id=thread_id, user=self._scope.user, namespace=namespace, checkpoint_id=checkpoint_id
        )
        page = await _persistently(lambda: self._storage.checkpoints(query))
        if not page.checkpoints:
            return None
        return checkpoint_info(self._codec, self._users, thread_id, entry.owner, page.checkpoints[0])

    async def _messages(self, thread_id: str, message_ids: tuple[str, ...]) -> tuple[Message, ...]:
        async def read(message_id: str) -> list[MessageRecord]:
            query = MessageQuery(thread_id=thread_id, user=self._scope.user, message_id=message_id)
            return await _persistently(lambda: self._storage.messages(query))

        records: list[MessageRecord] = []
        # An id may repeat within a commit: its last message counts.
        wanted = list(dict.fromkeys(message_ids))
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            if may_block() or len(some) == 1:
                pages = [await read(message_id) for message_id in some]
            else:
                pages = await asyncio.gather(*map(read, some))
            records += [record for page in pages for record in page]
        return tuple([listed_message(self._codec, record) for record in records])

    async def _thread(self, thread_id: str) -> ThreadInfo | None:
        query = ThreadQuery(user=self._scope.user, thread_id=thread_id)
        found = await _persistently(lambda: self._storage.threads(query))
        return listed_thread(self._codec, found[0], self._users) if found else None


async def _persistently(call: Callable[[], Awaitable[R]]) -> R:
    """Return the result of a read, and wait while the store can't be reached. The feed's reader logs that."""
    while True:
        try:
            return await call()
        except TransientStorageError:
            await pause(_RETRY_SECONDS)
