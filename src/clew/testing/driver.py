"""A synchronous driver of a storage, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from clew.errors import ClewError
from clew.model.commit import HEAD, Applied, Commit
from clew.model.config import ANY_USER, User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
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
    CheckpointRecord,
    FoundMessage,
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    ThreadRecord,
)
from clew.storage.protocol import Capabilities, Own, Storage
from clew.testing.build import NOON

_T = TypeVar("_T")
_Error = TypeVar("_Error", bound=ClewError)
Job = Callable[[], Coroutine[Any, Any, _T]]


def run_inline(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("the coroutine suspended, although the storage's capabilities say that it never does")


class DrivenStorage:
    """A storage on an event loop: its own, or that of `runner`, which the caller closes.

    Queries default to `ANY_USER` and thread `t`.
    """

    def __init__(self, make: Callable[[], Storage], runner: asyncio.Runner | None = None) -> None:
        self._make = make
        self._own_runner = runner is None
        self._runner = asyncio.Runner() if runner is None else runner
        self._open()

    def _open(self) -> None:
        self.storage = self._make()
        self.run(self.storage.setup())

    def close(self) -> None:
        self.run(self.storage.close())
        if self._own_runner:
            self._runner.close()

    def reopen(self) -> None:
        """Close the storage and open it again, as the next process would."""
        self.run(self.storage.close())
        self._open()

    @property
    def capabilities(self) -> Capabilities:
        return self.storage.capabilities

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        # Not Runner.run: its signal handling takes longer than most calls here.
        return self._runner.get_loop().run_until_complete(coroutine)

    def at_once(self, jobs: Iterable[Job[_T]]) -> list[_T]:
        """Run all `jobs` concurrently on the event loop and return their results."""

        async def gather() -> list[_T]:
            return list(await asyncio.gather(*(job() for job in jobs)))

        return self.run(gather())

    def in_threads(self, jobs: Sequence[Job[_T]], *, threads: int = 8) -> list[_T]:
        """Run all `jobs` in several OS threads (on one event loop, if the storage needs
        it) and return their results."""
        with ThreadPoolExecutor(threads) as pool:
            if not self.capabilities.suspends:
                return list(pool.map(lambda job: run_inline(job()), jobs))

            async def serve() -> list[_T]:
                loop = asyncio.get_running_loop()

                def call(job: Job[_T]) -> _T:
                    return asyncio.run_coroutine_threadsafe(job(), loop).result()

                return list(await asyncio.gather(*(loop.run_in_executor(pool, call, job) for job in jobs)))

            return self.run(serve())

    # Writing

    def outcomes(self, *commits: Commit) -> list[Applied | ClewError]:
        return self.run(self.storage.apply(commits))

    def apply(self, commit: Commit) -> Applied:
        """Apply `commit`. Raises the error if that is its outcome."""
        (outcome,) = self.outcomes(commit)
        if isinstance(outcome, ClewError):
            raise outcome
        return outcome

    def apply_all(self, *commits: Commit) -> list[Applied]:
        return [self.apply(commit) for commit in commits]

    def refused(self, commit: Commit, error: type[_Error]) -> _Error:
        """Apply `commit` and return its outcome, which must be an error of the type `error`."""
        (outcome,) = self.outcomes(commit)
        assert isinstance(outcome, error), f"expected {error.__name__}, got {outcome!r}"
        return outcome

    def lease(
        self, holder: str, thread_id: str = "t", *, user: User = ANY_USER, now: datetime = NOON, ttl: float = 30
    ) -> LeaseRecord:
        return self.run(self.storage.lease(thread_id, user, holder=holder, now=now, ttl=ttl))

    def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None = None) -> bool:
        return self.run(self.storage.put_own(name, data, instead_of=instead_of))

    # Reading

    def own(self, name: Own) -> bytes | None:
        return self.run(self.storage.own(name))

    def page(
        self, thread_id: str = "t", *, user: User = ANY_USER, limit: int | None = None, **query: Any
    ) -> CheckpointPage:
        asked = CheckpointQuery(thread_id=thread_id, user=user, limit=limit, **query)
        return self.run(self.storage.checkpoints(asked))

    def checkpoints(self, thread_id: str = "t", **query: Any) -> tuple[CheckpointRecord, ...]:
        return self.page(thread_id, **query).checkpoints

    def checkpoint_ids(self, thread_id: str = "t", **query: Any) -> list[str]:
        return [found.checkpoint_id for found in self.checkpoints(thread_id, **query)]

    def checkpoint(self, checkpoint_id: str, thread_id: str = "t", **query: Any) -> CheckpointRecord:
        """Return the checkpoint with this id, including its body."""
        (found,) = self.checkpoints(thread_id, checkpoint_id=checkpoint_id, **{"detail": "body"} | query)
        return found

    def values(self, thread_id: str = "t", *, user: User = ANY_USER, data: bool = True, **query: Any) -> ValuePage:
        return self.run(self.storage.values(ValueQuery(thread_id=thread_id, user=user, data=data, **query)))

    def content(self, thread_id: str = "t") -> Content | None:
        return self.run(self.storage.content(thread_id))

    def attachments(
        self, checkpoint_id: str | None = None, thread_id: str = "t", *, user: User = ANY_USER, namespace: str = ""
    ) -> list[AttachmentRecord]:
        asked = AttachmentQuery(thread_id=thread_id, user=user, namespace=namespace, checkpoint_id=checkpoint_id)
        return self.run(self.storage.attachments(asked))

    def messages(
        self, thread_id: str = "t", *, user: User = ANY_USER, limit: int | None = None, **query: Any
    ) -> list[MessageRecord]:
        """Return messages without their sequence numbers."""
        found = self.run(self.storage.messages(MessageQuery(thread_id=thread_id, user=user, limit=limit, **query)))
        return [replace(each, sequence=0) for each in found]

    def message_sequences(self, thread_id: str = "t", **query: Any) -> dict[str, int]:
        """Return the sequence number of each message by its id."""
        asked = MessageQuery(thread_id=thread_id, user=ANY_USER, limit=None, **query)
        return {each.message_id: each.sequence for each in self.run(self.storage.messages(asked))}

    def message_ids(self, thread_id: str = "t", **query: Any) -> list[str]:
        return [found.message_id for found in self.messages(thread_id, **query)]

    def search(
        self, needle: str, *, user: User = ANY_USER, limit: int | None = None, **query: Any
    ) -> list[FoundMessage]:
        """Return the messages of all threads with this folded text, without sequence numbers."""
        asked = SearchQuery(user=user, search=needle, limit=limit, **query)
        found = self.run(self.storage.search(asked))
        return [replace(each, message=replace(each.message, sequence=0)) for each in found]

    def hits(self, needle: str, **query: Any) -> list[str]:
        """Return `thread/message` of each message that a search finds."""
        return [f"{each.thread_id}/{each.message.message_id}" for each in self.search(needle, **query)]

    def threads(self, *, user: User = ANY_USER, limit: int | None = None, **query: Any) -> list[ThreadRecord]:
        return self.run(self.storage.threads(ThreadQuery(user=user, limit=limit, **query)))

    def thread_ids(self, **query: Any) -> list[str]:
        return [found.thread_id for found in self.threads(**query)]

    def thread(self, thread_id: str = "t", *, user: User = ANY_USER) -> ThreadRecord | None:
        found = self.threads(user=user, thread_id=thread_id)
        assert len(found) <= 1
        return found[0] if found else None

    def known(self, thread_id: str = "t") -> ThreadRecord:
        """Return the thread, which must exist."""
        found = self.thread(thread_id)
        assert found is not None, f"thread {thread_id!r} does not exist"
        return found

    def stats(self, user: User = ANY_USER) -> StorageStats:
        return self.run(self.storage.stats(user))

    def journal(self, **query: Any) -> list[JournalEntry]:
        return list(self.run(self.storage.journal(JournalQuery(**query))).entries)

    def receipts(self, thread_id: str = "t") -> list[str]:
        asked = JournalQuery(thread_id=thread_id, limit=1, receipts=True)
        return list(self.run(self.storage.journal(asked)).receipts)

    def journal_count(self) -> int:
        return self.run(self.storage.journal(JournalQuery(limit=1))).count

    def feed(self, after: str | None = None, **query: Any) -> FeedPage:
        return self.run(self.storage.feed(FeedQuery(after=after, **query)))

    def everything(self) -> dict[str, Any]:
        """Return everything that can be read, to compare before and after a call."""
        threads = self.threads()
        found: dict[str, Any] = {"threads": threads, "by_thread": self.stats().by_thread, "by_day": self.stats().by_day}
        for thread_id in (thread.thread_id for thread in threads):
            found[f"checkpoints of {thread_id}"] = self.page(thread_id, namespace=None, detail="state")
            found[f"values of {thread_id}"] = self.values(thread_id)
            found[f"attachments of {thread_id}"] = self.attachments(None, thread_id)
            found[f"messages of {thread_id}"] = self.messages(thread_id)
            found[f"conversation of {thread_id}"] = self.message_ids(thread_id, branch=HEAD)
        return found


class InlineStorage(DrivenStorage):
    """A driver without an event loop, unless the storage needs one. Much faster."""

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return super().run(coroutine) if self.capabilities.suspends else run_inline(coroutine)
