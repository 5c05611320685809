"""Holders of turns: one at a time, by the callers' clocks.

A thread's turn is a lease. A store's turn (cleanup, shipping) is one of Clew's own records.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Protocol

import msgspec

from clew.model.config import ANY_USER, User
from clew.model.records import LeaseRecord, TurnRecord
from clew.storage.conversions import UNDECODABLE
from clew.storage.protocol import Own, Storage

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TurnRecord).decode


class Owned(Protocol):
    """A thread, as far as its owner matters."""

    @property
    def owner(self) -> str | None: ...


def lease_space(thread: Owned | None, user: User) -> str:
    """The lease space of the thread's owner, or of its owner-to-be if `user` creates it."""
    if thread is not None:
        return space_name(thread.owner)
    return space_name(None if user is ANY_USER else user)


def space_name(owner: str | None) -> str:
    """The stored name of an owner's space: `-` if there is no owner."""
    return "-" if owner is None else f"+{owner}"


def turn_after(
    last: TurnRecord | None, *, holder: str, now: datetime, ttl: float, draw: Callable[[], int]
) -> TurnRecord | None:
    """The turn after `holder` asked for it until `now + ttl`, or released it (`ttl=0`).

    Returns `None` if nothing changes. `draw` makes the token of a new turn.
    """
    until = now + timedelta(seconds=ttl)
    if last is not None and last.expires_at > now:
        if last.holder != holder:
            return None
        return TurnRecord(holder=holder, token=last.token, since=last.since, expires_at=until)
    if ttl <= 0:
        return None
    return TurnRecord(holder=holder, token=draw(), since=now, expires_at=until)


def lease_of(thread_id: str, turn: TurnRecord) -> LeaseRecord:
    """The turn as a lease of the thread."""
    return LeaseRecord(
        thread_id=thread_id, holder=turn.holder, token=turn.token, since=turn.since, expires_at=turn.expires_at
    )


async def ask_turn(storage: Storage, name: Own, *, holder: str, now: datetime, ttl: float) -> TurnRecord:
    """Take, renew or release the store's turn `name`, and return the current one."""
    while True:
        stored = await storage.own(name)
        last = _read(stored)
        following = count(last.token + 1 if last is not None else 1)
        turn = turn_after(last, holder=holder, now=now, ttl=ttl, draw=partial(next, following))
        if turn is None:
            return last or TurnRecord(holder=holder, token=0, since=now, expires_at=now)
        if await storage.put_own(name, _encode(turn), instead_of=stored):
            return turn


def _read(stored: bytes | None) -> TurnRecord | None:
    """The turn; `None` if it is damaged, so that a damaged record blocks no process."""
    try:
        return None if stored is None else _decode(stored)
    except UNDECODABLE:
        return None
