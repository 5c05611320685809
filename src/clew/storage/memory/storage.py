"""The memory storage: applies commits and answers queries, under one lock."""

from __future__ import annotations

import dataclasses
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from clew.errors import ClewError
from clew.ids import new_id
from clew.model.commit import Applied, Begin, Commit, Removal
from clew.model.config import ANY_USER, User
from clew.model.message import folded
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    Totals,
    ValuePage,
    ValueQuery,
)
from clew.model.records import (
    AttachmentRecord,
    CheckpointRecord,
    JournalEntry,
    LeaseRecord,
    MessageRecord,
    ThreadRecord,
)
from clew.storage.memory.facts import MemoryFacts, overlapping
from clew.storage.memory.thread import Thread, info, size_of
from clew.storage.protocol import Capabilities
from clew.storage.rules import Decision, adds, check_owner, decide, is_open_to, next_in_chain


class MemoryStorage:
    """A storage that lives as long as the object. Safe in any number of OS threads; its coroutines never suspend."""

    capabilities = Capabilities(name="memory", durable=False, suspends=False, shares_forks=True)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[str, Thread] = {}
        self._leases: dict[str, LeaseRecord] = {}
        self._journal: dict[int, JournalEntry] = {}
        self._journaled = 0
        self._created = 0
        self._token = 0
        self._facts = MemoryFacts(self._threads, self._leases)

    async def setup(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Nothing to let go of: what was stored stays until the object goes."""

    async def ping(self) -> None:
        """Always answers."""

    async def reclaim(self) -> None:
        """Nothing to give back: what is removed is freed at once."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        with self._lock:
            return [self._outcome(commit) for commit in commits]

    def _outcome(self, commit: Commit) -> Applied | ClewError:
        try:
            return self._apply(commit)
        except ClewError as error:
            return error

    def _apply(self, commit: Commit) -> Applied:
        decided = decide(commit, self._facts)
        existing, kept = decided.existing, decided.kept
        if decided.repeated and existing:
            return existing.outcome(commit, repeated=True)
        # Everything is decided: from here on nothing fails.
        if kept is None and not adds(commit):
            self._note(commit, existing, existing)
            return Applied(basis=None, removed=self._delete(existing))
        thread = kept or self._new_thread(commit, decided)
        if kept:
            removed = kept.remove(commit.remove or Removal(), decided.dropped)
        else:
            removed = self._delete(existing)
        if decided.origin:
            decided.origin[0].log.forks.append(thread.log)
        thread.sequence += 1
        thread.updated_at = max(thread.updated_at, commit.at)
        if commit.values:
            thread.append(commit.values)
        if commit.merge:
            thread.merge(commit.merge, decided.replaced)
        thread.add(commit, decided.parent)
        thread.remember(commit)
        self._note(commit, existing, thread)
        thread.last_in_chain = next_in_chain(commit)
        self._threads[commit.thread_id] = thread
        return thread.outcome(commit, removed=removed)

    def _new_thread(self, commit: Commit, decided: Decision[Thread]) -> Thread:
        """A thread that is not in the store yet: an empty one, or the copy that `commit` forks."""
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

    def _note(self, commit: Commit, found: Thread | None, left: Thread | None) -> None:
        """Enter the commit in the journal, if it is to be there."""
        if commit.journal is None:
            return
        self._journaled += 1
        self._journal[self._journaled] = JournalEntry(
            position=self._journaled,
            thread_id=commit.thread_id,
            commit_id=commit.commit_id,
            after=found.last_in_chain if found else None,
            incarnation=left.incarnation if left else None,
            at=commit.at,
            data=commit.journal,
        )

    def _delete(self, thread: Thread | None) -> int:
        if thread is None:
            return 0
        del self._threads[thread.thread_id]
        self._leases.pop(thread.thread_id, None)
        thread.log.release()
        return thread.checkpoint_count + len(thread.messages)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        with self._lock:
            if thread := self._threads.get(thread_id):
                check_owner(thread_id, thread.owner, user)
            last = self._leases.get(thread_id)
            expires_at = now + timedelta(seconds=ttl)
            if last and last.expires_at > now:
                if last.holder != holder:
                    return last
                lease = replace(last, expires_at=expires_at)
            elif ttl <= 0:
                return last or LeaseRecord(thread_id=thread_id, holder=holder, token=0, since=now, expires_at=now)
            else:
                self._token += 1
                token = self._token
                lease = LeaseRecord(thread_id=thread_id, holder=holder, token=token, since=now, expires_at=expires_at)
            self._leases[thread_id] = lease
            return lease

    def _visible(self, thread_id: str, user: User) -> Thread | None:
        thread = self._threads.get(thread_id)
        return thread if thread and is_open_to(thread.owner, user) else None

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        with self._lock:
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
            )

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        with self._lock:
            thread = self._visible(query.thread_id, query.user)
            kept = thread.attachments if thread else {}
            if query.checkpoint_id is not None:
                found = list(kept.get((query.namespace, query.checkpoint_id), {}).values())
            else:
                found = [attachment for keyed in kept.values() for attachment in keyed.values()]
            return sorted(found, key=lambda each: (each.namespace, each.checkpoint_id, each.key))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        with self._lock:
            thread = self._visible(query.thread_id, query.user)
            kept = thread.messages if thread else {}
            if query.message_id is not None:
                kept = {key: kept[key] for key in [query.message_id] if key in kept}
            needle = query.search or ""
            found = (each for each in kept.values() if needle in each[1].text)
            page = islice(found, query.offset, _stop(query))
            return [replace(message, sequence=sequence) for sequence, message in page]

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        with self._lock:
            if query.thread_id is None:
                found = self._owned(query.user)
            else:
                thread = self._visible(query.thread_id, query.user)
                found = [thread] if thread else []
            needle = query.search or ""
            found = [thread for thread in found if needle in thread.text or needle in folded(thread.thread_id)]
            found.sort(key=lambda thread: (thread.updated_at, thread.ordinal), reverse=True)
            return [thread.record() for thread in found[query.offset : _stop(query)]]

    async def journal(self, query: JournalQuery) -> JournalPage:
        with self._lock:
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
            for entry in entries:
                self._journal.pop(entry.position, None)

    def _owned(self, user: User) -> list[Thread]:
        return [thread for thread in self._threads.values() if user is ANY_USER or thread.owner == user]

    async def stats(self, user: User) -> StorageStats:
        with self._lock:
            by_thread: dict[str, Totals] = {}
            by_day: defaultdict[str, Totals] = defaultdict(Totals)
            for thread in self._owned(user):
                records: list[CheckpointRecord | MessageRecord] = list(thread.newest_first(None))
                records += [message for _, message in thread.messages.values()]
                ones = [_one(record) for record in records]
                by_thread[thread.thread_id] = dataclasses.replace(_sum(ones), bytes=thread.size)
                for record, one in zip(records, ones, strict=True):
                    day = record.created_at.astimezone(UTC).date().isoformat()
                    by_day[day] = _sum([by_day[day], one])
            stored = sum(thread.size for thread in self._threads.values())
            return StorageStats(by_thread=by_thread, by_day=dict(by_day), stored_bytes=stored)


def _one(record: CheckpointRecord | MessageRecord) -> Totals:
    if isinstance(record, CheckpointRecord):
        return Totals(checkpoints=1, bytes=size_of(record))
    return Totals(messages=1, tool_calls=record.tool_calls, bytes=size_of(record))


def _sum(totals: Iterable[Totals]) -> Totals:
    counts = [(each.messages, each.tool_calls, each.checkpoints, each.bytes) for each in totals]
    messages, tool_calls, checkpoints, size = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0, 0)
    return Totals(messages=messages, tool_calls=tool_calls, checkpoints=checkpoints, bytes=size)


def _stop(query: MessageQuery | ThreadQuery) -> int | None:
    return None if query.limit is None else query.offset + query.limit
