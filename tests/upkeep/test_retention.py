"""Which checkpoints a policy lets go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clew.errors import ConfigError
from clew.model.records import CheckpointRecord
from clew.model.reports import RetentionPolicy
from clew.upkeep.retention import due

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def history(count: int, namespace: str = "") -> list[CheckpointRecord]:
    """Checkpoints numbered from 1, one a day, the newest made now."""
    return [
        CheckpointRecord(
            checkpoint_id=f"{namespace}{number}",
            namespace=namespace,
            sequence=number,
            parent_id=None,
            created_at=NOW - timedelta(days=count - number),
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


def test_each_namespace_has_its_own_history_and_head() -> None:
    both = [*history(3), *history(2, "sub:")]
    assert gone(both, RetentionPolicy(max_history=1)) == {"1", "2", "sub:1"}


def test_order_is_by_sequence_and_not_by_time() -> None:
    backwards = [*reversed(history(3))]
    assert gone(backwards, RetentionPolicy(max_history=1)) == {"1", "2"}


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_history": 0}, {"max_history": 1, "keep_every": 0}, {"max_age": timedelta(-1)}, {"keep_every": 2}],
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        RetentionPolicy(**settings)  # type: ignore[arg-type]
