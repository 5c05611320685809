"""Leases: who has a thread's turn. The tokens come from one counter of the file, so they only grow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from clew.model.config import User
from clew.model.records import LeaseRecord
from clew.storage.packing import micros, moment
from clew.storage.rules import check_owner
from clew.storage.sqlite.applying import Applier
from clew.storage.sqlite.schema import named

_SQL = named("writes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """One call of `Storage.lease`, to be done inside the writer's transaction."""

    thread_id: str
    user: User
    holder: str
    now: datetime
    ttl: float

    def __call__(self, applier: Applier) -> LeaseRecord:
        """Take, renew or give back the lease; the lease as it is afterwards."""
        thread_id, holder, now = self.thread_id, self.holder, self.now
        execute = applier.connection.execute
        if thread := applier.thread(thread_id):
            check_owner(self.thread_id, thread.owner, self.user)
        found = execute(_SQL["lease"], (thread_id,)).fetchone()
        last = _record(thread_id, found) if found else None
        expires_at = now + timedelta(seconds=self.ttl)
        if last and last.expires_at > now:
            if last.holder != holder:
                return last
            token, since = last.token, last.since
        elif self.ttl <= 0:
            return last or LeaseRecord(thread_id=thread_id, holder=holder, token=0, since=now, expires_at=now)
        else:
            token, since = execute(_SQL["next_token"]).fetchone()[0], now
        fields = (holder, token, micros(since), micros(expires_at))
        execute(_SQL["put_lease"], (thread_id, *fields))
        return _record(thread_id, fields)


def _record(thread_id: str, row: tuple[str, int, int, int]) -> LeaseRecord:
    holder, token, since, expires_at = row
    return LeaseRecord(
        thread_id=thread_id, holder=holder, token=token, since=moment(since), expires_at=moment(expires_at)
    )
