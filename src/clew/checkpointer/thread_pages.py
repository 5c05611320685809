"""Threads page by page: each page begins after the last thread of the one before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from clew.checkpointer.engine import Engine
from clew.errors import ConfigError, shown
from clew.model.queries import ThreadQuery
from clew.model.records import ThreadRecord
from clew.model.thread import ThreadInfo

FIRST_PAGE: Final = 1_000
LARGEST_PAGE: Final = 8_000
"""Threads read at a time. Pages grow, because Redis reads the threads before a page again."""

Place = tuple[datetime, str]


async def thread_pages(
    engine: Engine, query: ThreadQuery, first: int = FIRST_PAGE
) -> AsyncIterator[list[ThreadRecord]]:
    """Yield the threads that `query` describes. Each page shows the store at the time of its read.

    Writes, deletions and new threads move no other thread to another page. A thread that is written
    to meanwhile moves to the front: if it was not read yet, it is not read.
    """
    left, size = query.limit, first
    while left != 0:
        wanted = size if left is None else min(size, left)
        page = await engine.threads(replace(query, limit=wanted))
        if page:
            yield page
        if len(page) < wanted:
            return
        query = after(query, page)
        left = None if left is None else left - len(page)
        size = min(4 * size, LARGEST_PAGE)


def after(query: ThreadQuery, page: Sequence[ThreadRecord]) -> ThreadQuery:
    """Return the query for what comes after `page`. The time of a damaged thread can't be trusted."""
    for skipped, record in enumerate(reversed(page)):
        if not record.damage:
            return replace(query, before=place_of(record), offset=skipped)
    return replace(query, offset=query.offset + len(page))


def place_of(record: ThreadRecord) -> Place:
    return record.updated_at, record.thread_id


async def all_threads(engine: Engine, query: ThreadQuery) -> list[ThreadRecord]:
    """Return the threads that `query` describes, including those that were written to meanwhile."""
    found: list[ThreadRecord] = []
    async for page in thread_pages(engine, query):
        found += page
    if query.limit is not None or query.before is not None or query.offset or len(found) <= FIRST_PAGE:
        return found
    seen = {each.thread_id for each in found}
    top = place_of(found[0])
    # Read the front again, down to the thread that was first: these were written to meanwhile.
    moved: list[ThreadRecord] = []
    async for page in thread_pages(engine, replace(query, offset=0)):
        newer = [each for each in page if not each.damage and each.updated_at >= top[0]]
        moved += [each for each in newer if each.thread_id not in seen]
        if len(newer) < len(page):
            break
    return moved + found


def checked_place(before: ThreadInfo | str | None) -> Place | None:
    """The place in the order that `before` names. Raises ConfigError if it names none."""
    if before is None:
        return None
    position = before.position if isinstance(before, ThreadInfo) else before
    if isinstance(position, str):
        at, _, thread_id = position.partition(" ")
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None and thread_id:
            return moment, thread_id
    raise ConfigError(f"before must be a thread of an earlier page, or its position, not {shown(before)}")
