"""Sequence alignment: a long common subsequence, found at a bounded cost."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

Pairs = list[tuple[int, int]]

STEPS: Final = 200_000
"""Bound on the work between anchors. Beyond it, the result is what was found so far."""


def aligned(before: Sequence[Hashable], after: Sequence[Hashable], steps: int = STEPS) -> Pairs:
    """Return increasing pairs of positions with equal keys: the elements kept
    when `before` became `after`.

    Keys that occur once on each side are anchors, as in a patience diff: O(n log n) for any shift
    or replacement. Between anchors, Myers' algorithm finds the shortest edit, which is fast for
    few changes and stops at many.
    """
    shared = set(before).intersection(after)
    olds = [position for position, key in enumerate(before) if key in shared]
    news = [position for position, key in enumerate(after) if key in shared]
    old_keys, new_keys = [before[position] for position in olds], [after[position] for position in news]

    pairs: Pairs = []
    old, new = 0, 0
    for anchor in [*_anchors(old_keys, new_keys), (len(olds), len(news))]:
        if old < anchor[0] and new < anchor[1]:
            found, steps = _kept(old_keys[old : anchor[0]], new_keys[new : anchor[1]], steps)
            pairs += [(olds[old + x], news[new + y]) for x, y in found]
        if anchor[0] < len(olds):
            pairs.append((olds[anchor[0]], news[anchor[1]]))
        old, new = anchor[0] + 1, anchor[1] + 1
    return pairs


def _anchors(before: Sequence[Hashable], after: Sequence[Hashable]) -> Pairs:
    """Return the longest increasing sequence of pairs among keys that occur once on each side."""
    old_counts, new_counts = Counter(before), Counter(after)
    where = {key: position for position, key in enumerate(after) if new_counts[key] == 1}
    found = [(x, where[key]) for x, key in enumerate(before) if old_counts[key] == 1 and key in where]

    # Longest increasing subsequence: `ends` has the smallest end of a run of each
    # length, `last` its pair's number.
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for number, (_, y) in enumerate(found):
        length = len(ends) if not ends or ends[-1] < y else bisect_left(ends, y)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [y]
        last[length : length + 1] = [number]
    pairs: Pairs = []
    number = last[-1] if last else -1
    while number >= 0:
        pairs.append(found[number])
        number = previous[number]
    return pairs[::-1]


def _kept(before: Sequence[Hashable], after: Sequence[Hashable], steps: int) -> tuple[Pairs, int]:
    """Return the pairs that Myers' shortest edit keeps, and the remaining steps."""
    # `reach[k]` is the furthest position in `before` on diagonal k (x - y) with
    # the current number of edits.
    reach = {1: 0}
    rounds: list[dict[int, int]] = []
    width, height = len(before), len(after)
    for edits in range(width + height + 1):
        rounds.append(reach.copy())
        steps -= edits
        for diagonal in range(2 * max(0, edits - height) - edits, edits - 2 * max(0, edits - width) + 1, 2):
            start = x = reach[diagonal + 1] if _inserts(reach, diagonal) else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < width and y < height and before[x] == after[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            steps -= 1 + x - start
            if x == width and y == height:
                return _walked_back(rounds, x, y), steps
        if steps < 0:
            break
    ends = [(x, x - diagonal) for diagonal, x in reach.items() if (diagonal - edits) % 2 == 0]
    x, y = max((end for end in ends if end[0] <= width and 0 <= end[1] <= height), key=sum, default=(0, 0))
    return _walked_back(rounds, x, y), steps


def _inserts(reach: dict[int, int], diagonal: int) -> bool:
    """Return whether the best path enters `diagonal` by an insertion, not a removal."""
    return reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)


def _walked_back(rounds: list[dict[int, int]], x: int, y: int) -> Pairs:
    pairs: Pairs = []
    for reach in reversed(rounds):
        diagonal = x - y
        inserts = _inserts(reach, diagonal)
        start = reach[diagonal + 1] if inserts else reach[diagonal - 1] + 1
        while x > start:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = (x, y - 1) if inserts else (x - 1, y)
    return pairs[::-1]
