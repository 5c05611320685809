"""A rebased checkpoint loads as the same state, and adds only the values that the other log lacks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.codec.rebase import rebase
from clew.codec.registry import Registry
from clew.codec.rows import DIGEST_SIZE, OpenRows
from clew.errors import CorruptRecordError
from tests.codec.thread_log import ThreadLog


@dataclass
class Plan:
    steps: list[str]
    due: datetime


REGISTRY = Registry()
REGISTRY.register(Plan)


def digests(log: ThreadLog) -> dict[bytes, int]:
    return {
        row.digests[at * DIGEST_SIZE : (at + 1) * DIGEST_SIZE]: row.first + at
        for row in log.rows
        for at in range(row.count)
    }


def taken_over(source: ThreadLog, target: ThreadLog) -> tuple[Any, int]:
    """Rebase the source's head; return the state loaded from the target's log,
    and the number of added values."""
    head = source.saved[-1][0]
    found = rebase(head.body, source.rows, digests(target), target.index.basis.next_value)
    rows = [*target.rows, *([found.row] if found.row else [])]
    needed = [row for row in rows if any(row.first < end and first < row.end for first, end in found.covers)]
    return source.codec.decode(found.body, OpenRows(needed)), found.row.count if found.row else 0


def messages(begin: int, end: int, says: str = "said") -> list[dict[str, Any]]:
    return [{"id": f"m{n}", "content": f"message {n} {says} " * 30} for n in range(begin, end)]


def test_logs_that_went_different_ways_hold_both_states() -> None:
    ours, theirs = ThreadLog(REGISTRY), ThreadLog(REGISTRY)
    for log in (ours, theirs):
        log.save({"messages": messages(0, 40)})
    ours.save({"messages": messages(0, 40) + messages(40, 44, "here")})
    state = {"messages": messages(0, 40) + messages(40, 43, "there"), "note": "x" * 9000}
    theirs.save(state)
    loaded, count = taken_over(theirs, ours)
    assert loaded == state
    assert 0 < count < 10  # shared values are found
    ours.check_all()


def test_an_empty_log_gets_all_of_it() -> None:
    source = ThreadLog(REGISTRY)
    state = {"messages": messages(0, 300), "files": {f"f{n}": "text " * 900 for n in range(20)}, "by": {1: {2, 3}}}
    source.save(state)
    assert taken_over(source, ThreadLog(REGISTRY))[0] == state


def test_objects_come_through_without_their_classes() -> None:
    source = ThreadLog(REGISTRY)
    state = {"plan": Plan(["step " * 200] * 30, datetime(2026, 1, 31, tzinfo=UTC))}
    source.save(state)
    assert taken_over(source, ThreadLog())[0] == state
    whole = ThreadLog(REGISTRY)
    whole.save(state["plan"])
    assert taken_over(whole, ThreadLog())[0] == state["plan"]


def test_a_log_that_has_everything_gets_nothing() -> None:
    source, target = ThreadLog(), ThreadLog()
    for log in (source, target):
        log.save({"messages": messages(0, 40)})
    assert taken_over(source, target)[1] == 0


def test_damage_is_reported() -> None:
    source = ThreadLog()
    source.save({"messages": messages(0, 40)})
    with pytest.raises(CorruptRecordError):
        rebase(source.saved[-1][0].body, [], {}, 0)


@given(
    st.lists(st.lists(st.text(max_size=700) | st.integers() | st.lists(st.text(max_size=900), max_size=8)), max_size=4),
    st.lists(st.lists(st.text(max_size=700) | st.integers() | st.lists(st.text(max_size=900), max_size=8)), max_size=4),
)
def test_any_state_survives_in_any_other_log(ours: list[Any], theirs: list[Any]) -> None:
    source, target = ThreadLog(), ThreadLog()
    for state in ours:
        target.save({"items": state})
    source.save({"items": []})
    for state in theirs:
        source.save({"items": state, "again": [state] * 3})
    assert taken_over(source, target)[0] == source.saved[-1][1]
