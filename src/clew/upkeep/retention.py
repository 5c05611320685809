"""Which checkpoints a retention policy lets go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from clew.model.records import CheckpointRecord
from clew.model.reports import RetentionPolicy


def due(checkpoints: Iterable[CheckpointRecord], policy: RetentionPolicy, now: datetime) -> list[CheckpointRecord]:
    """Those of a thread's `checkpoints` that `policy` lets go at `now`: never a head, never a kept milestone."""
    by_namespace: dict[str, list[CheckpointRecord]] = defaultdict(list)
    for checkpoint in checkpoints:
        by_namespace[checkpoint.namespace].append(checkpoint)
    return [
        checkpoint
        for lineage in by_namespace.values()
        for age, checkpoint in enumerate(sorted(lineage, key=lambda each: -each.sequence))
        if age > 0 and _may_go(checkpoint, age, policy, now)
    ]


def _may_go(checkpoint: CheckpointRecord, age: int, policy: RetentionPolicy, now: datetime) -> bool:
    # By sequence, so that the same ones stay milestones while the thread grows.
    if policy.keep_every is not None and checkpoint.sequence % policy.keep_every == 0:
        return False
    if policy.max_history is not None and age >= policy.max_history:
        return True
    return policy.max_age is not None and now - checkpoint.created_at > policy.max_age
