"""Checkpoint ids in the form that LangGraph needs: UUIDs that sort by time.

LangGraph's own ids are stored unchanged. Clew's ids (of checkpoints that were saved without
LangGraph) have 98 bits. Their time is placed like that of a UUID of version 6, so that both kinds
sort together, and their random part at the end, so that the id can be recovered. Any other id
becomes a digest; the saver finds its checkpoint by comparing the digests of the thread's
checkpoints.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final
from uuid import UUID

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_DIGITS: Final = {letter: number for number, letter in enumerate(_ALPHABET)}
"""Clew's alphabet, five bits a letter: 48 bits of milliseconds, 2 zero bits, 50 random bits."""
_VERSION: Final = 8
"""The UUID version for custom formats."""
_SPELLED, _DIGEST = 0xC1E, 0xC1D
"""Twelve bits after the variant that mark our UUIDs."""
_EPOCH: Final = datetime(1582, 10, 15, tzinfo=UTC)
_TO_UNIX: Final = 0x01B21DD213814000
"""The Unix epoch in UUID time, in ticks of 100 ns."""
_TICKS: Final = 10_000
"""UUID ticks in a millisecond."""


def outer_id(checkpoint_id: str) -> str:
    """Return LangGraph's id for a stored id."""
    named = _uuid(checkpoint_id)
    if named is not None and _mark(named) is None:
        return checkpoint_id
    return _spelled(checkpoint_id) or _made(_DIGEST, *divmod(_digest(checkpoint_id), 1 << 50))


def inner_id(outer: str) -> str | None:
    """Return the stored id for LangGraph's; `None` for a digest, which can only be compared."""
    named = _uuid(outer)
    mark = _mark(named) if named is not None else None
    if named is None or mark is None:
        return outer
    if mark == _DIGEST:
        return None
    milliseconds, rest = divmod(_time(named) - _TO_UNIX, _TICKS)
    number = milliseconds << 52 | named.int & (1 << 50) - 1
    found = "".join([_ALPHABET[number >> shift & 31] for shift in range(95, -1, -5)])
    # A UUID that only looks like ours stays unchanged.
    return outer if rest or outer_id(found) != outer else found


def sort_key(outer: str) -> str:
    """Return a key that sorts LangGraph's ids by time. Digests contain no time."""
    named = _uuid(outer)
    # The version is in the middle of the time, so ours is replaced by LangGraph's.
    return f"{outer[:14]}6{outer[15:]}" if named is not None and _mark(named) is not None else outer


def sort_key_of(checkpoint_id: str, made: datetime) -> str:
    """Return the sort key of a checkpoint. If its id contains no time, `made` is used."""
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
    """Return the mark if the UUID is one of ours."""
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
