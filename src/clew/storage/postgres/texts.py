"""Text escaping for PostgreSQL: lossless, and it keeps the order and the substrings of texts.

A `text` column can't hold NUL or a lone surrogate. Those, and the characters that the codes use,
become a lead character followed by a fixed number of digits. Leads and digits occur in codes only,
so an escaped needle is a substring of an escaped text exactly where the needle is one of the text.
Each code sorts where its character does.
"""

from __future__ import annotations

import re

_LEAD, _DIGITS = "\x01", "\x02\x03"
_HIGH_LEAD = "\ud7ff"
"""The last character before the surrogates."""
_HIGH_LENGTH = 12


def _code(number: int, length: int) -> str:
    return "".join(_DIGITS[number >> shift & 1] for shift in reversed(range(length)))


_CODES = {number: _LEAD + _code(number, 2) for number in range(4)}
_CODES |= {0xD7FF + number: _HIGH_LEAD + _code(number, _HIGH_LENGTH) for number in range(0xDFFF - 0xD7FF + 1)}
_CHARACTERS = {code: chr(number) for number, code in _CODES.items()}
_UNSAFE = re.compile("[\x00-\x03\ud7ff-\udfff]").search
_CODED = re.compile(f"{_LEAD}[{_DIGITS}]{{2}}|{_HIGH_LEAD}[{_DIGITS}]{{{_HIGH_LENGTH}}}")
_LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


def escaped(text: str) -> str:
    """Return `text` as it is stored, which is nearly always `text` itself."""
    if text.isprintable() or not _UNSAFE(text):
        return text
    return text.translate(_CODES)


def escaped_or_none(text: str | None) -> str | None:
    return None if text is None else escaped(text)


def unescaped(stored: str) -> str:
    """Return the text that `escaped` was given."""
    if _LEAD in stored or _HIGH_LEAD in stored:
        return _CODED.sub(lambda found: _CHARACTERS[found[0]], stored)
    return stored


def unescaped_or_none(stored: str | None) -> str | None:
    return None if stored is None else unescaped(stored)


def pattern(needle: str) -> str:
    """Return the LIKE pattern for stored texts that contain `needle`."""
    return f"%{escaped(needle).translate(_LIKE)}%"


def text_size(text: str) -> int:
    """Return the size of `text` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
