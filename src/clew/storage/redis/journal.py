"""The journal: entries are in the keys of their threads; indexes in other slots list the threads
that have some.

The script that applies a commit writes its entry under the thread's key, so the entry exists if and
only if the commit does, in a cluster too and while slots move (`docs/decisions/0008`). **A commit
with an entry is acknowledged only when the index lists its thread, so every acknowledged entry is
found.** If a writer dies in between, its entry is found when the thread is next committed to, when
the commit is retried, or by the sweep: reading the journal also scans all keys, a few at a time.

Each thread's key has a *listing*, a number that the commit script returns. It tells a writer
whether the index still has the entry that it made. To remove a thread from the index, a reader first changes
the listing, in a script that verifies that the thread has no journal entries. Then it removes the index
entry, unless the entry's listing has changed since the reader read it. A commit before the change left a
journal entry, which the script finds. A commit after it sees the new listing and lists the thread again. No
clock is involved. Threads stay in the index for a while after their last entry was trimmed, so that commits
to a busy thread need no extra round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from clew.bounded import BoundedMap
from clew.errors import StorageError
from clew.model.queries import JournalPage, JournalQuery
from clew.model.records import JournalEntry
from clew.storage.conversions import bytes_text, text_bytes
from clew.storage.redis.caller import Argument, Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import read_entry
from clew.storage.redis.scripts import ENTRIES, INVALIDATE_LISTING, LIST_JOURNAL, SURVEY, TRIM, UNLIST, Script

QUIET_FOR = 5.0
"""Seconds after which a thread without entries is removed from the index."""
FEW = 500
"""Up to this many threads are counted at every read. The counts of more are cached."""
EVERY = 1.0
"""Seconds between two steps of a sweep, and the least time that counts are cached."""
PATIENCE = 10
"""Counts are cached for at least this multiple of the time that counting took."""
SWEPT_AT_ONCE = 1_000
"""Keys that one step of a sweep scans on each server."""
SWEEP_EVERY = 600.0
"""Seconds between the end of a sweep and the next one."""
_REMEMBERED = 100_000
_SURVEYED_AT_ONCE = 1_000
_DONE = -1


class ListedJournals:
    """The threads that this session has put into the journal's indexes, each with its listing."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: BoundedMap[str, int] = BoundedMap(max_entries=_REMEMBERED)

    def has(self, thread_id: str, listing: int) -> bool:
        """Return whether the index has the thread with this `listing`; 0 means no entry."""
        return not listing or self._known.get(thread_id) == listing

    def calls(self, thread_id: str, listing: int) -> list[tuple[Script, bytes, Sequence[Argument]]]:
        """Return the calls that list the thread; none if the index has it."""
        if self.has(thread_id, listing):
            return []
        return [(LIST_JOURNAL, self._keys.journal(thread_id), (listing, text_bytes(thread_id)))]

    def remember(self, thread_id: str, listing: int) -> None:
        """Note that the index has the thread."""
        if listing:
            self._known.put(thread_id, listing)


class _Pending(NamedTuple):
    """A thread's entries: their number, and a lower bound of their positions."""

    entries: int
    oldest: int


