"""Fingerprints of messages, and the search for new messages in a list."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import ormsgpack


def fingerprint(value: Any) -> bytes:
    """Return a digest of `value`. It is cryptographic, because tools may return hostile content."""
    try:
        # Several times as fast as repr(), which matters for long states.
        shown = ormsgpack.packb(value, default=repr, option=ormsgpack.OPT_NON_STR_KEYS)
    except ormsgpack.MsgpackEncodeError:
        # Invalid Unicode, or a number that is too large.
        shown = repr(value).encode("utf-8", "surrogatepass")
    return blake2b(shown, digest_size=16).digest()


def new_places(before: Sequence[bytes], now: Sequence[bytes]) -> list[int]:
    """Return the places of the elements in `now` that have no match in `before`.

    Matches keep the order of `before`. So the result is just what was added, whether a list grew,
    was edited, or had its beginning cut off or summarized, and even if elements repeat.
    """
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, each in enumerate(before):
        places[each].append(place)
    new, at = [], 0
    for place, each in enumerate(now):
        there = places.get(each, ())
        following = bisect_left(there, at)
        if following < len(there):
            at = there[following] + 1
        else:
            new.append(place)
    return new
