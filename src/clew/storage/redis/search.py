"""Search across threads: asks each thread of the user for its newest matches.

There is no index: the time grows with the number of the user's messages. Each thread is a snapshot
of its own. Threads that are deleted meanwhile, or have another owner by now, give nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from clew.errors import CorruptRecordError
from clew.model.queries import SearchQuery
from clew.model.records import FoundMessage
from clew.storage.conversions import micros, text_bytes
from clew.storage.found import newest
from clew.storage.redis.caller import Argument, Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import owner_name, read_message, stored_day, user_field
from clew.storage.redis.queries import SCANNED_AT_ONCE
from clew.storage.redis.scripts import SEARCH
from clew.storage.redis.thread_index import listed_threads

_THREADS_AT_ONCE: Final = 500
"""How many threads are asked before their answers are read."""
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


async def search(caller: Caller, keys: Keys, query: SearchQuery) -> list[FoundMessage]:
    """Return the newest matches in the user's threads, the most recently active threads first."""
    if query.limit == 0:
        return []
    entries, _ = await listed_threads(caller, keys, query.user, None)
    names = list(dict.fromkeys(name for _, name, _, _ in entries))
    page: list[FoundMessage] = []
    for at in range(0, len(names), _THREADS_AT_ONCE):
        page = newest([*page, *await _found(caller, keys, query, names[at : at + _THREADS_AT_ONCE])], query)
    return page


async def _found(caller: Caller, keys: Keys, query: SearchQuery, names: list[str]) -> list[FoundMessage]:
    """Return the newest matches of each of the threads."""
    found: list[FoundMessage] = []
    after: dict[str, bytes] = dict.fromkeys(names, b"0")
    while after:
        calls = [(SEARCH, keys.thread(name), _arguments(query, resume)) for name, resume in after.items()]
        answers = await caller.call_threads(calls)
        unfinished: dict[str, bytes] = {}
        for name, answer in zip(after, answers, strict=True):
            if isinstance(answer, CorruptRecordError):
                continue
            resume, owner, *records = answer
            if resume:
                unfinished[name] = resume
            found += [
                FoundMessage(thread_id=name, user_id=owner_name(owner), message=read_message(each)) for each in records
            ]
        after = unfinished
    return found


def _arguments(query: SearchQuery, after: bytes) -> list[Argument]:
    at = micros(query.before[0] if query.before else _LATEST)
    day, microsecond = stored_day(at)
    limit: Argument = b"" if query.limit is None else query.limit
    return [user_field(query.user), text_bytes(query.search), day, microsecond, limit, after, SCANNED_AT_ONCE]
