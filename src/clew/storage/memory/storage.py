"""The storage class: applies commits and answers queries, under one lock."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec.structs import replace

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import Applied, Begin, Commit
from clew.model.config import ANY_USER, User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.message import folded
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
    CheckpointRecord,
    FoundMessage,
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    ThreadRecord,
)
from clew.storage.content import content_of, content_queries
from clew.storage.feed import heard_within
from clew.storage.found import newest
from clew.storage.holders import lease_of, lease_space, turn_after
from clew.storage.memory.facts import MemoryFacts, overlapping
from clew.storage.memory.feed import MemoryFeed
from clew.storage.memory.queries import page_of, stats_of
from clew.storage.memory.thread import Thread, info
from clew.storage.memory.undo import Undo
from clew.storage.protocol import Capabilities, Own
from clew.storage.rules import Decision, adds, check_owner, decide, is_open_to, next_in_chain

_ENDS_KEPT: Final = 100_000
"""How many deleted threads are remembered by the ends of their chains."""


class MemoryStorage:
    """A storage that lives as long as the object. Thread-safe; its coroutines never suspend."""

    capabilities = Capabilities(name="memory", durable=False, suspends=False, shares_forks=True)

    def __init__(self) -> None:
        # Reentrant, because `content` calls other queries.
        self._lock = threading.RLock()
        self._threads: dict[str, Thread] = {}
        self._leases: dict[tuple[str, str], LeaseRecord] = {}
        """By thread id and space."""
        self._journal: dict[int, JournalEntry] = {}
        self._journaled = 0
        self._own: dict[Own, bytes] = {}
        self._created = 0
        self._token = 0
        self._ended: OrderedDict[str, str] = OrderedDict()
        """The end of the chain of each deleted thread, the oldest first."""
        self._facts = MemoryFacts(self._threads, self._leases, self._ended)
        self._feed = MemoryFeed()
        self._undo = Undo()
        """The changes of the current commit, which the next holder undoes if it was interrupted."""

    async def setup(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing: threads stay until the object is garbage collected."""

    async def ping(self) -> None:
        """Do nothing: memory is always available."""

    async def reclaim(self) -> None:
        """Do nothing: removed records are freed immediately."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        with self._lock:
            self._undo.undo()
            outcomes = [self._outcome(commit) for commit in commits]
        if self._feed.began:
            self._feed.bell.ring()
        return outcomes

    def _outcome(self, commit: Commit) -> Applied | ClewError:
        try:
            applied = self._apply(commit)
        except ClewError as error:
            return error
        self._undo.keep()
        return applied

    def _apply(self, commit: Commit) -> Applied:
        decided = decide(commit, self._facts)
        existing, kept = decided.existing, decided.kept
        if decided.repeated:
            return existing.outcome(commit, repeated=True) if existing else Applied(basis=None, repeated=True)
        # Decided: from here on nothing can fail.
        if kept is None and not adds(commit):
            self._add_journal_entry(commit, decided.last_in_chain, existing)
            self._end_chain(commit)
            removed = self._delete(existing)
            self._feed.add(commit, existing, existing.owner if existing else None, None, removed, self._undo)
            return Applied(basis=None, removed=removed)
        undo = self._undo
        owner = existing.owner if existing else None
        thread = kept or self._new_thread(commit, decided)
        thread.begin(undo)
        if kept is None:
            removed = self._delete(existing)
        else:
            removed = kept.remove(commit.remove, decided.dropped, undo) if commit.remove is not None else 0
        if decided.origin:
            undo.append(decided.origin[0].log.forks, thread.log)
        thread.sequence += 1
        thread.updated_at = max(thread.updated_at, commit.at)
        if kept and (decided.branches or commit.back_to is not None or commit.remove is not None):
            kept.branch(commit, decided)
        if commit.values:
            thread.append(commit.values, undo)
        if commit.merge:
            thread.merge(commit.merge, decided.replaced)
        if decided.ends_leases:
            for key in [key for key in self._leases if key[0] == commit.thread_id]:
                undo.take(self._leases, key)
        thread.add(commit, decided.parent, undo)
        thread.remember(commit, undo)
        self._add_journal_entry(commit, decided.last_in_chain, thread)
        thread.last_in_chain = next_in_chain(commit)
        undo.put(self._threads, commit.thread_id, thread)
        self._feed.add(commit, existing, owner, thread, removed, undo)
        return thread.outcome(commit, removed=removed)

    def _new_thread(self, commit: Commit, decided: Decision[Thread]) -> Thread:
        """A new thread, empty or forked, that is not in the store yet."""
        self._created += 1
        begin = commit.begin or Begin(incarnation=new_id())
        thread = Thread(
            thread_id=commit.thread_id,
            incarnation=begin.incarnation,
            epoch=begin.epoch,
            owner=decided.owner,
            ordinal=self._created,
            created_at=commit.at,
            updated_at=commit.at,
        )
        if decided.origin and commit.fork:
            source, checkpoint_id = decided.origin
            origin = source.namespaces[commit.fork.namespace][checkpoint_id]
            thread.copy(source, origin, commit.fork.as_checkpoint_id)
        return thread

    def _end_chain(self, commit: Commit) -> None:
        """Remember `commit`, after which the thread does not exist, as the end of the thread's chain."""
        if next_in_chain(commit) is not None:
            self._undo.take(self._ended, commit.thread_id)
            self._undo.put(self._ended, commit.thread_id, commit.commit_id)
            if len(self._ended) > _ENDS_KEPT:
                self._undo.take_first(self._ended)

    def _add_journal_entry(self, commit: Commit, after: str | None, left: Thread | None) -> None:
        """Add the commit's journal entry, if it has one. `after` is the end of the chain that it found."""
        if commit.journal is None:
            return
        self._journaled += 1
        entry = JournalEntry(
            position=self._journaled,
            thread_id=commit.thread_id,
            commit_id=commit.commit_id,
            after=after,
            incarnation=left.incarnation if left else None,
            at=commit.at,
            data=commit.journal,
        )
        self._undo.put(self._journal, entry.position, entry)

    def _delete(self, thread: Thread | None) -> int:
        if thread is None:
            return 0
        self._undo.take(self._threads, thread.thread_id)
        self._undo.take(self._leases, (thread.thread_id, lease_space(thread, ANY_USER)))
        thread.log.release(self._undo)
        return thread.checkpoint_count + len(thread.messages)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        with self._lock:
            self._undo.undo()
            thread = self._threads.get(thread_id)
            if thread:
                check_owner(thread_id, thread.owner, user)
            key = thread_id, lease_space(thread, user)
            last = self._leases.get(key)
            turn = turn_after(last, holder=holder, now=now, ttl=ttl, draw=self._draw)
            if turn is not None:
                last = self._leases[key] = lease_of(thread_id, turn)
            return last or LeaseRecord(thread_id=thread_id, holder=holder, token=0, since=now, expires_at=now)

    def _draw(self) -> int:
        self._token += 1
        return self._token

    async def feed(self, query: FeedQuery) -> FeedPage:
        bell = self._feed.bell
        heard = bell.listen()
        try:
            page = self._feed_page(query)
            if query.wait and not page.entries and not page.gap and query.after is not None:
                await heard_within(heard, query.wait)
                page = self._feed_page(query)
            return page
        finally:
            bell.hang_up(heard)

    def _feed_page(self, query: FeedQuery) -> FeedPage:
        with self._lock:
            self._undo.undo()
            return self._feed.page(query)

    async def own(self, name: Own) -> bytes | None:
        return self._own.get(name)

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        with self._lock:
            if self._own.get(name) == instead_of:
                self._own[name] = data
            return self._own.get(name) == data

    def _visible(self, thread_id: str, user: User) -> Thread | None:
        thread = self._threads.get(thread_id)
        return thread if thread and is_open_to(thread.owner, user) else None

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        with self._lock:
            self._undo.undo()
            thread = self._visible(query.thread_id, query.user)
            if thread is None:
                return CheckpointPage(basis=None)
            found: Iterable[CheckpointRecord] = thread.newest_first(query.namespace)
            if query.checkpoint_id is not None:
                found = thread.named(query.namespace, query.checkpoint_id)
            if query.before is not None:
                mark = max((each.sequence for each in thread.named(query.namespace, query.before)), default=0)
                found = (each for each in found if each.sequence < mark)
            if query.before_sequence is not None:
                end = query.before_sequence
                found = (each for each in found if each.sequence < end)
            if query.run_id is not None:
                found = (each for each in found if each.run_id == query.run_id)
            page = tuple(islice(found, query.limit))
            if query.detail == "info":
                return CheckpointPage(basis=thread.basis, checkpoints=tuple(map(info, page)))
            needed = [each for each in page if each.checkpoint_id != query.known] if query.detail == "state" else []
            covers = [each for checkpoint in needed for each in checkpoint.covers]
            return CheckpointPage(basis=thread.basis, checkpoints=page, rows=tuple(overlapping(thread.rows, covers)))

    async def values(self, query: ValueQuery) -> ValuePage:
        with self._lock:
            self._undo.undo()
            thread = self._visible(query.thread_id, query.user)
            if thread is None:
                return ValuePage(basis=None)
            if query.ranges is None:
                rows = thread.rows[bisect_right(thread.rows, query.since, key=lambda row: row.end) :]
            else:
                rows = overlapping(thread.rows, query.ranges)
            found = tuple(rows if query.data else (replace(row, data=b"") for row in rows))
            return ValuePage(
                basis=thread.basis,
                rows=found,
                fixed_before=thread.log.fixed_before,
                inherited=thread.log.inherited,
                sequence=thread.sequence,
                points=thread.points,
            )

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        with self._lock:
            self._undo.undo()
            thread = self._visible(query.thread_id, query.user)
            kept = thread.attachments if thread else {}
            if query.checkpoint_id is not None:
                found = list(kept.get((query.namespace, query.checkpoint_id), {}).values())
            else:
                found = [attachment for keyed in kept.values() for attachment in keyed.values()]
            return sorted(found, key=lambda each: (each.namespace, each.checkpoint_id, each.key))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        with self._lock:
            self._undo.undo()
            thread = self._visible(query.thread_id, query.user)
            page = page_of(thread, query) if thread else []
            return [replace(message, sequence=sequence) for sequence, message in page]

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        with self._lock:
            self._undo.undo()
            found = (
                FoundMessage(
                    thread_id=thread.thread_id, user_id=thread.owner, message=replace(message, sequence=sequence)
                )
                for thread in self._owned(query.user)
                for sequence, message in thread.messages.values()
                if query.search in message.text
            )
            return newest(found, query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        with self._lock:
            self._undo.undo()
            if query.thread_id is None:
                found = self._owned(query.user)
            else:
                thread = self._visible(query.thread_id, query.user)
                found = [thread] if thread else []
            needle = query.search or ""
            found = [thread for thread in found if needle in thread.text or needle in folded(thread.thread_id)]
            if query.labels:
                found = [thread for thread in found if set(query.labels) <= set(thread.labels)]
            if query.before is not None:
                at, name = query.before
                mark = self._threads.get(name)
                place = at, mark.ordinal if mark else self._created + 1
                found = [thread for thread in found if (thread.updated_at, thread.ordinal) < place]
            found.sort(key=lambda thread: (thread.updated_at, thread.ordinal), reverse=True)
            return [thread.record() for thread in found[query.offset : _stop(query)]]

    async def content(self, thread_id: str) -> Content | None:
        threads, values, checkpoints, attachments, messages = content_queries(thread_id)
        # None of these suspends, so one task holds the lock throughout.
        with self._lock:
            return content_of(
                await self.threads(threads),
                await self.values(values),
                await self.checkpoints(checkpoints),
                await self.attachments(attachments),
                await self.messages(messages),
            )

    async def journal(self, query: JournalQuery) -> JournalPage:
        with self._lock:
            self._undo.undo()
            wanted = (
                entry
                for entry in self._journal.values()
                if query.thread_id in (None, entry.thread_id) and entry.thread_id not in query.without
            )
            entries = tuple(islice(wanted, query.limit))
            thread = self._threads.get(query.thread_id) if query.receipts and query.thread_id is not None else None
            receipts = tuple(thread.recent_receipts) if thread else ()
            return JournalPage(entries=entries, count=len(self._journal), receipts=receipts)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        with self._lock:
            self._undo.undo()
            for entry in entries:
                self._journal.pop(entry.position, None)

    def _owned(self, user: User) -> list[Thread]:
        return [thread for thread in self._threads.values() if user is ANY_USER or thread.owner == user]

    async def stats(self, user: User) -> StorageStats:
        with self._lock:
            self._undo.undo()
            stored = sum(thread.size for thread in self._threads.values())
            return stats_of(self._owned(user), stored)


def _stop(query: MessageQuery | ThreadQuery) -> int | None:
    return None if query.limit is None else query.offset + query.limit
