"""Branch points: which numbers are visible, how many points are kept, and how copies keep branches."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.codec.rows import adjacent
from clew.errors import CorruptRecordError
from clew.model.commit import HEAD, Begin, Removal
from clew.model.config import ANY_USER
from clew.storage.branches import LAST_NUMBER, MOST_POINTS, is_within, visible, with_point
from clew.storage.content import fields_of, parts, same_content
from clew.storage.memory import MemoryStorage
from clew.storage.sqlite import SQLiteStorage
from clew.testing.build import checkpoint, commit, message
from clew.testing.driver import InlineStorage


def test_the_visible_numbers_of_a_branch():
    points = [(1, 5), (2, 7), (5, 9)]
    assert visible([]) == [(0, LAST_NUMBER)]
    assert visible([], 3) == [(0, 3)]
    assert visible(points) == [(0, 1), (5, 5), (9, LAST_NUMBER)]
    assert visible(points, 8) == [(0, 2), (7, 8)]
    assert visible(points, 6) == [(0, 1), (5, 6)]
    assert visible(points, 4) == [(0, 4)]


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(0, 40))
def test_each_number_goes_back_through_its_parents(parents, upto):
    """The reference: every number has the number before it as its parent, unless it begins a branch."""
    starts = {start: min(parent, start - 1) for start, parent in zip(range(2, 40, 4), parents, strict=False)}
    points = [(parent, start) for start, parent in starts.items()]
    seen, at = set(), upto
    while at > 0:
        seen.add(at)
        at = starts.get(at, at - 1)
    ranges = visible(points, upto)
    assert {number for number in range(1, 41) if is_within(ranges, number)} == seen


def test_a_thread_keeps_its_newest_points():
    points: tuple[tuple[int, int], ...] = ()
    for number in range(1, MOST_POINTS + 5):
        points = with_point(points, 0, number)
    assert len(points) == MOST_POINTS
    assert points[0] == (0, 5)


def copied(store: InlineStorage, name: str) -> None:
    """Copy thread `t` to the thread `name`, as replication and `copy_thread` do."""
    content = store.content()
    assert content is not None
    begin = Begin(incarnation="copy", epoch=0)
    basis = store.apply(commit(name, user=ANY_USER, thread=fields_of(content.thread), begin=begin)).basis
    for at, part in parts(content, adjacent(content.rows, content.basis.next_value)):
        basis = store.apply(commit(name, user=ANY_USER, at=at, basis=basis, **part)).basis


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["save", "save", "say", "branch", "restart", "remove", "forget"]), st.integers(0, 20)
        ),
        max_size=25,
    )
)
def test_a_copy_has_the_same_branches(steps):
    store = InlineStorage(MemoryStorage)
    store.apply(commit(messages=[message("first")]))
    for at, (step, choice) in enumerate(steps):
        there = store.checkpoint_ids()
        some = there[choice % len(there)] if there else None
        said = [message(f"m{at}")] if choice % 3 else []
        if step == "say":
            store.apply(commit(messages=[message(f"m{at}")]))
        elif step == "save" or some is None:
            store.apply(commit(checkpoint=checkpoint(f"c{at}"), messages=said))
        elif step == "branch":
            store.apply(commit(checkpoint=checkpoint(f"c{at}", parent=some), messages=said))
        elif step == "restart":
            store.apply(commit(checkpoint=checkpoint(f"c{at}", parent=None), messages=said))
        elif step == "remove":
            store.apply(commit(remove=Removal(checkpoints=(("", some),))))
        else:
            store.apply(commit(remove=Removal(messages=tuple(store.message_ids()[choice:][:1]))))
    copied(store, "copy")
    for branch in (HEAD, None, *store.checkpoint_ids()):
        assert store.message_ids("copy", branch=branch) == store.message_ids(branch=branch)
    one, other = store.content(), store.content("copy")
    assert one is not None
    assert other is not None
    assert [each.message_id for each in one.messages] == [each.message_id for each in other.messages]
    assert len(one.points) == len(other.points)


def test_two_threads_with_other_branches_are_not_the_same():
    found = []
    for parent in ("c1", "c2"):
        store = InlineStorage(MemoryStorage)
        begin = Begin(incarnation="same", epoch=0)
        store.apply(commit(checkpoint=checkpoint("c1"), messages=[message("m1")], begin=begin))
        store.apply(commit(checkpoint=checkpoint("c2"), messages=[message("m2")]))
        store.apply(commit(checkpoint=checkpoint("c3", parent=parent)))
        store.apply(commit(remove=Removal(state=True)))
        content = store.content()
        assert content is not None
        found.append(content)
    assert not same_content(found[0], found[1])
    assert same_content(found[0], found[0])


def test_damaged_branch_points_are_named_and_the_record_can_still_be_read(tmp_path):
    store = InlineStorage(lambda: SQLiteStorage(tmp_path / "clew.db"))
    store.apply(commit(checkpoint=checkpoint("c1"), messages=[message("m1")]))
    store.apply(commit(checkpoint=checkpoint("c2", parent=None), messages=[message("m2")]))
    assert store.message_ids(branch=HEAD) == ["m2"]
    store.close()
    with closing(sqlite3.connect(tmp_path / "clew.db")) as connection, connection:
        connection.execute("UPDATE threads SET points = x'80'")
    store = InlineStorage(lambda: SQLiteStorage(tmp_path / "clew.db"))
    with pytest.raises(CorruptRecordError, match="thread 't' is damaged: its branch points"):
        store.message_ids(branch=HEAD)
    assert store.message_ids() == ["m1", "m2"]
    store.apply(commit(checkpoint=checkpoint("c3"), messages=[message("m3")]))
    store.refused(commit(checkpoint=checkpoint("c4", parent="c1")), CorruptRecordError)
    store.close()
