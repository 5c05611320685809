"""The indexes of threads, by user and of all. They lie in other slots than the threads, so no script writes both.

An index has for each thread an upper bound of its last activity. **A commit is acknowledged only when the indexes have its
thread in its present incarnation, under its present owner, with a bound that is not below its last activity.** The bound of a
busy thread is set ahead, up to a minute, and remembered, so most commits write no index at all. Whoever died before it
got there acknowledged nothing; whoever commits to the thread next lists it.

A reader walks down from the highest bound, reads the threads themselves, and stops when nothing further down can come
before what it has. What it finds gone, or moved to another owner, it takes out, if nobody has listed it since: it saw the
entry before it saw that the thread was not there, and whoever made the thread after that lists it after that, which
changes the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import randrange
from typing import NamedTuple

from clew.errors import TransientStorageError
from clew.model.config import ANY_USER, User
from clew.model.message import folded
from clew.model.queries import ThreadQuery
from clew.model.records import ThreadRecord
from clew.storage.packing import micros, text_bytes
from clew.storage.redis.calling import Argument, Caller
from clew.storage.redis.committing import Standing
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import Header, digits_time, owner_name, time_digits
from clew.storage.redis.reading import thread_arguments, thread_record
from clew.storage.redis.scripts import FOUND, LIST, THREAD, UNLIST, Script

AHEAD = timedelta(seconds=10)
"""How far ahead of a thread's activity its bound is set at most."""
AT_LEAST = timedelta(seconds=2)
"""And at least, once the thread was active a second time."""
_REMEMBERED = 100_000
_CHANCE = 64
_SPARE = 32
"""How many more than the asked-for threads are looked at first: bounds are not exact."""
_READ_AT_ONCE = 1_000

Entry = tuple[float, str, bytes, bytes]
"""Bound, thread, the index that has it, and the bound as it is written there."""


class _Known(NamedTuple):
    """An entry that this process made: of which incarnation and owner, how active it was then, up to when it holds."""

    incarnation: bytes
    moves: int
    active: bytes
    bound: bytes


