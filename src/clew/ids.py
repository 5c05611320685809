"""Ids: 20 characters, unique, and nearly sorted by when they were made (never relied on for order)."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LETTERS = _ALPHABET.encode() * 8
"""A letter for every byte, each of them for eight."""
_random: list[str] = []
_moment = 0, ""
if hasattr(os, "register_at_fork"):
    # A child process must not draw what its parent is going to draw.
    os.register_at_fork(after_in_child=_random.clear)


def new_id() -> str:
    """A new id: 48 bits of milliseconds, then 50 random bits, in base 32 without look-alike letters."""
    global _moment
    try:
        drawn = _random.pop()
    except IndexError:
        text = os.urandom(10 * 64).translate(_LETTERS).decode()
        _random.extend([text[at : at + 10] for at in range(10, len(text) - 9, 10)])
        drawn = text[:10]
    now = time.time_ns() // 1_000_000
    moment, spelled = _moment
    if now != moment:
        spelled = _spelled(now)
        _moment = now, spelled
    return spelled + drawn


def _spelled(milliseconds: int) -> str:
    """Ten characters for 48 bits, which sort like the numbers."""
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 2
    return "".join([_ALPHABET[value >> shift & 0x1F] for shift in range(45, -1, -5)])
