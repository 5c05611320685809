"""Pages of a thread's messages: between two of them, of one branch, from either end."""

from __future__ import annotations

from clew.model.queries import MessageQuery
from clew.model.records import MessageRecord, Range
from clew.storage.branches import is_within, visible
from clew.storage.memory.thread import Thread

Said = tuple[int, MessageRecord]
"""The thread's sequence number when the message was added, and the message."""


def page_of(thread: Thread, query: MessageQuery) -> list[Said]:
    """The messages of `thread` that `query` asks for, in order."""
    found = _between(thread.messages, query)
    if query.message_id is not None:
        found = [each for each in found if each[1].message_id == query.message_id]
    elif isinstance(query.branch, str) or (query.branch is not None and thread.points):
        ranges = _branch(thread, query)
        found = [each for each in found if is_within(ranges, each[0])]
    needle = query.search or ""
    found = [each for each in found if needle in each[1].text]
    stop = None if query.limit is None else query.offset + query.limit
    return found[::-1][query.offset : stop][::-1] if query.newest else found[query.offset : stop]


def _between(messages: dict[str, Said], query: MessageQuery) -> list[Said]:
    """The messages after `query.after` and before `query.before`."""
    if query.after is None and query.before is None:
        return list(messages.values())
    places = {name: place for place, name in enumerate(messages)}
    if not all(name is None or name in places for name in (query.after, query.before)):
        return []
    start = 0 if query.after is None else places[query.after] + 1
    stop = None if query.before is None else places[query.before]
    return list(messages.values())[start:stop]


def _branch(thread: Thread, query: MessageQuery) -> list[Range]:
    """The sequence numbers of the branch that `query` asks for."""
    if isinstance(query.branch, str):
        number = thread.of_checkpoint(query.namespace, query.branch)
        return [] if number is None else visible(thread.points, number)
    return visible(thread.points)
