"""Ids: 20 characters, unique, and roughly sorted by creation time. Nothing relies on their order."""

from __future__ import annotations

from clew.chance import chance, drawn_ahead

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LETTERS = _ALPHABET.encode() * 8
"""Maps each byte to a letter; each letter stands for eight bytes."""
_moment = 0, ""


def new_id() -> str:
    """Return a new id: 48 bits of milliseconds and 50 random bits, without look-alike letters."""
    global _moment
    source = chance()
    try:
        drawn = drawn_ahead.pop()
    except IndexError:
        text = source.randbytes(10 * 64).translate(_LETTERS).decode()
        drawn_ahead.extend([text[at : at + 10] for at in range(10, len(text) - 9, 10)])
        drawn = text[:10]
    now = source.time_ns() // 1_000_000
    moment, spelled = _moment
    if now != moment:
        spelled = _spelled(now)
        _moment = now, spelled
    return spelled + drawn


def _spelled(milliseconds: int) -> str:
    """Encode 48 bits as ten characters that sort like the numbers."""
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 2
    return "".join([_ALPHABET[value >> shift & 0x1F] for shift in range(45, -1, -5)])
