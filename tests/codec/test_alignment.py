"""Alignment returns a common subsequence, and a long one at a bounded cost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clew.codec.alignment import aligned

few = st.lists(st.integers(0, 3), max_size=30)
many = st.lists(st.integers(0, 100), max_size=30)


def longest(before: list[int], after: list[int]) -> int:
    """Return the length of the longest common subsequence, by dynamic programming."""
    row = [0] * (len(after) + 1)
    for old in before:
        above = row[:]
        for y, new in enumerate(after):
            row[y + 1] = above[y] + 1 if old == new else max(row[y], above[y + 1])
    return row[-1]


def assert_common(before: list[int], after: list[int], pairs: list[tuple[int, int]]) -> None:
    assert all(before[x] == after[y] for x, y in pairs)
    assert all(x1 < x2 and y1 < y2 for (x1, y1), (x2, y2) in pairwise(pairs))


@given(few | many, few | many)
def test_the_pairs_are_a_common_subsequence(before, after):
    assert_common(before, after, aligned(before, after))


@given(few | many, few | many, st.integers(0, 60))
def test_the_pairs_are_a_common_subsequence_even_if_the_work_is_bounded(before, after, steps):
    assert_common(before, after, aligned(before, after, steps))


@given(st.lists(st.integers(0, 3), min_size=8, max_size=30), st.lists(st.integers(0, 3), min_size=8, max_size=30))
def test_without_anchors_it_is_the_longest_there_is(before, after):
    doubled_before, doubled_after = before + [0, 1, 2, 3] * 2, after + [0, 1, 2, 3] * 2
    assert len(aligned(doubled_before, doubled_after)) == longest(doubled_before, doubled_after)


@given(st.lists(st.integers(), unique=True, max_size=50), st.data())
def test_with_unique_keys_it_is_the_longest_there_is(before, data):
    after = data.draw(st.permutations(before))
    assert len(aligned(before, after)) == longest(before, after)


def test_a_sliding_window_keeps_all_that_is_in_both():
    assert aligned(range(10_000), range(100, 10_100)) == [(n + 100, n) for n in range(9_900)]


def test_long_lists_of_few_values_take_a_bounded_effort():
    before, after = [0, 1] * 5_000, [1, 1, 0] * 4_000
    assert_common(before, after, aligned(before, after))
