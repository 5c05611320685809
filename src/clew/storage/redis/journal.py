"""The journal: entries lie in the keys of their threads, and indexes in other slots say which threads to look at.

An entry is written by the script that applies its commit, under the thread's own key: it is there if the commit is, in a
cluster too, and while slots move (`docs/decisions/0008`). **A commit that leaves an entry is acknowledged only when the index
has its thread, so every acknowledged entry is found.** An entry of a writer that died in between is found when the thread is
committed to next, when the commit comes again, or by the sweep: whoever reads the journal also goes over all keys, bit by bit.

Who commits knows by the thread's *listing*, a number in its key that the script returns, whether the index still has what
this process put there. Who wants to take a thread out of the index first changes the listing, in a script that finds no
entries, and then takes it out, unless the index has it with another listing than was read before. A commit that comes before
the change left an entry, which the script finds; one that comes after it sees a new listing, and enters the thread with
that. No clock is asked. Threads stay in the index for a while after their last entry was trimmed, so that the commits of a
busy thread cost no round trip more than others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from clew.errors import StorageError
from clew.model.queries import JournalPage, JournalQuery
from clew.model.records import JournalEntry
from clew.storage.packing import bytes_text, text_bytes
from clew.storage.redis.calling import Argument, Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import read_entry
from clew.storage.redis.scripts import ENTRIES, PENDING, QUIET, SURVEY, TRIM, UNLIST, Script

QUIET_FOR = 5.0
"""Seconds after which a thread without entries is taken out of the index."""
FEW = 500
"""Of so many threads it is asked each time how many entries they have; of more it is remembered for a while."""
EVERY = 1.0
"""Seconds between two steps of a sweep, and for which it is remembered how many entries there are,"""
PATIENCE = 10
"""or so many times as long as it took to ask."""
SWEPT_AT_ONCE = 1_000
"""Keys that one step of a sweep looks at, on each server."""
SWEEP_EVERY = 600.0
"""Seconds between the end of a sweep and the next one."""
_REMEMBERED = 100_000
_ASKED_AT_ONCE = 1_000
_DONE = -1


class Awaited:
    """What this process knows to be in the indexes of the journal: threads, each with its listing."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: dict[str, int] = {}

    def has(self, thread_id: str, listing: int) -> bool:
        """Whether the index has what a commit with this `listing` left; 0 is for nothing."""
        return not listing or self._known.get(thread_id) == listing

    def calls(self, thread_id: str, listing: int) -> list[tuple[Script, bytes, Sequence[Argument]]]:
        """The calls that have the index know the thread, unless it does."""
        if self.has(thread_id, listing):
            return []
        return [(PENDING, self._keys.journal(thread_id), (listing, text_bytes(thread_id)))]

    def remember(self, thread_id: str, listing: int) -> None:
        """The index has the thread."""
        if self.has(thread_id, listing):
            return
        if len(self._known) >= _REMEMBERED:
            for old in list(self._known)[: _REMEMBERED // 2]:
                self._known.pop(old, None)
        self._known[thread_id] = listing


class _Pending(NamedTuple):
    """The entries of a thread: how many, and a position that none is below."""

    entries: int
    oldest: int


class Journal:
    """Reads and trims the journal through one session."""

    def __init__(self, caller: Caller, keys: Keys) -> None:
        self._caller = caller
        self._keys = keys
        self._now = asyncio.get_running_loop().time
        self._pending: dict[str, _Pending] = {}
        self._ask_again = float("-inf")
        self._quiet: dict[str, float] = {}
        self._cursors: dict[str, int] = {}
        self._next_sweep = float("-inf")

    async def page(self, query: JournalQuery) -> JournalPage:
        """The oldest entries that `query` asks for, and how many there are."""
        await self._sweep_on()
        fresh = len(self._pending) + len(self._quiet) <= FEW or self._now() >= self._ask_again
        if fresh:
            await self._ask()
        entries, receipts = await self._entries(query)
        if not fresh and query.thread_id is None and len(entries) < query.limit:
            # There may be some that were not there when it was asked.
            await self._ask()
            entries, receipts = await self._entries(query)
        count = sum(each.entries for each in self._pending.values())
        return JournalPage(entries=entries, count=count, receipts=receipts)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        """Take entries out. Their threads stay in the index until they have been quiet for a while."""
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
        """The entries that `query` asks for, and the receipts of its thread, which are of the same moment."""
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
        # Those of a thread are in order already: two at one position are of two threads.
        found.sort(key=attrgetter("position"))
        return tuple(found[: query.limit]), tuple(map(bytes_text, receipts))

    # The index

    async def _ask(self) -> None:
        """Learn which threads have entries, and how many."""
        began = self._now()
        indexes = self._keys.journals()
        answers = await self._caller.commands([(key, ("ZRANGE", key, 0, -1, "WITHSCORES")) for key in indexes])
        listed: dict[str, tuple[bytes, bytes]] = {}
        for key, answer in zip(indexes, answers, strict=True):
            for name, listing in zip(answer[::2], answer[1::2], strict=True):
                listed[bytes_text(name)] = key, listing
        pending = await look_at(self._caller, self._keys, listed)
        self._pending = {name: _Pending(count, oldest) for name, (count, oldest, _) in pending.items()}
        now = self._now()
        self._quiet = {name: self._quiet.get(name, now) for name in listed if name not in pending}
        due = [name for name, since in self._quiet.items() if now >= since + QUIET_FOR]
        await self._take_out({name: listed[name] for name in due[:_ASKED_AT_ONCE]})
        self._ask_again = self._now() + max(EVERY, PATIENCE * (self._now() - began))

    async def _take_out(self, quiet: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Take threads without entries out of the index, each unless somebody has left an entry since."""
        try:
            answers = await self._caller.call_all([(QUIET, self._keys.thread(name), ()) for name in quiet])
            gone: dict[bytes, list[Argument]] = {}
            for (name, (index, listing)), answer in zip(quiet.items(), answers, strict=True):
                self._quiet.pop(name, None)
                if answer:
                    gone.setdefault(index, []).extend((text_bytes(name), listing))
            await self._caller.call_all([(UNLIST, index, arguments) for index, arguments in gone.items()])
        except StorageError:
            pass  # They are found quiet again. If memory is full, nothing is written, and the journal is still read.

    async def _sweep_on(self) -> None:
        """Go a step further over all keys, if it is time."""
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
                await find_entries(self._caller, self._keys, names)
                self._cursors[node.where] = cursor or _DONE
                done = done and not cursor
        except StorageError:
            return  # It goes on from there next time. A server whose memory is full has to be read from most of all.
        if done:
            self._cursors, self._next_sweep = {}, self._now() + SWEEP_EVERY


def shares(pending: Mapping[str, tuple[int, int]], limit: int) -> dict[str, int]:
    """How many of its oldest entries each thread gives to a page: those with the oldest ones, and none gives many while others
    wait. `pending`: how many a thread has, and a position that none is below."""
    first = sorted(pending, key=lambda name: pending[name][1])[:limit]
    most = 1
    while most < limit and sum(min(pending[name][0], most) for name in first) < limit:
        most *= 2
    return {name: min(pending[name][0], most, limit) for name in first}


async def look_at(caller: Caller, keys: Keys, names: Iterable[str]) -> dict[str, tuple[int, int, int]]:
    """Those of the named threads that have entries: how many, a position that none is below, the listing."""
    every = list(names)
    found: dict[str, tuple[int, int, int]] = {}
    for start in range(0, len(every), _ASKED_AT_ONCE):
        some = every[start : start + _ASKED_AT_ONCE]
        answers = await caller.call_for_each(SURVEY, [keys.thread(name) for name in some])
        found |= {name: tuple(answer) for name, answer in zip(some, answers, strict=True) if answer[0]}
    return found


async def find_entries(caller: Caller, keys: Keys, names: Iterable[str]) -> None:
    """Have the index know those of the named threads that have entries."""
    found = await look_at(caller, keys, names)
    arguments: dict[bytes, list[Argument]] = {}
    for name, (_, _, listing) in found.items():
        arguments.setdefault(keys.journal(name), []).extend((listing, text_bytes(name)))
    await caller.call_all([(PENDING, index, given) for index, given in arguments.items()])
