"""Compaction: which rows are merged, and which values are garbage."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clew.codec.rows import OpenRow, OpenRows, digest, write_row
from clew.model.records import ValueRow
from clew.upkeep.compaction import garbage, merged, rows_to_merge, small_rows_at_the_end


def row(first: int, *contents: bytes) -> ValueRow:
    return write_row(first, contents, [1] * len(contents), [digest(content, b"items") for content in contents])


def log(*counts: int) -> list[ValueRow]:
    """Rows with these numbers of values; value n is the text of n."""
    rows, first = [], 0
    for count in counts:
        rows.append(row(first, *[f"value {number}".encode() for number in range(first, first + count)]))
        first += count
    return rows


def contents(rows: list[ValueRow]) -> list[bytes]:
    return [content for each in rows for content in OpenRow(each).contents()]


def test_neighbouring_rows_become_one_and_keep_numbers_contents_and_digests() -> None:
    rows = log(2, 1, 3)
    ((one, replaced),) = merged(rows, fixed_before=0)
    assert (one.first, one.count, replaced) == (0, 6, 3)
    assert one.digests == b"".join(each.digests for each in rows)
    assert contents([one]) == contents(rows)


def test_shared_rows_and_single_rows_stay_as_they_are() -> None:
    assert list(merged(log(2, 2), fixed_before=4)) == []
    ((one, _),) = merged(log(2, 2, 2), fixed_before=2)
    assert (one.first, one.count) == (2, 4)
    assert list(merged(log(3), fixed_before=0)) == []


def test_rows_on_both_sides_of_a_hole_are_not_merged() -> None:
    first, _, third = log(2, 2, 2)
    assert list(merged([first, third], fixed_before=0)) == []


def test_a_damaged_row_keeps_its_place_and_spoils_nothing() -> None:
    rows = log(2, 2)
    broken = ValueRow(first=4, count=1, digests=bytes(16), data=b"rubbish")
    assert list(merged([*rows, broken], fixed_before=0)) == []
    assert garbage([*rows, broken], [(0, 5)], 0).ranges == []


def test_what_no_checkpoint_needs_is_garbage() -> None:
    assert garbage(log(2, 2, 2), [(2, 4)], 0).ranges == [(0, 2), (4, 6)]
    assert garbage(log(2, 2, 2), [(2, 4)], fixed_before=4).ranges == [(4, 6)]
    assert garbage(log(2, 2, 2), [(0, 6)], 0).ranges == []


def test_a_row_of_which_little_is_needed_is_hollowed_and_the_rest_still_reads() -> None:
    contents = [random.Random(number).randbytes(300) for number in range(10)]
    (full,) = rows = [row(0, *contents)]
    found = garbage(rows, [(3, 5)], 0)
    (smaller,) = found.hollowed
    assert len(smaller.data) < len(full.data) / 2
    assert (smaller.first, smaller.count) == (0, 10)
    assert b"".join(OpenRows([smaller]).read(3, 2)) == contents[3] + contents[4]
    assert smaller.digests[: 3 * 16] == bytes(3 * 16)
    assert smaller.digests[3 * 16 : 5 * 16] == full.digests[3 * 16 : 5 * 16]


def test_small_rows_at_the_end_are_those_after_the_last_large_one() -> None:
    large = row(2, *[bytes([number]) * 9000 + str(number).encode() * 5000 for number in range(3)])
    big = ValueRow(first=2, count=3, digests=large.digests, data=large.data.ljust(9000, b"x"))
    small = log(2)[0]
    later = row(5, b"a"), row(6, b"b")
    assert small_rows_at_the_end([small, big, *later]) == (5, 6)
    assert small_rows_at_the_end([small]) == (0,)


def test_a_growing_row_takes_the_small_ones_after_it_and_a_full_one_does_not() -> None:
    rows = log(4, 1, 1)
    assert rows_to_merge(rows, (4, 5), 0) == rows
    full = ValueRow(first=0, count=4, digests=rows[0].digests, data=bytes(100 << 10))
    assert rows_to_merge([full, *rows[1:]], (4, 5), 0) == rows[1:]
    assert rows_to_merge(rows, (4, 5), fixed_before=5) == rows[2:]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_everything_needed_reads_the_same_after_collecting_and_merging(counts: list[int], data: st.DataObject) -> None:
    rows = log(*counts)
    total = sum(counts)
    bounds = st.integers(0, total)
    needed = [
        (min(pair), max(pair))
        for pair in data.draw(st.lists(st.tuples(bounds, bounds), max_size=4))
        if pair[0] != pair[1]
    ]
    before = {number: b"".join(OpenRows(rows).read(number, 1)) for first, end in needed for number in range(first, end)}
    found = garbage(rows, needed, 0)
    hollowed = {each.first: each for each in found.hollowed}
    left = [hollowed.get(each.first, each) for each in rows if (each.first, each.end) not in found.ranges]
    for new, replaced in merged(left, 0):
        at = next(place for place, each in enumerate(left) if each.first == new.first)
        left[at : at + replaced] = [new]
    after = OpenRows(left)
    assert {number: b"".join(after.read(number, 1)) for number in before} == before
