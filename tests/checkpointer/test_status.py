"""The status of a checkpointer."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import clew
from clew.storage.wrapper import StorageWrapper
from clew.testing import FaultyStorage
from clew.testing.faults import Fault, script
from clew.testing.servers import Proxy, shared_postgres, shared_redis
from tests.checkpointer.support import run

HEALTHY = clew.Status(primary_healthy=True)


def test_a_store_that_answers_is_healthy(store):
    assert store.open().status() == HEALTHY
    assert run(store.open().astatus()) == HEALTHY


def test_a_store_that_is_down_is_told_of_and_not_raised(store):
    down = script(itertools.repeat(Fault("before read", clew.StorageError("the disk is full"))), kinds=("read",))
    checkpointer = store.open(lambda storage: FaultyStorage(storage, down))
    expected = clew.Status(primary_healthy=False, last_error="the disk is full")
    assert checkpointer.status() == expected
    assert run(checkpointer.astatus()) == expected


def test_a_storage_around_a_storage_adds_its_part(store):
    class Counting(StorageWrapper):
        async def status(self, found: clew.Status) -> clew.Status:
            inner = await super().status(found)
            return replace(inner, failover_count=inner.failover_count + 1)

    checkpointer = store.open(lambda storage: Counting(Counting(StorageWrapper(storage))))
    assert checkpointer.status().failover_count == 2


@pytest.mark.parametrize("url", [shared_postgres, shared_redis], ids=["postgres", "redis"])
def test_a_server_that_does_not_answer_keeps_nobody_waiting(url, monkeypatch):
    monkeypatch.setattr("clew.checkpointer.base.STATUS_TIMEOUT", 0.3)
    with Proxy.before(url()) as proxy, clew.connect(proxy.url(url())) as checkpointer:
        assert checkpointer.status() == HEALTHY
        proxy.delay(5)
        assert checkpointer.status() == clew.Status(primary_healthy=False, last_error="no answer within 0.3 seconds")
        proxy.refuse()
        assert not checkpointer.status().primary_healthy
        proxy.accept()
        assert checkpointer.status() == HEALTHY


def test_a_status_turns_into_plain_data_and_back():
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    report = clew.CleanupReport(threads=1, checkpoints=2, bytes=3, dry_run=False)
    status = clew.Status(
        primary_healthy=False,
        last_error="gone",
        cache=clew.CacheStatus(hits=1),
        background=clew.BackgroundStatus(pending=2),
        cleanup=clew.CleanupStatus(last_run=now, last_report=report),
    )
    assert clew.Status.from_dict(json.loads(json.dumps(status.to_dict()))) == status
