"""Snippets: the text around a match, in its original spelling.

Searches compare folded texts. Folding can change lengths ("ß" becomes "ss"), so the place of a match
in the original text is found piece by piece: pieces begin where folding can't join characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from clew.model.message import folded

AROUND: Final = 60
"""How many characters a snippet shows before and after the match."""
_STEP: Final = 1_000


class Snippet(NamedTuple):
    """A part of a text. `text[start:end]` is the match; it is empty if the place is unknown."""

    text: str
    start: int
    end: int


def snippet(text: str, needle: str) -> Snippet:
    """Return the part of `text` around the first match of `needle`, which is folded."""
    at = folded(text).find(needle)
    if at < 0:
        # The stored text differs from that of the message: an adapter may have added to it.
        return Snippet(text[: 2 * AROUND], 0, 0)
    first, end = (at, at + len(needle)) if text.isascii() else _original(text, at, at + len(needle))
    left = max(0, first - AROUND)
    return Snippet(text[left : end + AROUND], first - left, end - left)


def _original(text: str, first: int, end: int) -> tuple[int, int]:
    """Return where the folded text from `first` to `end` is in `text`: at least all of it."""
    at = folded_at = 0
    # Large steps up to the match, then small ones.
    for _, ends, _, after in _pieces(text, 0, 0, _STEP):
        if after > first:
            break
        at, folded_at = ends, after
    start = stop = -1
    for begins, ends, before, after in _pieces(text, at, folded_at, 1):
        if start < 0 and after > first:
            start = begins
        if before < end:
            stop = ends
        else:
            break
    return max(start, 0), max(stop, start, 0)


def _pieces(text: str, at: int, folded_at: int, step: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield pieces of at least `step` characters from `at` on: where each begins and ends in `text`,
    and in the folded text."""
    while at < len(text):
        end = _boundary(text, at + step)
        size = len(folded(text[at:end]))
        yield at, end, folded_at, folded_at + size
        at, folded_at = end, folded_at + size


def _boundary(text: str, at: int) -> int:
    """Return the first place from `at` on where a character does not join the one before it."""
    while at < len(text) and _joins(text[at]):
        at += 1
    return min(at, len(text))


def _joins(character: str) -> bool:
    # Marks, and the vowels and final consonants of decomposed Hangul.
    return unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff"
