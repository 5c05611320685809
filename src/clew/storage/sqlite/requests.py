"""Requests inside the writer's transaction: leases, own records, journal trimming, the feed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from clew.model.config import User
from clew.model.records import JournalEntry, LeaseRecord
from clew.storage.columns import LARGEST
from clew.storage.conversions import micros, moment
from clew.storage.holders import lease_of, lease_space, turn_after
from clew.storage.protocol import Own
from clew.storage.rules import check_owner
from clew.storage.search_filter import DamagedFilterError
from clew.storage.sqlite.applier import Applier
from clew.storage.sqlite.queries import own
from clew.storage.sqlite.schema import named
from clew.storage.sqlite.search_index import create_search_index, drop_search_index, index_messages

_SQL = named("writes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """One call of `Storage.lease`. Tokens come from one counter in the file, so they only grow."""

    thread_id: str
    user: User
    holder: str
    now: datetime
    ttl: float

    def __call__(self, applier: Applier) -> LeaseRecord:
        thread_id, holder, now = self.thread_id, self.holder, self.now
        execute = applier.connection.execute
        thread = applier.thread(thread_id, self.user)
        if thread:
            check_owner(thread_id, thread.owner, self.user)
        space = lease_space(thread, self.user)
        found = execute(_SQL["lease"], (thread_id, space)).fetchone()
        last = _lease(thread_id, found) if found else None

        def draw() -> int:
            least = 0 if last is None else last.token
            found = execute(_SQL["next_token"], (least, LARGEST)).fetchone()
            return int(found[0]) if found else _new_token(applier, now)

        turn = turn_after(last, holder=holder, now=now, ttl=self.ttl, draw=draw)
        if turn is not None:
            times = micros(turn.since), micros(turn.expires_at)
            execute(_SQL["put_lease"], (thread_id, space, turn.holder, turn.token, *times))
            last = lease_of(thread_id, turn)
        return last or LeaseRecord(thread_id=thread_id, holder=holder, token=0, since=now, expires_at=now)


def _new_token(applier: Applier, now: datetime) -> int:
    """Replace the damaged counter of tokens, and return a token that is greater than all before.

    Microseconds since 1970 are more than any counter of leases has reached.
    """
    execute = applier.connection.execute
    (greatest,) = execute(_SQL["greatest_token"], (LARGEST - 1,)).fetchone()
    token = max(micros(now), greatest or 0) + 1
    execute(_SQL["drop_token"])
    execute(_SQL["put_token"], (token,))
    return token


def index_some_messages(applier: Applier) -> bool:
    """Create the index for searches across threads, or add some messages to it. Returns whether more wait."""
    create_search_index(applier.connection)
    try:
        return index_messages(applier.connection)
    except DamagedFilterError:
        return drop_index(applier)


def drop_index(applier: Applier) -> bool:
    """Drop the index for searches across threads. The next search that needs it creates another."""
    drop_search_index(applier.connection)
    return False


def _lease(thread_id: str, row: tuple[str, int, int, int]) -> LeaseRecord | None:
    """The stored lease; `None` if damaged. The next token fences off its holder."""
    if tuple(map(type, row)) != (str, int, int, int):
        return None
    holder, token, since, expires_at = row
    if not 0 <= token < LARGEST:
        return None
    try:
        return LeaseRecord(
            thread_id=thread_id, holder=holder, token=token, since=moment(since), expires_at=moment(expires_at)
        )
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequest:
    """One call of `Storage.put_own`."""

    name: Own
    data: bytes
    instead_of: bytes | None

    def __call__(self, applier: Applier) -> bool:
        found = own(applier.connection, self.name)
        if found == self.instead_of:
            applier.connection.execute(_SQL["put_own"], (self.name.value, self.data))
            return True
        return found == self.data


@dataclass(frozen=True, slots=True)
class TrimRequest:
    """One call of `Storage.trim`."""

    entries: Sequence[JournalEntry]

    def __call__(self, applier: Applier) -> None:
        applier.connection.execute(_SQL["drop_entries"], (json.dumps([each.position for each in self.entries]),))


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """Begins the feed, or notes that it is watched."""

    def __call__(self, applier: Applier) -> None:
        applier.feed.watch()
