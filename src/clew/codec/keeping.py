"""What of a sequence that was saved before can stay, by comparing its bytes with what is saved now."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

import msgspec

from clew.codec.chunks import Chunks
from clew.codec.index import Memo
from clew.codec.nodes import split_items


def whole(packed: bytes | Chunks) -> bytes:
    """What was packed, as one item."""
    return packed.whole() if isinstance(packed, Chunks) else packed


def kept(memo: Memo, old: bytes, item: bytes, start: int, count: int) -> tuple[int, int, int, list[bytes]]:
    """Which values of the memo can stay: `low` up to `high` at the front, from `tail` on at the end; and the items between."""
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
            # What looked like common items at the end starts inside an item of the new list.
            pass
    return low, high, values, split_items(item[at:], count - before)


def _window(old: bytes, ends: list[int], item: bytes, start: int, count: int) -> tuple[int, int]:
    """The values that stay when items fell out at the front: where the first item now was before, and on from there."""
    if not count:
        return 0, 0
    offset = old.find(split_items(item[start:], count)[0])
    low = bisect_left(ends, offset) + 1
    if offset <= 0 or low > len(ends) or ends[low - 1] != offset:
        return 0, 0
    high = bisect_right(ends, offset + _common_prefix(item, start, old, offset))
    return (low, high) if high > low else (0, 0)


def _common_prefix(one: bytes, at: int, other: bytes, offset: int) -> int:
    """How many bytes `one` from `at` and `other` from `offset` have in common."""

    def same(low: int, high: int) -> bool:
        return one[at + low : at + high] == other[offset + low : offset + high]

    return _extent(min(len(one) - at, len(other) - offset), same)


def _common_suffix(one: bytes, at: int, other: bytes, offset: int) -> int:
    """How many bytes at the ends of `one` (after `at`) and `other` (after `offset`) are the same."""

    def same(low: int, high: int) -> bool:
        return one[len(one) - high : len(one) - low] == other[len(other) - high : len(other) - low]

    return _extent(min(len(one) - at, len(other) - offset), same)


def _extent(length: int, same: Callable[[int, int], bool]) -> int:
    """Up to where two things of `length` are the same, by comparing ever smaller stretches once one differs."""
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
    """Where values end: those of `ends` from `low` to `high`, then some of these `lengths`, then those from `tail` on."""
    base = _end(ends, low)
    found = [end - base for end in ends[low:high]]
    found += accumulated(lengths, found)
    shift = _end(found, len(found)) - _end(ends, tail)
    return found + [end + shift for end in ends[tail:]]


def accumulated(lengths: list[int], after: list[int]) -> list[int]:
    """Where things of these `lengths` end that come after what ends at `after`."""
    last = after[-1] if after else 0
    return [last := last + length for length in lengths]
