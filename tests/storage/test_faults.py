"""Fault-injecting storages fail as told, and the fake clock stands still."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clew.errors import CorruptRecordError, TransientStorageError
from clew.model.queries import MessageQuery
from clew.storage.memory import MemoryStorage
from clew.testing import FakeClock, Fault, FaultyStorage, RetryingStorage, at_random, run_inline, script
from clew.testing.build import NOON, commit, later, message

ALL = MessageQuery(thread_id="t", user=None, limit=None)


def ids(storage):
    return [found.message_id for found in run_inline(storage.messages(ALL))]


def add(storage, name):
    return run_inline(storage.apply([commit(messages=[message(name)])]))


def test_a_script_says_which_apply_fails():
    inner = MemoryStorage()
    storage = FaultyStorage(inner, script([None, "before apply", "after apply"]))
    add(storage, "m1")
    for name in ("m2", "m3"):
        with pytest.raises(TransientStorageError, match="on purpose"):
            add(storage, name)
    add(storage, "m4")
    assert ids(storage) == ids(inner) == ["m1", "m3", "m4"]
    assert storage.faults == ["before apply", "after apply"]


def test_a_read_fails_before_it_is_done():
    storage = FaultyStorage(MemoryStorage(), script(["before read"], kinds=["read"]))
    add(storage, "m1")
    with pytest.raises(TransientStorageError):
        ids(storage)
    assert ids(storage) == ["m1"]


def test_another_error_can_be_given():
    storage = FaultyStorage(MemoryStorage(), script([Fault("before apply", CorruptRecordError("page 3"))]))
    with pytest.raises(CorruptRecordError, match="page 3"):
        add(storage, "m1")


def test_slow_fails_nothing_and_needs_no_event_loop():
    storage = FaultyStorage(MemoryStorage(), script(["slow"] * 2), delay=0)
    add(storage, "m1")
    assert storage.faults == ["slow"]


def test_a_lease_and_a_ping_can_fail():
    storage = FaultyStorage(MemoryStorage(), script(["before apply", "before read"], kinds=["apply", "read"]))
    with pytest.raises(TransientStorageError):
        run_inline(storage.lease("t", None, holder="me", now=NOON, ttl=30))
    with pytest.raises(TransientStorageError):
        run_inline(storage.ping())
    assert run_inline(storage.lease("t", None, holder="me", now=NOON, ttl=30)).token == 1


def test_random_faults_are_the_same_for_the_same_seed():
    def faults(seed):
        storage = FaultyStorage(MemoryStorage(), at_random(seed=seed, rate=0.5))
        for number in range(40):
            try:
                add(storage, str(number))
                ids(storage)
            except TransientStorageError:
                pass
        return storage.faults

    assert faults(1) == faults(1) != faults(2)
    assert set(faults(1)) == {"before apply", "after apply", "before read"}


@pytest.mark.parametrize(("rate", "expected"), [(0, 0), (1, 20)])
def test_random_faults_come_at_their_rate(rate, expected):
    storage = FaultyStorage(MemoryStorage(), at_random(seed=1, rate=rate, points=["slow"]), delay=0)
    for number in range(20):
        add(storage, str(number))
    assert len(storage.faults) == expected
    assert len(ids(storage.inner)) == 20


def test_what_failed_in_passing_is_tried_again():
    faulty = FaultyStorage(MemoryStorage(), script(["before apply", "after apply"]))
    (outcome,) = add(RetryingStorage(faulty), "m1")
    assert outcome.repeated
    assert ids(faulty) == ["m1"]


def test_trying_again_comes_to_an_end():
    faulty = FaultyStorage(MemoryStorage(), script(["before apply"] * 5))
    with pytest.raises(TransientStorageError):
        add(RetryingStorage(faulty, attempts=3), "m1")
    assert len(faulty.faults) == 3


def test_other_errors_are_not_tried_again():
    faulty = FaultyStorage(MemoryStorage(), script([Fault("before apply", CorruptRecordError("damaged"))]))
    with pytest.raises(CorruptRecordError):
        add(RetryingStorage(faulty), "m1")


def test_a_clock_stands_still_until_it_is_advanced():
    clock = FakeClock(NOON)
    assert clock.now() == clock.now() == NOON
    assert clock.advance(1.5) == clock.now() == later(1.5)
    assert clock.monotonic() == 1.5


def test_setting_a_clock_back_does_not_shorten_durations():
    clock = FakeClock(NOON)
    clock.advance(5)
    clock.set(datetime(2000, 1, 1, tzinfo=UTC))
    assert clock.now().year == 2000
    assert clock.monotonic() == 5


def test_a_clock_refuses_what_no_clock_does():
    with pytest.raises(ValueError, match="needs 0 or more seconds"):
        FakeClock().advance(-1)
    with pytest.raises(ValueError, match="zone"):
        FakeClock().set(datetime(2026, 1, 1))  # noqa: DTZ001
