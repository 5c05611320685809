"""What tells one message from another, from what it was before an edit, and what is new from what was there."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import ormsgpack


def fingerprint(value: Any) -> bytes:
    """A digest of all that is in `value`. What tools return is hostile: no two can be made to look alike."""
    try:
        # Several times as fast as its repr, which a state of many messages feels at every save.
        shown = ormsgpack.packb(value, default=repr, option=ormsgpack.OPT_NON_STR_KEYS)
    except ormsgpack.MsgpackEncodeError:
        # Not valid Unicode, or a number too big.
        shown = repr(value).encode("utf-8", "surrogatepass")
    return blake2b(shown, digest_size=16).digest()


def unsaid(before: Sequence[bytes], now: Sequence[bytes]) -> list[int]:
    """The places in `now` of what does not follow in `before`, in its order: of what is new.

    So a list that grew, one of which the beginning was cut off or summed up, and one that was edited give only what was added,
    though the same be said many times.
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
