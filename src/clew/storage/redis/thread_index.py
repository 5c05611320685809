"""Indexes of threads, per user and of all: lists, totals, rebuilding.

Indexes are in other slots than the threads, so no script can write both. An index has an upper
bound of each thread's last activity. **A commit is acknowledged only when the indexes list its thread in its
current incarnation, under its current owner, with a bound that is not before its last activity.** The bound
of a busy thread is set some seconds ahead and remembered, so most commits write no index. A writer that dies
before it wrote the index has acknowledged nothing; the thread's next writer lists it.

A reader starts at the highest bound, reads the threads themselves, and stops when no later entry can come
before the threads that it has. Entries of threads that are gone or have another owner are removed, unless
they changed since they were read: a writer that creates the thread again lists it after that, which changes
the entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from random import randrange
from typing import Final, NamedTuple

from clew.bounded import BoundedMap
from clew.errors import CorruptRecordError, TransientStorageError
from clew.model.config import ANY_USER, User
from clew.model.message import folded
from clew.model.queries import StorageStats, ThreadQuery, Totals
from clew.model.records import ThreadRecord
from clew.storage.columns import THREAD as COLUMNS
from clew.storage.columns import pack_labels
from clew.storage.conversions import day, micros, text_bytes, text_or_bytes
from clew.storage.redis.caller import Argument, Caller
from clew.storage.redis.header import Header, read_header
from clew.storage.redis.journal import list_journals
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import day_number, digits_time, owner_name, time_digits
from clew.storage.redis.queries import ask, thread_arguments, thread_record
from clew.storage.redis.scripts import LIST, SEARCH_THREADS, THREAD, TOTALS, UNLIST, Script

AHEAD = timedelta(seconds=10)
"""The furthest that a bound is set ahead of its thread's activity."""
AT_LEAST = timedelta(seconds=2)
"""The least, once the thread was active a second time."""
_REMEMBERED = 100_000
_JITTER = 64
_SPARE = 32
"""Threads that are read beyond the requested number at first, because bounds are not exact."""
_READ_AT_ONCE = 1_000
_COUNTED_AT_ONCE = 20_000
"""Members of a thread that one script call counts. The server is blocked while a script runs."""
_SCANNED_AT_ONCE = 1_000
_LAST = 1 << 64
"""More than any thread's ordinal."""

Entry = tuple[float, str, bytes, bytes]
"""Bound, thread, the index, and the bound as the index has it."""


class Standing(NamedTuple):
    """A thread after a commit: incarnation, number of owner changes, owner, last activity."""

    incarnation: bytes
    moves: int
    owner: bytes
    updated: bytes


class _Known(NamedTuple):
    """An entry that this session made: the thread's incarnation, owner changes, activity, bound."""

    incarnation: bytes
    moves: int
    active: bytes
    bound: bytes


