"""Ids: 20 characters, unique, and nearly sorted by when they were made (never relied on for order)."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]


def new_id() -> str:
    """A new id: 48 bits of milliseconds, then 52 random bits, in base 32 without look-alike letters."""
    value = (time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF) << 52 | int.from_bytes(os.urandom(7), "big") >> 4
    pairs = _PAIRS
    return "".join([pairs[value >> shift & 0x3FF] for shift in range(90, -1, -10)])
