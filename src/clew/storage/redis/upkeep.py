"""What walks over all threads: totals, and the indexes made anew."""

from __future__ import annotations

from clew.model.config import User
from clew.model.queries import StorageStats, ThreadQuery, Totals
from clew.storage.packing import day
from clew.storage.redis.calling import Caller
from clew.storage.redis.journal import find_entries
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import day_number, digits_time, read_header
from clew.storage.redis.listing import Listed, list_threads
from clew.storage.redis.scripts import THREAD, TOTALS

_COUNTED_AT_ONCE = 20_000
"""How many members of a thread one script call looks at: the server does nothing else meanwhile."""
_SCANNED_AT_ONCE = 1_000


async def totals(caller: Caller, keys: Keys, user: User) -> StorageStats:
    """Totals of the user's threads, each as it was when it was read."""
    by_thread: dict[str, Totals] = {}
    days: dict[int, list[int]] = {}
    for record in await list_threads(caller, keys, ThreadQuery(user=user, limit=None)):
        after = b"0"
        while after:
            answer = await caller.call(TOTALS, keys.thread(record.thread_id), after, _COUNTED_AT_ONCE)
            if not answer:
                break  # It was deleted meanwhile.
            header, after, *counts = answer
            fields = read_header(header, record.thread_id)
            by_thread[record.thread_id] = Totals(
                messages=fields.messages,
                tool_calls=fields.tool_calls,
                checkpoints=fields.checkpoints,
                bytes=fields.size,
            )
            for at in range(0, len(counts), 5):
                number, *some = map(int, counts[at : at + 5])
                total = days.setdefault(day_number(number), [0, 0, 0, 0])
                total[:] = [one + other for one, other in zip(total, some, strict=True)]
    by_day = {
        day(number): Totals(messages=messages, tool_calls=tool_calls, checkpoints=checkpoints, bytes=size)
        for number, (messages, tool_calls, checkpoints, size) in sorted(days.items())
    }
    stored = 0
    for node in caller.router.masters():
        info = await caller.command_on(node, "INFO", "memory")
        used = next((line for line in info.splitlines() if line.startswith(b"used_memory:")), b"used_memory:0")
        stored += int(used.partition(b":")[2])
    return StorageStats(by_thread=by_thread, by_day=by_day, stored_bytes=stored)


async def rebuild(caller: Caller, keys: Keys, listed: Listed) -> None:
    """List every thread that there is, and every one with entries in the journal; take out of the indexes what is not."""
    indexes: set[bytes] = set()
    for node in caller.router.masters():
        cursor = 0
        while True:
            cursor, found = await caller.scan(node, keys.pattern, cursor, _SCANNED_AT_ONCE)
            names = [name for key in found if (name := keys.thread_of(key)) is not None]
            indexes.update(key for key in found if keys.is_index(key))
            await _list(caller, keys, listed, names)
            await find_entries(caller, keys, names)
            if cursor == 0:
                break
    for user in {keys.user_of(index) for index in indexes}:
        await list_threads(caller, keys, ThreadQuery(user=user, limit=None))


async def _list(caller: Caller, keys: Keys, listed: Listed, names: list[str]) -> None:
    answers = await caller.call_all([(THREAD, keys.thread(name), (b"*", b"")) for name in names])
    calls = []
    for name, answer in zip(names, answers, strict=True):
        if answer:
            header = read_header(answer[0], name)
            calls += listed.calls(name, header.user_id, digits_time(header.updated))
    await caller.call_all(calls)
