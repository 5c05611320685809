"""Metrics: durations, bytes, conflicts, retries, cache lookups, background saves and replication."""

from __future__ import annotations

import gc

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import clew
from clew.storage.memory import MemoryStorage
from clew.telemetry.metrics import BATCH
from clew.testing import FaultyStorage, script
from tests.telemetry.conftest import Seen

DURATION = "db.client.operation.duration"


@pytest.fixture(params=["sampled", "not sampled"])
def either(request):
    return Seen() if request.param == "sampled" else Seen(ALWAYS_OFF)


def test_each_call_is_in_the_histogram_whether_sampled_or_not(either):
    saves = 2 * BATCH + 3
    with clew.connect("memory://", telemetry=either.telemetry()) as memory:
        for n in range(saves):
            memory.put_state("t", {"n": n})
        memory.get_state("t")
    assert either.metric(DURATION, db_operation_name="put_state") == saves
    assert either.metric(DURATION, db_operation_name="get_state") == 1
    series = [of for name, of, _ in either.points() if name == DURATION and of["db.operation.name"] == "put_state"]
    assert series == [{"db.system.name": "memory", "db.operation.name": "put_state"}]


def test_a_failed_call_has_a_series_with_its_error(either):
    with clew.connect("memory://", telemetry=either.telemetry()) as memory, pytest.raises(clew.ConfigError):
        memory.get_state({"thread": "t"})
    (of,) = [of for name, of, _ in either.points() if name == DURATION and of["db.operation.name"] == "get_state"]
    assert of["error.type"] == "clew.ConfigError"


def test_bytes_are_counted_both_ways(either, tmp_path):
    text = "x" * 10_000
    with clew.connect(f"sqlite:///{tmp_path}/a.db") as other:
        other.put_state("t", {"text": [text, "1"]})
    with clew.connect(f"sqlite:///{tmp_path}/a.db", telemetry=either.telemetry()) as memory:
        memory.get_state("t")
        read = either.metric("clew.storage.read")
        memory.put_messages("t", [{"role": "user", "content": text}])
        written = either.metric("clew.storage.written")
    assert read > 0
    assert written > 0


def test_conflicts_are_counted_by_their_kind(either):
    with clew.connect("memory://", telemetry=either.telemetry()) as memory:
        base = memory.put_checkpoint("t", {"n": 1})
        memory.put_checkpoint("t", {"n": 2})
        with pytest.raises(clew.ConflictError):
            memory.put_checkpoint(base.config, {"n": 3}, on_conflict="reject")
    assert either.metric("clew.storage.conflicts", error_type="clew.ConflictError") == 1


def test_retries_are_counted_by_what_was_tried(either):
    fails = FaultyStorage(MemoryStorage(), script(["before apply", "before apply"]))
    with clew.BaseCheckpointer(fails, telemetry=either.telemetry()) as memory:
        memory.put_state("t", {"n": 1})
    assert either.metric("clew.storage.retries", clew_retried="save") == 2


def test_cache_lookups_are_hits_or_misses(either, tmp_path):
    url, text = f"sqlite:///{tmp_path}/a.db", ["x" * 5000]
    with clew.connect(url) as other:
        other.put_state("t", {"text": text})
    with clew.connect(url, cache="memory://", telemetry=either.telemetry()) as memory:
        for _ in range(2):
            memory._engine.indexes.drop("t")
            assert memory.get_state("t") == {"text": text}
    assert either.metric("clew.cache.lookups", clew_cache_result="miss") == 1
    assert either.metric("clew.cache.lookups", clew_cache_result="hit") == 1


def test_the_replication_lag_and_queue_are_gauges_until_the_release(seen, tmp_path):
    pair = clew.DistributedCheckpointer(
        f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db", telemetry=seen.telemetry()
    )
    pair.put_state("t", {"n": 1})
    assert seen.metric("clew.replication.lag") >= 0
    assert seen.metric("clew.replication.queue") >= 0
    pair.release()
    assert seen.metric("clew.replication.lag") is None


def test_pending_background_saves_are_a_gauge(seen):
    with clew.connect("memory://", durability="background", telemetry=seen.telemetry()) as memory:
        memory.put_state("t", {"n": 1})
        memory.get_state("t")
        assert seen.metric("clew.background.pending") == 0


def test_the_counts_of_a_released_checkpointer_stay_and_gauges_of_a_dropped_one_go(seen):
    for _ in range(2):
        with clew.connect("memory://", telemetry=seen.telemetry()) as memory:
            memory.put_messages("t", [{"role": "user", "content": "hello"}])
        total = seen.metric("clew.storage.written")
    once = seen.metric("clew.storage.written") / 2
    assert total == 2 * once > 0
    dropped = clew.connect("memory://", durability="background", telemetry=seen.telemetry())
    assert seen.metric("clew.background.pending") == 0
    del dropped
    gc.collect()
    assert seen.metric("clew.background.pending") is None


def test_only_clew_and_the_conventions_name_attributes(either):
    with clew.connect("memory://", cache="memory://", telemetry=either.telemetry()) as memory:
        memory.put_state("t", {"n": 1})
        memory.get_state("t")
    allowed = {"db.system.name", "db.operation.name", "error.type", "clew.cache.result"}
    assert {key for _, of, _ in either.points() for key in of} <= allowed
