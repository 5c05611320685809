"""Results of searches across threads: the newest of a set, and a scan that any storage can do."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from clew.errors import CorruptRecordError
from clew.model.queries import MessageQuery, SearchQuery, ThreadQuery
from clew.model.records import FoundMessage, Place
from clew.storage.protocol import Storage


def newest(found: Iterable[FoundMessage], query: SearchQuery) -> list[FoundMessage]:
    """Return the page of `query` from `found`, which has all matches, in any order.

    Damaged messages are left out: they have no place in the order.
    """
    before = query.before
    fitting = (each for each in found if not each.message.damage and (before is None or each.place < before))
    if query.limit is None:
        return sorted(fitting, key=_place, reverse=True)
    return heapq.nlargest(query.limit, fitting, key=_place)


def _place(found: FoundMessage) -> Place:
    return found.place


async def scanned(storage: Storage, query: SearchQuery) -> list[FoundMessage]:
    """Answer `query` by reading all messages of the user's threads, thread by thread.

    For storages that can't search the stored texts. Steps over damaged threads.
    """
    if query.limit == 0:
        return []
    page: list[FoundMessage] = []
    # All at once: pages would skip a thread if one before it were deleted meanwhile.
    for thread in await storage.threads(ThreadQuery(user=query.user, limit=None)):
        if not thread.message_count and not thread.damage:
            continue
        name, owner = thread.thread_id, thread.user_id
        try:
            read = await storage.messages(
                MessageQuery(thread_id=name, user=query.user, search=query.search, limit=None)
            )
        except CorruptRecordError:
            continue
        page = newest([*page, *(FoundMessage(thread_id=name, user_id=owner, message=each) for each in read)], query)
    return page
