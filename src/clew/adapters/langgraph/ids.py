"""Checkpoint ids as LangGraph needs them: UUIDs, which it computes with and which sort by time.

LangGraph's own ids stay what they are. One of Clew's (a head that was saved without LangGraph) has 98 bits: its time goes where
UUIDs of version 6 have theirs, so both sort together, and its random part to the end, so it can be read back. Of any other id
(a framework's, say) only a digest fits, and whoever is given it looks for the checkpoint among those of the thread.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final
from uuid import UUID

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS: Final = {letter: number for number, letter in enumerate(_ALPHABET)}
"""The letters of Clew's ids, five bits each: ten for the milliseconds and two bits of nothing, ten at random."""
_VERSION: Final = 8
"""The version of UUIDs that are of nobody's making but the writer's."""
_SPELLED, _DIGEST = 0xC1E, 0xC1D
"""After the version's variant: twelve bits that tell ours from those of others."""
_EPOCH: Final = datetime(1582, 10, 15, tzinfo=UTC)
_TO_UNIX: Final = 0x01B21DD213814000
"""From the beginning of UUIDs' time to that of Clew's, in their ticks of 100 ns."""
_TICKS: Final = 10_000
"""In a millisecond."""


def outer_id(checkpoint_id: str) -> str:
    """The id for LangGraph."""
    named = _uuid(checkpoint_id)
    if named is not None and _mark(named) is None:
        return checkpoint_id
    return _spelled(checkpoint_id) or _made(_DIGEST, *divmod(_digest(checkpoint_id), 1 << 50))


def inner_id(outer: str) -> str | None:
    """The id as it is stored; `None` for a digest, of which only `outer_id` of the right one knows."""
    named = _uuid(outer)
    mark = _mark(named) if named is not None else None
    if named is None or mark is None:
        return outer
    if mark == _DIGEST:
        return None
    milliseconds, rest = divmod(_time(named) - _TO_UNIX, _TICKS)
    number = milliseconds << 52 | named.int & (1 << 50) - 1
    found = "".join([_ALPHABET[number >> shift & 31] for shift in range(95, -1, -5)])
    # Of somebody else's making, and only looks like one of ours.
    return outer if rest or outer_id(found) != outer else found


def sort_key(outer: str) -> str:
    """What compares as the times do of which LangGraph's ids tell; a digest tells of none."""
    named = _uuid(outer)
    # In the midst of its time, an id has its version.
    return f"{outer[:14]}6{outer[15:]}" if named is not None and _mark(named) is not None else outer


def sort_key_of(checkpoint_id: str, made: datetime) -> str:
    """The same of a checkpoint; where the id does not tell of its time, `made` does."""
    outer = outer_id(checkpoint_id)
    if inner_id(outer) is not None:
        return sort_key(outer)
    return sort_key(_made(_DIGEST, (made - _EPOCH) // timedelta(microseconds=1) * 10, 0))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _mark(named: UUID) -> int | None:
    """Which of our marks it has."""
    mark = named.int >> 50 & 0xFFF
    return (
        mark if named.int >> 76 & 15 == _VERSION and named.int >> 62 & 3 == 2 and mark in (_SPELLED, _DIGEST) else None
    )


def _time(named: UUID) -> int:
    return named.int >> 80 << 12 | named.int >> 64 & 0xFFF


def _made(mark: int, time: int, rest: int) -> str:
    return str(UUID(int=time >> 12 << 80 | _VERSION << 76 | (time & 0xFFF) << 64 | 2 << 62 | mark << 50 | rest))


def _spelled(checkpoint_id: str) -> str | None:
    if len(checkpoint_id) != 20 or not _DIGITS.keys() >= set(checkpoint_id):
        return None
    number = 0
    for letter in checkpoint_id:
        number = number << 5 | _DIGITS[letter]
    time = (number >> 52) * _TICKS + _TO_UNIX
    return None if number >> 50 & 3 or time >> 60 else _made(_SPELLED, time, number & (1 << 50) - 1)


def _digest(checkpoint_id: str) -> int:
    return int.from_bytes(blake2b(checkpoint_id.encode(), digest_size=14).digest()) >> 2