class ListedThreads:
    """The threads that this session has put into the indexes."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: BoundedMap[str, _Known] = BoundedMap(max_entries=_REMEMBERED)

    def has(self, thread_id: str, standing: Standing) -> bool:
        """Return whether the indexes list the thread with this standing."""
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
        """List the thread with this standing. The calls in `also` are pipelined with it."""
        active = until = digits_time(standing.updated)
        known = self._known.get(thread_id)
        if known is not None and known.incarnation == standing.incarnation and active > digits_time(known.active):
            # Few writes for a busy thread, a close bound for a quiet one.
            until += min(AHEAD, max(AT_LEAST, 2 * (active - digits_time(known.active))))
        await caller.call_all([*_listing_calls(self._keys, thread_id, owner_name(standing.owner), until), *also])
        entry = _Known(standing.incarnation, standing.moves, standing.updated, time_digits(until))
        self._known.put(thread_id, entry)

    def forget(self, thread_id: str) -> None:
        """Note that the thread was deleted."""
        self._known.pop(thread_id)


def _listing_calls(
    keys: Keys, thread_id: str, owner: str | None, until: datetime
) -> list[tuple[Script, bytes, list[Argument]]]:
    """Return the calls that list a thread, under its owner and among all, up to `until`."""
    # Random: an entry that was removed and made again must differ from what a slow reader saw.
    bound = b"%d%s" % (milliseconds(until) + 1 + randrange(_JITTER), b".%03d" % randrange(1000))
    arguments: list[Argument] = [text_bytes(thread_id), bound]
    return [(LIST, key, arguments) for key in (keys.of_user(owner), keys.bucket(thread_id))]


def milliseconds(at: datetime) -> int:
    """Return `at` in whole milliseconds, the unit of bounds."""
    return micros(at) // 1000


_NO_HEADER: Final = Header(
    *(b"", b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b"000000100000000000", b"000000100000000000", b"-")
)
"""The header of a thread whose own is damaged: it sorts last."""


class Found(NamedTuple):
    """A thread, and the header that it is sorted by."""

    header: Header
    record: ThreadRecord

    @property
    def place(self) -> tuple[bytes, int]:
        return self.header.updated, self.header.ordinal


async def list_threads(caller: Caller, keys: Keys, query: ThreadQuery) -> list[ThreadRecord]:
    """Return the threads that `query` asks for, most recently active first."""
    if query.thread_id is not None:
        found = await _read_thread(caller, keys, query, query.thread_id)
    else:
        found = await _walk(caller, keys, query)
    found.sort(key=lambda each: each.place, reverse=True)
    if query.before is not None:
        mark = await _mark(caller, keys, query.before)
        found = [each for each in found if each.place < mark]
    stop = None if query.limit is None else query.offset + query.limit
    return [each.record for each in found[query.offset : stop]]


async def _mark(caller: Caller, keys: Keys, before: tuple[datetime, str]) -> tuple[bytes, int]:
    """Return a place in the order. A thread that is gone counts as the last one made."""
    at, name = before
    with suppress(CorruptRecordError):
        read = thread_record(await caller.call(THREAD, keys.thread(name), b"*", b"", b""), name)
        if read is not None:
            return time_digits(at), read[0].ordinal
    return time_digits(at), _LAST


async def _walk(caller: Caller, keys: Keys, query: ThreadQuery) -> list[Found]:
    """Return at least the threads of the requested page, in any order.

    Bounds don't tell which threads come before a place (`query.before`), so all threads before it are read too.
    """
    needed = None if query.limit is None else query.offset + query.limit
    if needed == 0:
        return []
    depth = None if needed is None else needed + _SPARE
    seen: set[str] = set()
    found: list[Found] = []

    def complete(bound: float | None) -> bool:
        if bound is None or needed is None:
            return bound is None
        wanted = found
        if query.before is not None:
            # Those of the same moment are left out: they may come before the place.
            latest = time_digits(query.before[0])
            wanted = [each for each in found if each.header.updated < latest]
        return len(wanted) >= needed and _surely_after(wanted, needed, bound)

    while True:
        # Always from the top: an entry that moved up is found there, and the others have been seen.
        entries, below = await listed_threads(caller, keys, query.user, depth)
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
    """Return whether a thread with this bound sorts after the first `needed` of those found."""
    last = sorted((each.header.updated for each in found), reverse=True)[needed - 1]
    return milliseconds(digits_time(last)) > bound


async def listed_threads(caller: Caller, keys: Keys, user: User, depth: int | None) -> tuple[list[Entry], float | None]:
    """Return the entries with the highest bounds, and an upper bound of the others, if any."""
    last = -1 if depth is None else depth - 1
    indexes = keys.indexes(user)
    answers = await caller.commands([(key, ("ZREVRANGE", key, 0, last, "WITHSCORES")) for key in indexes])
    entries: list[Entry] = []
    below: float | None = None
    for key, answer in zip(indexes, answers, strict=True):
        # A name that is not valid text is no thread's.
        pairs = zip(map(text_or_bytes, answer[::2]), answer[1::2], strict=True)
        entries += [(float(score), name, key, score) for name, score in pairs if isinstance(name, str)]
        if depth is not None and len(answer) == 2 * depth:
            last_bound = float(answer[-1])
            below = last_bound if below is None else max(below, last_bound)
    entries.sort(reverse=True)
    if below is not None:
        entries = [entry for entry in entries if entry[0] >= below]
    return entries, below


async def _see(caller: Caller, keys: Keys, query: ThreadQuery, batch: list[Entry]) -> list[Found]:
    """Return the requested threads of `batch`, and remove entries of missing ones."""
    if query.search or query.labels:
        batch = await _searched(caller, keys, query, batch)
    names = [name for _, name, _, _ in batch]
    answers = await caller.call_threads([(THREAD, keys.thread(name), thread_arguments(query, name)) for name in names])
    found: list[Found] = []
    gone: dict[bytes, list[Argument]] = {}
    for (_, name, index, bound), answer in zip(batch, answers, strict=True):
        try:
            if isinstance(answer, CorruptRecordError):
                raise answer
            read = thread_record(answer, name)
        except CorruptRecordError:
            # Its owner is unknown too: it is listed for everybody whose index has it.
            found.append(Found(_NO_HEADER, COLUMNS.unreadable(thread_id=name)))
            continue
        if read is None or (query.user is not ANY_USER and read[0].user_id != query.user):
            gone.setdefault(index, []).extend((text_bytes(name), bound))
        elif read[1]:
            found.append(Found(read[0], read[1]))
    await _unlist(caller, gone)
    return found


async def _searched(caller: Caller, keys: Keys, query: ThreadQuery, batch: list[Entry]) -> list[Entry]:
    """Return those of `batch` with the text in id or description, and with the labels; hundreds per
    script call."""
    needle, labels = query.search or "", pack_labels(query.labels)
    by_name = [entry for entry in batch if needle in folded(entry[1])]
    others = [entry for entry in batch if needle not in folded(entry[1])]
    found: list[Entry] = [] if labels else by_name
    for entries, text in ((by_name if labels else [], b""), (others, text_bytes(needle))):
        threads = [keys.thread(name) for _, name, _, _ in entries]
        matches = await caller.call_for_each(SEARCH_THREADS, threads, text, labels) if threads else []
        found += [entry for entry, match in zip(entries, matches, strict=True) if match]
    return found


async def _unlist(caller: Caller, gone: dict[bytes, list[Argument]]) -> None:
    """Remove entries from indexes, by thread and bound, unless they have changed since."""
    # If it fails, the next reader finds them.
    with suppress(TransientStorageError):
        await caller.call_all([(UNLIST, index, arguments) for index, arguments in gone.items()])


async def _read_thread(caller: Caller, keys: Keys, query: ThreadQuery, name: str) -> list[Found]:
    """Return the named thread, if `query` asks for it."""
    read = thread_record(await ask(caller, THREAD, keys, name, *thread_arguments(query, name)), name)
    return [] if read is None or read[1] is None else [Found(read[0], read[1])]


async def totals(caller: Caller, keys: Keys, user: User) -> StorageStats:
    """Return totals of the user's threads. Each thread is a snapshot of its own."""
    by_thread: dict[str, Totals] = {}
    days: dict[int, list[int]] = {}
    for record in await list_threads(caller, keys, ThreadQuery(user=user, limit=None)):
        after, tokens = b"" if record.damage else b"0", [0, 0]
        while after:
            try:
                answer = await caller.call(TOTALS, keys.thread(record.thread_id), after, _COUNTED_AT_ONCE)
                if not answer:
                    break  # It was deleted meanwhile.
                header, after, *counts = answer
                fields = read_header(header, record.thread_id)
            except CorruptRecordError:
                break  # A record after those that were counted is damaged; `verify` names it.
            for at in range(0, len(counts), 7):
                number, *some = map(int, counts[at : at + 7])
                total = days.setdefault(day_number(number), [0] * 6)
                total[:] = [one + other for one, other in zip(total, some, strict=True)]
                tokens = [one + other for one, other in zip(tokens, some[4:], strict=True)]
            by_thread[record.thread_id] = Totals.counted(
                (fields.messages, fields.tool_calls, fields.checkpoints, fields.size, *tokens)
            )
    by_day = {day(number): Totals.counted(counts) for number, counts in sorted(days.items())}
    stored = 0
    for node in caller.router.masters():
        info = await caller.command_on(node, "INFO", "memory")
        used = next((line for line in info.splitlines() if line.startswith(b"used_memory:")), b"used_memory:0")
        stored += int(used.partition(b":")[2])
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=stored)


async def rebuild(caller: Caller, keys: Keys) -> None:
    """List every existing thread in all its indexes, and remove entries of missing threads."""
    indexes: set[bytes] = set()
    for node in caller.router.masters():
        cursor = 0
        while True:
            cursor, found = await caller.scan(node, keys.pattern, cursor, _SCANNED_AT_ONCE)
            names = [name for key in found if (name := keys.thread_of(key)) is not None]
            indexes.update(key for key in found if keys.is_index(key))
            await _list(caller, keys, names)
            await list_journals(caller, keys, names)
            if cursor == 0:
                break
    for user in {keys.user_of(index) for index in indexes}:
        await list_threads(caller, keys, ThreadQuery(user=user, limit=None))


async def _list(caller: Caller, keys: Keys, names: list[str]) -> None:
    answers = await caller.call_threads([(THREAD, keys.thread(name), (b"*", b"", b"")) for name in names])
    calls = []
    for name, answer in zip(names, answers, strict=True):
        # The entries of a damaged thread are left unchanged.
        with suppress(CorruptRecordError):
            if answer and not isinstance(answer, CorruptRecordError):
                header = read_header(answer[0], name)
                calls += _listing_calls(keys, name, header.user_id, digits_time(header.updated))
    await caller.call_all(calls)