class Listed:
    """What this process knows to be in the indexes."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: dict[str, _Known] = {}

    def has(self, thread_id: str, standing: Standing) -> bool:
        """Whether the indexes have the thread as it stands."""
        known = self._known.get(thread_id)
        return (
            known is not None
            and standing.updated <= known.bound
            and known.incarnation == standing.incarnation
            and known.moves == standing.moves
        )

    async def add(
        self,
        caller: Caller,
        thread_id: str,
        standing: Standing,
        also: Sequence[tuple[Script, bytes, Sequence[Argument]]] = (),
    ) -> None:
        """Have the indexes list the thread as it stands; the calls of `also` go along."""
        active = until = digits_time(standing.updated)
        known = self._known.get(thread_id)
        if known is not None and known.incarnation == standing.incarnation and active > digits_time(known.active):
            # Twice as far as it came since: few entries are made of a busy thread, and a quiet one's bound is close.
            until += min(AHEAD, max(AT_LEAST, 2 * (active - digits_time(known.active))))
        await caller.call_all([*self.calls(thread_id, owner_name(standing.owner), until), *also])
        if len(self._known) >= _REMEMBERED:
            for old in list(self._known)[: _REMEMBERED // 2]:
                self._known.pop(old, None)
        self._known[thread_id] = _Known(standing.incarnation, standing.moves, standing.updated, time_digits(until))

    def calls(self, thread_id: str, owner: str | None, until: datetime) -> list[tuple[Script, bytes, list[Argument]]]:
        """The calls that list a thread under its owner, and among all, as active until then at most."""
        # A fraction by chance: an entry that was taken out and made again must not look like the one that a slow reader saw.
        bound = b"%d%s" % (milliseconds(until) + 1 + randrange(_CHANCE), b".%03d" % randrange(1000))
        arguments: list[Argument] = [text_bytes(thread_id), bound]
        return [(LIST, key, arguments) for key in (self._keys.of_user(owner), self._keys.bucket(thread_id))]

    def forget(self, thread_id: str) -> None:
        """The thread was deleted."""
        self._known.pop(thread_id, None)


def milliseconds(at: datetime) -> int:
    """The millisecond that `at` is in: the unit of bounds."""
    return micros(at) // 1000


class Found(NamedTuple):
    """A thread with what its place in a list goes by."""

    header: Header
    record: ThreadRecord

    @property
    def place(self) -> tuple[bytes, int]:
        return self.header.updated, self.header.ordinal


async def list_threads(caller: Caller, keys: Keys, query: ThreadQuery) -> list[ThreadRecord]:
    """The threads that `query` asks for, the last active first."""
    if query.thread_id is not None:
        found = await read_threads(caller, keys, query, [query.thread_id])
    else:
        found = await _walk(caller, keys, query)
    found.sort(key=lambda each: each.place, reverse=True)
    stop = None if query.limit is None else query.offset + query.limit
    return [each.record for each in found[query.offset : stop]]


async def _walk(caller: Caller, keys: Keys, query: ThreadQuery) -> list[Found]:
    """At least the threads of the asked-for page, in no order."""
    needed = None if query.limit is None else query.offset + query.limit
    if needed == 0:
        return []
    depth = None if needed is None else needed + _SPARE
    seen: set[str] = set()
    found: list[Found] = []

    def complete(bound: float | None) -> bool:
        return bound is None or (needed is not None and len(found) >= needed and _surely_after(found, needed, bound))

    while True:
        # Each time anew from the top: an entry that moved up meanwhile is there, and one that did not has been seen.
        entries, below = await _entries(caller, keys, query.user, depth)
        unseen = [entry for entry in entries if entry[1] not in seen]
        at_once = min(depth or _READ_AT_ONCE, _READ_AT_ONCE)
        for at in range(0, len(unseen), at_once):
            if complete(unseen[at][0]):
                return found
            batch = unseen[at : at + at_once]
            seen.update(name for _, name, _, _ in batch)
            found += await _see(caller, keys, query, batch)
        if complete(below):
            return found
        depth = None if depth is None else 2 * depth


def _surely_after(found: list[Found], needed: int, bound: float) -> bool:
    """Whether a thread with this bound comes after the first `needed` of those found."""
    last = sorted((each.header.updated for each in found), reverse=True)[needed - 1]
    return milliseconds(digits_time(last)) > bound


async def _entries(caller: Caller, keys: Keys, user: User, depth: int | None) -> tuple[list[Entry], float | None]:
    """The first entries by their bounds, and a bound that all others are not above (`None`: there are no others)."""
    last = -1 if depth is None else depth - 1
    indexes = keys.indexes(user)
    answers = await caller.commands([(key, ("ZREVRANGE", key, 0, last, "WITHSCORES")) for key in indexes])
    entries: list[Entry] = []
    below: float | None = None
    for key, answer in zip(indexes, answers, strict=True):
        pairs = zip(answer[::2], answer[1::2], strict=True)
        part = [(float(score), name.decode("utf-8", "surrogatepass"), key, score) for name, score in pairs]
        entries += part
        if depth is not None and len(part) == depth:
            below = part[-1][0] if below is None else max(below, part[-1][0])
    entries.sort(reverse=True)
    if below is not None:
        entries = [entry for entry in entries if entry[0] >= below]
    return entries, below


async def _see(caller: Caller, keys: Keys, query: ThreadQuery, batch: list[Entry]) -> list[Found]:
    """Those of `batch` that `query` asks for. Threads that are not there are taken out of the index."""
    if query.search:
        batch = await _searched(caller, keys, query.search, batch)
    names = [name for _, name, _, _ in batch]
    answers = await caller.call_all([(THREAD, keys.thread(name), thread_arguments(query, name)) for name in names])
    found: list[Found] = []
    gone: dict[bytes, list[Argument]] = {}
    for (_, name, index, bound), answer in zip(batch, answers, strict=True):
        read = thread_record(answer, name)
        if read is None or (query.user is not ANY_USER and read[0].user_id != query.user):
            gone.setdefault(index, []).extend((text_bytes(name), bound))
        elif read[1]:
            found.append(Found(read[0], read[1]))
    await unlist(caller, gone)
    return found


async def _searched(caller: Caller, keys: Keys, needle: str, batch: list[Entry]) -> list[Entry]:
    """Those of `batch` that have the text, in their ids or in what describes them: a server looks at hundreds in one call."""
    others = [keys.thread(name) for _, name, _, _ in batch if needle not in folded(name)]
    having = iter(await caller.call_for_each(FOUND, others, text_bytes(needle)))
    return [entry for entry in batch if needle in folded(entry[1]) or next(having)]


async def unlist(caller: Caller, gone: dict[bytes, list[Argument]]) -> None:
    """Take entries out of indexes, by thread and bound, unless they have changed since."""
    try:
        await caller.call_all([(UNLIST, index, arguments) for index, arguments in gone.items()])
    except TransientStorageError:
        pass  # They are found gone again next time.


async def read_threads(caller: Caller, keys: Keys, query: ThreadQuery, names: Iterable[str]) -> list[Found]:
    """Those of the named threads that `query` asks for."""
    calls = [(name, keys.thread(name), thread_arguments(query, name)) for name in names]
    answers = await caller.call_all([(THREAD, key, arguments) for _, key, arguments in calls])
    found: list[Found] = []
    for (name, _, _), answer in zip(calls, answers, strict=True):
        read = thread_record(answer, name)
        if read is not None and read[1] is not None:
            found.append(Found(read[0], read[1]))
    return found
