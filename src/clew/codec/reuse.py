"""Reuse of a sequence's values: compares the bytes of the last save with those of the next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

import msgspec

from clew.codec.chunks import Chunks
from clew.codec.index import Memo
from clew.codec.nodes import split_items


def whole(packed: bytes | Chunks) -> bytes:
    """Return `packed` as one item."""
    return packed.whole() if isinstance(packed, Chunks) else packed


def kept(memo: Memo, old: bytes, item: bytes, start: int, count: int) -> tuple[int, int, int, list[bytes]]:
    """Return which values of the memo can stay, `low` up to `high` and from `tail` on,
    and the new items between them."""
    ends, values = memo.ends, len(memo.ends)
    low, high = 0, bisect_right(ends, _common_prefix(item, start, old, 0))
    if high == 0 and values:
        low, high = _window(old, ends, item, start, count)
    at = start + (_end(ends, high) - _end(ends, low))
    before = _end(memo.items, high) - _end(memo.items, low)
    tail = values
    if high < values:
        same = _common_suffix(item, at, old, _end(ends, high))
        tail = max(bisect_left([0, *ends], len(old) - same), high)
    if tail < values:
        after = _end(memo.items, values) - _end(memo.items, tail)
        until = len(item) - (len(old) - _end(ends, tail))
        try:
            if count >= before + after:
                return low, high, tail, split_items(item[at:until], count - before - after)
        except msgspec.DecodeError:
            # The common bytes at the end start inside an item of the new list.
            pass
    return low, high, values, split_items(item[at:], count - before)


def _window(old: bytes, ends: list[int], item: bytes, start: int, count: int) -> tuple[int, int]:
    """Return the values that stay when items were dropped at the front."""
    if not count:
        return 0, 0
    offset = old.find(split_items(item[start:], count)[0])
    low = bisect_left(ends, offset) + 1
    if offset <= 0 or low > len(ends) or ends[low - 1] != offset:
        return 0, 0
    high = bisect_right(ends, offset + _common_prefix(item, start, old, offset))
    return (low, high) if high > low else (0, 0)


def _common_prefix(one: bytes, at: int, other: bytes, offset: int) -> int:
    """Return the length of the common prefix of `one` from `at` and `other` from `offset`."""

    def same(low: int, high: int) -> bool:
        return one[at + low : at + high] == other[offset + low : offset + high]

    return _extent(min(len(one) - at, len(other) - offset), same)


def _common_suffix(one: bytes, at: int, other: bytes, offset: int) -> int:
    """Return the length of the common suffix of `one` (after `at`) and `other` (after `offset`)."""

    def same(low: int, high: int) -> bool:
        return one[len(one) - high : len(one) - low] == other[len(other) - high : len(other) - low]

    return _extent(min(len(one) - at, len(other) - offset), same)


def _extent(length: int, same: Callable[[int, int], bool]) -> int:
    """Return how far two byte strings agree, by bisecting the first stretch that differs."""
    step, extent = 1 << 16, 0
    while extent < length:
        width = min(step, length - extent)
        if same(extent, extent + width):
            extent += width
        elif width == 1:
            break
        else:
            step = width // 2
    return extent


def _end(ends: list[int], values: int) -> int:
    return ends[values - 1] if values else 0


def spliced(ends: list[int], low: int, high: int, lengths: list[int], tail: int) -> list[int]:
    """Return cumulative ends: those of values `low` to `high`, then of new `lengths`,
    then of values from `tail` on."""
    base = _end(ends, low)
    found = [end - base for end in ends[low:high]]
    found += accumulated(lengths, found)
    shift = _end(found, len(found)) - _end(ends, tail)
    return found + [end + shift for end in ends[tail:]]


def accumulated(lengths: list[int], after: list[int]) -> list[int]:
    """Return the cumulative ends of `lengths`, continuing from `after`."""
    last = after[-1] if after else 0
    return [last := last + length for length in lengths]
