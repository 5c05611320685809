"""Retention: which checkpoints a policy removes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import ConfigError
from clew.model.records import CheckpointRecord
from clew.model.retention import RetentionPolicy
from clew.upkeep.compaction import RowSize, freed
from clew.upkeep.retention import Held, due, due_by_size, needed

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def history(count: int, namespace: str = "", numbers: Sequence[int] = ()) -> list[CheckpointRecord]:
    """Checkpoints numbered from 1, or with these numbers, one a day; the newest is made now."""
    return [
        CheckpointRecord(
            checkpoint_id=f"{namespace}{number}",
            namespace=namespace,
            sequence=numbers[number - 1] if numbers else number,
            parent_id=None,
            created_at=NOW - timedelta(days=10 * count),
            saved_at=NOW - timedelta(days=count - number),
            node_name=None,
            step=None,
            run_id=None,
            size=0,
            metadata=b"",
            body=b"",
            covers=(),
        )
        for number in range(1, count + 1)
    ]


def gone(checkpoints: list[CheckpointRecord], policy: RetentionPolicy) -> set[str]:
    return {checkpoint.checkpoint_id for checkpoint in due(checkpoints, policy, NOW)}


def test_the_newest_of_a_history_stay() -> None:
    assert gone(history(5), RetentionPolicy(max_history=2)) == {"1", "2", "3"}


def test_the_head_stays_however_old_it_is() -> None:
    ancient = [history(1)[0]]
    assert due(ancient, RetentionPolicy(max_age=timedelta(0)), NOW + timedelta(days=999)) == []


def test_what_is_older_than_the_age_goes() -> None:
    assert gone(history(5), RetentionPolicy(max_age=timedelta(days=2))) == {"1", "2"}


def test_either_rule_lets_a_checkpoint_go() -> None:
    assert gone(history(6), RetentionPolicy(max_age=timedelta(days=1), max_history=5)) == {"1", "2", "3", "4"}


def test_milestones_stay_and_stay_the_same_while_the_thread_grows() -> None:
    policy = RetentionPolicy(max_history=1, keep_every=3)
    assert gone(history(7), policy) == {"1", "2", "4", "5"}
    assert gone(history(8), policy) == {"1", "2", "4", "5", "7"}


def test_milestones_stay_though_no_checkpoint_has_a_multiple_for_its_number() -> None:
    odd = history(10, numbers=range(1, 20, 2))
    kept = {each.sequence for each in odd if each not in due(odd, RetentionPolicy(max_history=1, keep_every=4), NOW)}
    assert kept == {5, 9, 13, 17, 19}


@given(
    st.lists(st.tuples(st.sampled_from(["", "sub", "other"]), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_of_every_so_many_checkpoints_one_stays_however_often_the_thread_is_cleaned_up(
    commits: list[tuple[str, bool]], every: int, newest: int
) -> None:
    policy = RetentionPolicy(max_history=newest, keep_every=every)
    made: dict[str, list[CheckpointRecord]] = {"": [], "sub": [], "other": []}
    stored: list[CheckpointRecord] = []
    for number, (namespace, has_checkpoint) in enumerate(commits, start=1):
        if has_checkpoint:
            new = history(1, namespace, [number])[0]
            made[namespace].append(new)
            stored.append(new)
        going = due(stored, policy, NOW)
        stored = [each for each in stored if each not in going]
        assert due(stored, policy, NOW) == []
    for lineage in made.values():
        whole = [each for each in lineage if each.sequence >= every]
        for at in range(len(whole) - every + 1):
            assert any(each in stored for each in whole[at : at + every])


def test_each_namespace_has_its_own_history_and_head() -> None:
    both = [*history(3), *history(2, "sub:")]
    assert gone(both, RetentionPolicy(max_history=1)) == {"1", "2", "sub:1"}


def test_order_is_by_sequence_and_not_by_time() -> None:
    backwards = [*reversed(history(3))]
    assert gone(backwards, RetentionPolicy(max_history=1)) == {"1", "2"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_history": 0},
        {"max_history": 1, "keep_every": 0},
        {"max_age": timedelta(-1)},
        {"keep_every": 2},
        {"max_bytes": -1},
        {"max_bytes": 1.5},
        {"max_bytes": True},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        RetentionPolicy(**settings)  # type: ignore[arg-type]


ROW = 4
"""The number of values in each row of the log below."""


@st.composite
def threads(draw: st.DrawFn) -> tuple[list[Held], list[RowSize]]:
    """A thread whose checkpoints need ranges of its log."""
    rows = [RowSize(at * ROW, ROW, draw(st.integers(10, 500))) for at in range(draw(st.integers(1, 12)))]
    top = len(rows) * ROW
    held = []
    for number in range(1, draw(st.integers(1, 25)) + 1):
        first = draw(st.integers(0, top - 1))
        held.append(
            Held(
                namespace=draw(st.sampled_from(["", "sub"])),
                checkpoint_id=str(number),
                sequence=number,
                saved_at=NOW,
                size=draw(st.integers(1, 300)),
                needs=None if draw(st.integers(0, 20)) == 0 else ((first, draw(st.integers(first + 1, top))),),
            )
        )
    return held, rows


def is_first(one: Held, held: list[Held], keep_every: int | None) -> bool:
    """Whether it is the first of its namespace since the last multiple of `keep_every`."""
    if keep_every is None or one.sequence < keep_every:
        return False
    between = range(one.sequence - one.sequence % keep_every, one.sequence)
    return not any(each.namespace == one.namespace and each.sequence in between for each in held)


@given(threads(), st.integers(0, 9000), st.none() | st.integers(1, 5), st.integers(0, 12))
def test_by_size_the_oldest_go_as_few_as_will_do(
    thread: tuple[list[Held], list[RowSize]], room: int, keep_every: int | None, fixed: int
) -> None:
    held, rows = thread
    policy = RetentionPolicy(max_bytes=room, keep_every=keep_every)
    size = sum(each.size for each in held) + sum(row.size for row in rows)
    kept = {(held[0].namespace, held[0].checkpoint_id)}
    going = due_by_size(held, policy, gone=(), keep=kept, size=size, rows=rows, fixed_before=fixed)

    def left(without: list[Held]) -> int:
        staying = [each for each in held if each not in without]
        needs = needed(staying)
        return size - sum(each.size for each in without) - (0 if needs is None else freed(rows, needs, fixed))

    heads = [
        max((e for e in held if e.namespace == name), key=lambda e: e.sequence) for name in {e.namespace for e in held}
    ]
    may_go = [
        each for each in held if each not in heads and each is not held[0] and not is_first(each, held, keep_every)
    ]
    # Values that stay in any case don't count.
    unfreed = [row.size for row in rows if row.first < fixed or needed(e for e in held if e not in may_go) is None]
    room += sum(unfreed)
    # The oldest that may be removed, and no more than necessary.
    assert going == may_go[: len(going)]
    assert left(going) <= room or going == may_go
    if going:
        assert left(going[:-1]) > room


@given(threads(), st.integers(0, 20))
def test_fewer_checkpoints_never_take_more(thread: tuple[list[Held], list[RowSize]], fixed: int) -> None:
    held, rows = [each for each in thread[0] if each.needs is not None], thread[1]
    sizes = [freed(rows, needed(held[number:]) or [], fixed) for number in range(len(held) + 1)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == sum(row.size for row in rows if row.first >= fixed)


def test_what_a_policy_says_turns_into_plain_data_and_back() -> None:
    policy = RetentionPolicy(max_age=timedelta(days=1, microseconds=1), max_history=2, keep_every=3, max_bytes=4)
    assert RetentionPolicy.from_dict(policy.to_dict()) == policy
    assert policy.to_dict()["max_age"] == 86400.000001
