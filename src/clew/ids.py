"""Ids: 20 characters, unique, and nearly sorted by when they were made (never relied on for order)."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_random: list[bytes] = []
# A child process must not draw what its parent is going to draw.
os.register_at_fork(after_in_child=_random.clear)


def new_id() -> str:
    """A new id: 48 bits of milliseconds, then 52 random bits, in base 32 without look-alike letters."""
    try:
        drawn = _random.pop()
    except IndexError:
        pool = os.urandom(7 * 64)
        _random.extend([pool[at : at + 7] for at in range(0, len(pool), 7)])
        drawn = _random.pop()
    value = (time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF) << 52 | int.from_bytes(drawn, "big") >> 4
    pairs = _PAIRS
    return "".join([pairs[value >> shift & 0x3FF] for shift in _SHIFTS])


_SHIFTS = range(90, -1, -10)
