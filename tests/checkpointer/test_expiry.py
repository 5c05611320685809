"""Expiry: idle threads and old messages are removed by cleanups, unless somebody uses them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import clew
from clew import RetentionPolicy
from clew.testing.clock import FakeClock

IDLE = RetentionPolicy(thread_ttl=timedelta(hours=1))
KEY = clew.Encryption(keys={"key": bytes(range(32))})
WRAPPED: list[dict[str, Any]] = [
    {"encryption": KEY},
    {"cache": "memory://"},
    {"durability": "background"},
    {"secondary": "memory://", "replication_mode": "sync"},
    {"encryption": KEY, "cache": "memory://", "durability": "background"},
    {"encryption": KEY, "secondary": "memory://", "replication_mode": "sync", "durability": "background"},
]


def names(checkpointer):
    return sorted(each.thread_id for each in checkpointer.list_threads({}))


def test_without_a_policy_a_cleanup_applies_only_the_threads_own_rules(store):
    clock = FakeClock()
    checkpointer = store.open(clock=clock)
    for name in ("short", "limited", "plain"):
        for number in range(3):
            saved = checkpointer.put_checkpoint(name, {"n": number}, messages=[{"role": "user", "content": "hello"}])
    checkpointer.put_thread("short", ttl=1)
    checkpointer.put_retention("limited", RetentionPolicy(max_history=1))
    clock.advance(2)
    for dry_run in (True, False):
        report = checkpointer.cleanup(dry_run=dry_run)
        assert (report.expired, report.checkpoints, report.messages) == (1, 2, 0)
    assert names(checkpointer) == ["limited", "plain"]
    assert [checkpointer.size(name) for name in ("limited", "plain")] == [1, 3]
    assert checkpointer.cleanup(config="plain").checkpoints == 0
    assert checkpointer.cleanup(config="plain", remove=[("", saved.parent_id)]).checkpoints == 1
    assert checkpointer.size("plain") == 2


def test_idle_threads_go_and_active_ones_stay(store):
    clock = FakeClock()
    checkpointer = store.open(clock=clock)
    for name in ("idle", "own", "long", "active"):
        checkpointer.put_state(name, {"n": 1})
    checkpointer.put_thread("own", ttl=60)
    checkpointer.put_thread("long", ttl=86_400)
    clock.advance(120)
    assert checkpointer.cleanup(IDLE, dry_run=True).expired == 1
    assert checkpointer.get_state("own") == {"n": 1}
    assert checkpointer.cleanup(IDLE).expired == 1
    assert names(checkpointer) == ["active", "idle", "long"]
    clock.advance(3500)
    checkpointer.put_messages("active", [{"role": "user", "content": "hi"}])
    report = checkpointer.cleanup(IDLE)
    assert (report.expired, report.threads, report.bytes) == (1, 1, report.thread_bytes)
    assert names(checkpointer) == ["active", "long"]
    checkpointer.put_state("idle", {"n": 2})
    assert checkpointer.get_state("idle") == {"n": 2}


def test_a_thread_in_a_turn_stays(store):
    clock = FakeClock()
    checkpointer = store.open(clock=clock)
    checkpointer.put_state("t", {"n": 1})
    clock.advance(7200)
    with checkpointer.turn("t"):
        assert checkpointer.cleanup(IDLE).expired == 0
    clock.advance(7200)
    assert checkpointer.cleanup(IDLE).expired == 1


def test_a_writer_that_wakes_the_thread_up_keeps_it(local, monkeypatch):
    clock = FakeClock()
    checkpointer, writer = local.open(clock=clock), local.open(clock=clock)
    checkpointer.put_state("t", {"n": 1})
    clock.advance(7200)
    sweeper, commit = checkpointer._sweeper, checkpointer._sweeper.commit

    async def late(record, **content):
        writer.put_messages("t", [{"role": "user", "content": "awake"}])
        await commit(record, **content)

    monkeypatch.setattr(sweeper, "commit", late)
    assert checkpointer.cleanup(IDLE).expired == 0
    assert [each.content for each in writer.list_messages("t")] == ["awake"]
    writer.put_state("t", {"n": 2})


def test_old_messages_go(store):
    clock = FakeClock()
    checkpointer = store.open(clock=clock)
    for number in range(3):
        message = clew.Message(role="user", content=str(number), created_at=clock.now())
        checkpointer.put_messages("t", [message])
        clock.advance(3600)
    policy = RetentionPolicy(message_ttl=timedelta(hours=1, minutes=30))
    assert checkpointer.cleanup(policy, dry_run=True).messages == 2
    report = checkpointer.cleanup(policy)
    assert (report.messages, report.threads, report.expired) == (2, 1, 0)
    assert [each.content for each in checkpointer.list_messages("t")] == ["2"]


def test_a_clock_that_jumps_forward_expires_nothing_at_first():
    clock = FakeClock()
    checkpointer = clew.connect("memory://", clock=clock)
    checkpointer.put_state("t", {"n": 1})
    clock.set(clock.now() + timedelta(days=365))
    report = checkpointer.cleanup(IDLE)
    assert (report.expired, report.expiry_skipped) == (0, True)
    assert checkpointer.get_state("t") == {"n": 1}
    assert checkpointer.cleanup(IDLE).expired == 1


@pytest.mark.parametrize("options", WRAPPED, ids=" ".join)
def test_threads_and_messages_expire_through_wrappers(options):
    clock = FakeClock()
    with clew.connect("memory://", clock=clock, **options) as checkpointer:
        for name in ("idle", "own", "active"):
            old = clew.Message(message_id="old", role="user", content="old", created_at=clock.now())
            checkpointer.put_checkpoint(name, {"n": 1, "m": ["x" * 300]}, messages=[old])
            checkpointer.put_state_cache(name, {"cached": name})
        checkpointer.put_thread("own", ttl=60)
        clock.advance(120)
        assert checkpointer.cleanup(IDLE).expired == 1
        clock.advance(3500)
        new = clew.Message(message_id="new", role="user", content="new", created_at=clock.now())
        checkpointer.put_messages("active", [new])
        report = checkpointer.cleanup(RetentionPolicy(thread_ttl=IDLE.thread_ttl, message_ttl=timedelta(minutes=5)))
        assert (report.expired, report.messages) == (1, 1)
        assert names(checkpointer) == ["active"]
        assert [each.content for each in checkpointer.list_messages("active")] == ["new"]
        assert checkpointer.get_state("idle") is None
        assert checkpointer.get_state_cache("own") is None
        assert checkpointer.search("old") == []
        checkpointer.put_state("idle", {"n": 2})
        assert checkpointer.get_state("idle") == {"n": 2}
        assert checkpointer.verify().ok
