"""Long lists that are packed in chunks are cut as if they were packed as one array."""

from __future__ import annotations

import random
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.codec.chunks import CHUNK, Chunks, packed_list
from clew.codec.nodes import header, read_header
from clew.errors import UnsupportedTypeError
from tests.codec.thread_log import ThreadLog, message

NEAR = [0, 1, 15, 16, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 20, 3 * CHUNK]


def chunks(items: list[Any]) -> Chunks:
    return packed_list(items, ormsgpack.packb, ())


def old_ones(items: list[Any]) -> list[tuple[bytes | Chunks, int]]:
    """Return an earlier list in each form that a memo can have, and the start of its items."""
    whole = ormsgpack.packb(items)
    shaped = read_header(whole)
    assert shaped is not None
    return [(whole, shaped[2]), (chunks(items), chunks(items).start)]


@pytest.mark.parametrize("count", NEAR)
def test_chunks_are_the_list_that_was_packed(count: int) -> None:
    items = [f"item {number}" for number in range(count)]
    packed = chunks(items)
    assert packed.whole() == ormsgpack.packb(items)
    assert (len(packed), packed.count) == (len(ormsgpack.packb(items)), count)


@pytest.mark.parametrize("before", NEAR)
@pytest.mark.parametrize("more", [0, 1, 17, CHUNK, CHUNK + 3])
def test_only_appended_items_are_recognised_as_appended(before: int, more: int) -> None:
    items = list(range(100_000, 100_000 + before + more))
    for old, start in old_ones(items[:before]):
        assert chunks(items).added_to(old, start, before) == [ormsgpack.packb(item) for item in items[before:]]
        for at in {0, before // 2, before - 1} if before else ():
            assert chunks([*items[:at], 7, *items[at + 1 :]]).added_to(old, start, before) is None
            assert chunks([*items[:at], *items[at + 1 :]]).added_to(old, start, before) is None


def test_a_chunk_that_stays_the_same_is_the_same_object() -> None:
    log = ThreadLog()
    items = [message(number) for number in range(3 * CHUNK)]
    kept = []
    for count in (2 * CHUNK + 1, 2 * CHUNK + 2, 3 * CHUNK):
        memo = log.save({"messages": items[:count]}).memo
        assert memo is not None
        packed = memo.entries[ormsgpack.packb("messages")].packed
        assert isinstance(packed, Chunks)
        kept.append(packed.parts)
    assert all(ours is theirs for ours, theirs in zip(kept[0][:2], kept[2][:2], strict=True))


@pytest.mark.parametrize("loaded", [False, True])
def test_a_long_list_that_grows_or_changes_in_the_middle_writes_only_that(loaded: bool) -> None:
    log = ThreadLog()
    items = [message(number) for number in range(2 * CHUNK)]
    log.save({"messages": items})
    for change in (
        lambda: items.append(message(5000)),
        lambda: items.__setitem__(CHUNK - 1, message(5001)),
        lambda: items.insert(3, message(5002)),
        lambda: items.append(message(5003)),
    ):
        if loaded:
            assert log.reload() == {"messages": items}
        change()
        log.save({"messages": items})
        assert log.written[-1] <= 800
    log.check_all()


def test_a_list_that_becomes_long_and_short_again_is_found_each_time() -> None:
    log = ThreadLog()
    items = [message(number) for number in range(CHUNK + 10)]
    for count in (CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 10, CHUNK, CHUNK + 5, 3, CHUNK + 10):
        log.save({"messages": items[:count]})
    assert sum(row.count for row in log.rows) == CHUNK + 10
    log.check_all()


def test_what_can_not_be_saved_far_down_a_long_list_is_named_by_its_path() -> None:
    items: list[Any] = [{"id": number} for number in range(2 * CHUNK)]
    items[300] = {"id": object()}
    with pytest.raises(UnsupportedTypeError) as caught:
        ThreadLog().save({"messages": items})
    assert caught.value.path == "state.messages[300].id"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("agis"), st.integers(0, 10_000)), max_size=8), st.booleans())
def test_any_sequence_of_changes_to_a_long_list_loads_back_at_every_point(
    changes: list[tuple[str, int]], in_between: bool
) -> None:
    log = ThreadLog()
    draw = random.Random(1)
    items: list[Any] = [draw.randrange(1 << 30) for _ in range(CHUNK + 2)]
    for kind, number in changes:
        log.save({"items": items, "count": len(items)})
        if in_between:
            log.reload()
        at = number % (len(items) + 1)
        if kind == "a":
            items = [*items, *[draw.randrange(1 << 30) for _ in range(number % 300)]]
        elif kind == "g":
            items = items[:at]
        elif kind == "i":
            items = [*items[:at], f"text {number}" * 40, *items[at:]]
        else:
            items = items[at // 2 :]
    log.save({"items": items, "count": len(items)})
    log.check_all()


def test_all_chunks_but_the_last_have_a_header_of_one_length() -> None:
    assert len({len(header(0x90, count)) for count in range(16, CHUNK + 1)}) == 1
