"""View of a store in which one thread has another id: for merging it into a thread of that id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, JournalEntry, MessageRecord, ThreadRecord
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper

_Query = TypeVar("_Query", AttachmentQuery, CheckpointQuery, JournalQuery, MessageQuery, ThreadQuery, ValueQuery)


class RenamedThread(StorageWrapper):
    """A store whose thread `thread_id` has the id `name`. Only for queries by id and `trim`."""

    def __init__(self, inner: Storage, thread_id: str, name: str) -> None:
        super().__init__(inner)
        self._thread_id = thread_id
        self._name = name

    def _inner_query(self, query: _Query) -> _Query:
        return replace(query, thread_id=self._thread_id) if query.thread_id == self._name else query

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        return await super().checkpoints(self._inner_query(query))

    async def values(self, query: ValueQuery) -> ValuePage:
        return await super().values(self._inner_query(query))

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await super().attachments(self._inner_query(query))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return await super().messages(self._inner_query(query))

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        found = await super().threads(self._inner_query(query))
        return [replace(each, thread_id=self._name) for each in found]

    async def journal(self, query: JournalQuery) -> JournalPage:
        page = await super().journal(self._inner_query(query))
        return replace(page, entries=tuple(replace(each, thread_id=self._name) for each in page.entries))

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        await super().trim([replace(each, thread_id=self._thread_id) for each in entries])
