"""Base class of storage wrappers, and the interface for volatile states."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from clew.errors import ClewError
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import (
    AttachmentRecord,
    FoundMessage,
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    ThreadRecord,
)
from clew.model.status import Status
from clew.storage.protocol import Capabilities, Own, Storage

Kind = Literal["apply", "read"]
StateVersion = tuple[str | None, str | int | None]
"""A thread's incarnation and head id (or epoch). A volatile state is outdated if it differs."""
_T = TypeVar("_T")


class SharedStates(Protocol):
    """A place for volatile states that other processes can read too, while it is available."""

    async def put_state(
        self, thread_id: str, namespace: str, user: User, version: StateVersion, state: bytes, ttl: float
    ) -> bool: ...

    async def get_state(self, thread_id: str, namespace: str, user: User, version: StateVersion) -> bytes | None: ...


def shared_states(storage: Storage) -> SharedStates | None:
    """The place where `storage`, or one that it wraps, shares volatile states, if any."""
    return storage.states() if isinstance(storage, StorageWrapper) else None


class StorageWrapper:
    """A storage that wraps another. Every operation goes through `_around`."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner

    @property
    def around(self) -> tuple[Storage, ...]:
        """The storages that this one wraps."""
        return (self.inner,)

    async def _around(self, kind: Kind, operation: Callable[[], Awaitable[_T]]) -> _T:
        """Run `operation`. It may be called more than once."""
        return await operation()

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    async def setup(self) -> None:
        await self.inner.setup()

    async def close(self) -> None:
        await self.inner.close()

    async def ping(self) -> None:
        await self._around("read", self.inner.ping)

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        return await self._around("apply", lambda: self.inner.apply(commits))

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        return await self._around("apply", lambda: self.inner.lease(thread_id, user, holder=holder, now=now, ttl=ttl))

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        return await self._around("read", lambda: self.inner.checkpoints(query))

    async def values(self, query: ValueQuery) -> ValuePage:
        return await self._around("read", lambda: self.inner.values(query))

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await self._around("read", lambda: self.inner.attachments(query))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return await self._around("read", lambda: self.inner.messages(query))

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        return await self._around("read", lambda: self.inner.search(query))

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._around("read", lambda: self.inner.threads(query))

    async def content(self, thread_id: str) -> Content | None:
        return await self._around("read", lambda: self.inner.content(thread_id))

    async def stats(self, user: User) -> StorageStats:
        return await self._around("read", lambda: self.inner.stats(user))

    async def journal(self, query: JournalQuery) -> JournalPage:
        return await self._around("read", lambda: self.inner.journal(query))

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        await self._around("apply", lambda: self.inner.trim(entries))

    async def feed(self, query: FeedQuery) -> FeedPage:
        return await self._around("read", lambda: self.inner.feed(query))

    async def own(self, name: Own) -> bytes | None:
        return await self._around("read", lambda: self.inner.own(name))

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        return await self._around("apply", lambda: self.inner.put_own(name, data, instead_of=instead_of))

    async def reclaim(self) -> None:
        await self._around("apply", self.inner.reclaim)

    def states(self) -> SharedStates | None:
        """The place where volatile states are shared; `None` if there is none."""
        return shared_states(self.inner)

    async def status(self, found: Status) -> Status:
        """Return `found` with what this storage and those it wraps know. Asks no store."""
        inner = self.inner
        return await inner.status(found) if isinstance(inner, StorageWrapper) else found