class Journal:
    """Reads and trims the journal through one session."""

    def __init__(self, caller: Caller, keys: Keys) -> None:
        self._caller = caller
        self._keys = keys
        self._now = asyncio.get_running_loop().time
        self._pending: dict[str, _Pending] = {}
        self._next_count = float("-inf")
        self._quiet: dict[str, float] = {}
        self._cursors: dict[str, int] = {}
        self._next_sweep = float("-inf")

    async def page(self, query: JournalQuery) -> JournalPage:
        """Return the oldest entries that `query` asks for, and the number of all entries."""
        await self._sweep_step()
        fresh = len(self._pending) + len(self._quiet) <= FEW or self._now() >= self._next_count
        if fresh:
            await self._count()
        entries, receipts = await self._entries(query)
        if not fresh and query.thread_id is None and len(entries) < query.limit:
            # There may be entries that are newer than the cached counts.
            await self._count()
            entries, receipts = await self._entries(query)
        count = sum(each.entries for each in self._pending.values())
        return JournalPage(entries=entries, count=count, receipts=receipts)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        """Remove entries. Their threads stay in the index until they were quiet for a while."""
        positions: dict[str, list[Argument]] = {}
        for entry in entries:
            positions.setdefault(entry.thread_id, []).append(entry.position)
        answers = await self._caller.call_all(
            [(TRIM, self._keys.thread(name), given) for name, given in positions.items()]
        )
        now = self._now()
        for name, (count, oldest) in zip(positions, answers, strict=True):
            self._note(name, count, oldest)
            if not count:
                self._quiet[name] = now

    def _note(self, name: str, count: int, oldest: int) -> None:
        if count:
            self._pending[name] = _Pending(count, oldest)
            self._quiet.pop(name, None)
        else:
            self._pending.pop(name, None)

    # Reading

    async def _entries(self, query: JournalQuery) -> tuple[tuple[JournalEntry, ...], tuple[str, ...]]:
        """Return the requested entries, and the thread's receipts from the same snapshot."""
        if query.thread_id is not None:
            wanted = {query.thread_id: 0 if query.thread_id in query.without else query.limit}
        else:
            others = {name: each for name, each in self._pending.items() if name not in query.without}
            wanted = shares(others, query.limit)
        asked = 1 if query.receipts and query.thread_id is not None else 0
        calls = [(ENTRIES, self._keys.thread(name), (count, asked)) for name, count in wanted.items()]
        found: list[JournalEntry] = []
        receipts: list[bytes] = []
        for name, answer in zip(wanted, await self._caller.call_all(calls), strict=True):
            count, stored, receipts = answer
            entries = [read_entry(each, name) for each in stored]
            if entries or not count:
                self._note(name, count, entries[0].position if entries else 0)
            found += entries
        # Stable: each thread's entries are in order already.
        found.sort(key=attrgetter("position"))
        return tuple(found[: query.limit]), tuple(map(bytes_text, receipts))

    # The index

    async def _count(self) -> None:
        """Count the entries of each thread, and remove quiet threads from the index."""
        began = self._now()
        indexes = self._keys.journals()
        answers = await self._caller.commands([(key, ("ZRANGE", key, 0, -1, "WITHSCORES")) for key in indexes])
        listed: dict[str, tuple[bytes, bytes]] = {}
        for key, answer in zip(indexes, answers, strict=True):
            for name, listing in zip(answer[::2], answer[1::2], strict=True):
                listed[bytes_text(name)] = key, listing
        pending = await _survey(self._caller, self._keys, listed)
        self._pending = {name: _Pending(count, oldest) for name, (count, oldest, _) in pending.items()}
        now = self._now()
        self._quiet = {name: self._quiet.get(name, now) for name in listed if name not in pending}
        due = [name for name, since in self._quiet.items() if now >= since + QUIET_FOR]
        await self._unlist({name: listed[name] for name in due[:_SURVEYED_AT_ONCE]})
        self._next_count = self._now() + max(EVERY, PATIENCE * (self._now() - began))

    async def _unlist(self, quiet: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Remove threads without entries from the index, except those that have got an entry since."""
        try:
            answers = await self._caller.call_all([(INVALIDATE_LISTING, self._keys.thread(name), ()) for name in quiet])
            gone: dict[bytes, list[Argument]] = {}
            for (name, (index, listing)), answer in zip(quiet.items(), answers, strict=True):
                self._quiet.pop(name, None)
                if answer:
                    gone.setdefault(index, []).extend((text_bytes(name), listing))
            await self._caller.call_all([(UNLIST, index, arguments) for index, arguments in gone.items()])
        except StorageError:
            pass  # The next count retries. The journal stays readable while memory is full.

    async def _sweep_step(self) -> None:
        """Scan some more keys, if it is time."""
        if self._now() < self._next_sweep:
            return
        self._next_sweep = self._now() + EVERY
        done = True
        try:
            for node in self._caller.router.masters():
                cursor = self._cursors.get(node.where, 0)
                if cursor == _DONE:
                    continue
                cursor, found = await self._caller.scan(node, self._keys.pattern, cursor, SWEPT_AT_ONCE)
                names = [name for key in found if (name := self._keys.thread_of(key)) is not None]
                await list_journals(self._caller, self._keys, names)
                self._cursors[node.where] = cursor or _DONE
                done = done and not cursor
        except StorageError:
            return  # The next step resumes here. The journal stays readable while memory is full.
        if done:
            self._cursors, self._next_sweep = {}, self._now() + SWEEP_EVERY


def shares(pending: Mapping[str, tuple[int, int]], limit: int) -> dict[str, int]:
    """Return how many of its oldest entries each thread contributes to a page.

    Threads with the oldest entries come first, and they share the page fairly. `pending` has each
    thread's number of entries and a lower bound of their positions.
    """
    first = sorted(pending, key=lambda name: pending[name][1])[:limit]
    most = 1
    while most < limit and sum(min(pending[name][0], most) for name in first) < limit:
        most *= 2
    return {name: min(pending[name][0], most, limit) for name in first}


async def _survey(caller: Caller, keys: Keys, names: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """Return, for threads with entries: their number, lowest possible position, listing."""
    every = list(names)
    found: dict[str, tuple[int, int, int]] = {}
    for start in range(0, len(every), _SURVEYED_AT_ONCE):
        some = every[start : start + _SURVEYED_AT_ONCE]
        answers = await caller.call_for_each(SURVEY, [keys.thread(name) for name in some])
        found |= {name: tuple(answer) for name, answer in zip(some, answers, strict=True) if answer[0]}
    return found


async def list_journals(caller: Caller, keys: Keys, names: Iterable[str]) -> None:
    """Put those of the named threads that have entries into the index."""
    found = await _survey(caller, keys, names)
    arguments: dict[bytes, list[Argument]] = {}
    for name, (_, _, listing) in found.items():
        arguments.setdefault(keys.journal(name), []).extend((listing, text_bytes(name)))
    await caller.call_all([(LIST_JOURNAL, index, given) for index, given in arguments.items()])
