"""Automatic cleanup."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from contextlib import closing
from datetime import timedelta

import pytest

import clew
from clew import AutoCleanup, RetentionPolicy
from clew.storage.wrapper import StorageWrapper
from clew.testing import FakeClock, FaultyStorage
from clew.testing.faults import Fault
from tests.checkpointer.conftest import SHARED
from tests.checkpointer.support import no_thread_stays, python, run

KEEP_ONE = RetentionPolicy(max_history=1)


class Watched(StorageWrapper):
    """Signals the end of each cleanup, and can stall one at its beginning."""

    def __init__(self, inner):
        super().__init__(inner)
        self.ended = threading.Semaphore(0)
        self.listed = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    async def reclaim(self):
        await super().reclaim()
        self.ended.release()

    async def threads(self, query):
        if query.thread_id is None:
            self.listed.release()
            if self.capabilities.suspends:
                await asyncio.to_thread(self.gate.wait)
            else:
                self.gate.wait()
        return await super().threads(query)


@pytest.fixture
def watched(store):
    return store.open(Watched)


def fill(checkpointer, name="t", count=4):
    for number in range(count):
        checkpointer.put_state(name, {"n": number})


def settled(auto):
    """Wait until a run was counted, and return the status."""
    while auto.status.running or auto.status.next_run is None:
        threading.Event().wait(0.005)
    return auto.status


def test_it_cleans_up_at_once_and_again_after_the_interval(watched):
    fill(watched)
    with AutoCleanup(watched, KEEP_ONE, 0.05) as auto:
        assert watched.storage.ended.acquire(timeout=120)
        assert watched.size("t") == 1
        fill(watched)
        while watched.size("t") > 1:
            assert watched.storage.ended.acquire(timeout=120)
        assert auto.status.runs >= 1
    assert watched.status().cleanup.last_error is None
    assert watched.status().cleanup.next_run is None
    no_thread_stays("clew-cleanup")


def test_it_runs_beside_an_event_loop_and_tells_how_far_it_is(store):
    async def go():
        checkpointer = store.open(Watched)
        for number in range(4):
            await checkpointer.aput_state("t", {"n": number})
        async with AutoCleanup(checkpointer, KEEP_ONE, 3600) as auto:
            await asyncio.to_thread(checkpointer.storage.ended.acquire)
            await asyncio.to_thread(settled, auto)
            found = (await checkpointer.astatus()).cleanup
            assert (found.runs, found.running, found.last_report.checkpoints, found.last_error) == (1, False, 3, None)
            assert (found.done, found.total) == (4, 4)
            assert timedelta(seconds=3500) < found.next_run - found.last_run < timedelta(seconds=3700)
            assert [info.thread_id for info in await checkpointer.alist_threads({"user_id": clew.ANY_USER})] == ["t"]
            assert list((await checkpointer.astats()).by_thread) == ["t"]
        await auto.astop()
        await checkpointer.arelease()

    run(go())


def test_it_is_an_option_of_connect(tmp_path):
    url = f"sqlite:///{tmp_path}/clew.db"
    with clew.connect(url) as before:
        fill(before)
    with clew.connect(url, retention=KEEP_ONE, cleanup_interval=3600) as checkpointer:
        auto = checkpointer._auto_cleanup
        assert auto is not None
        assert settled(auto).runs == 1
        assert checkpointer.size("t") == 1
        assert checkpointer.status().cleanup == auto.status
    assert clew.connect(url).status().cleanup is None


@pytest.mark.parametrize("interval", [0, -1, "1", None, True, float("nan")])
def test_an_interval_that_makes_no_sense_is_refused(interval):
    with pytest.raises(clew.ConfigError):
        AutoCleanup(clew.InMemoryCheckpointer(), KEEP_ONE, interval)


def test_without_a_policy_it_applies_the_threads_own_rules(tmp_path):
    url = f"sqlite:///{tmp_path}/clew.db"
    clock = FakeClock()
    with clew.connect(url, clock=clock) as before:
        fill(before)
        before.put_state("short", {"n": 1})
        before.put_thread("short", ttl=1)
    clock.advance(2)
    with clew.connect(url, clock=clock, cleanup_interval=3600) as checkpointer:
        auto = checkpointer._auto_cleanup
        assert auto is not None
        report = settled(auto).last_report
        assert (report.expired, report.checkpoints) == (1, 0)
        assert [each.thread_id for each in checkpointer.list_threads({})] == ["t"]


@pytest.mark.parametrize("policy", ["everything", 5])
def test_a_policy_that_is_none_is_refused(policy):
    with pytest.raises(clew.ConfigError):
        AutoCleanup(clew.InMemoryCheckpointer(), policy)


def test_starting_and_stopping_twice_is_fine(watched):
    auto = AutoCleanup(watched, KEEP_ONE, 3600)
    auto.stop()
    auto.start()
    auto.start()
    auto.stop()
    auto.stop()
    with auto:
        pass
    watched.release()
    watched.release()


def test_one_of_several_cleans_up_and_the_others_leave_it_to_it(store):
    first, second = store.open(Watched), store.open(Watched)
    fill(first)
    with AutoCleanup(first, KEEP_ONE, 3600) as one:
        settled(one)
        fill(first)
        with AutoCleanup(second, KEEP_ONE, 3600) as other:
            found = settled(other)
        assert (one.status.runs, one.status.skipped) == (1, 0)
        assert (found.runs, found.skipped, found.last_error) == (0, 1, None)
        assert timedelta(0) < found.next_run - second._engine.clock.now() < timedelta(seconds=3601)
    assert first.size("t") == 5


def test_it_stops_in_the_middle_of_a_run(watched):
    for number in range(30):
        fill(watched, f"t{number}")
    watched.storage.gate.clear()
    auto = AutoCleanup(watched, KEEP_ONE, 3600)
    auto.start()
    assert watched.storage.listed.acquire(timeout=120)
    assert watched.status().cleanup.running
    stopping = threading.Thread(target=auto.stop)
    stopping.start()
    auto._stopped.wait()
    watched.storage.gate.set()
    stopping.join(120)
    assert not stopping.is_alive()
    assert auto.status.runs == 0
    # And returned the lease.
    with AutoCleanup(watched, KEEP_ONE, 3600) as again:
        assert settled(again).runs == 1


def test_what_fails_is_logged_once_and_told_and_it_goes_on(store, caplog):
    down = threading.Event()
    down.set()

    def plan(kind):
        return Fault("before read", clew.StorageError("the disk is gone")) if kind == "read" and down.is_set() else None

    checkpointer = store.open(lambda storage: FaultyStorage(storage, plan), retry_for=0)
    with caplog.at_level(logging.WARNING, "clew"), AutoCleanup(checkpointer, KEEP_ONE, 0.01) as auto:
        for _ in itertools.takewhile(lambda _: auto.status.last_error is None, itertools.count()):
            threading.Event().wait(0.005)
        assert auto.status.last_error == "the disk is gone"
        down.clear()
        while not auto.status.runs:
            threading.Event().wait(0.005)
        assert checkpointer.status().cleanup.last_error is None
    assert len([record for record in caplog.records if "the disk is gone" in record.message]) == 1


@pytest.mark.parametrize("kind", SHARED)
def test_processes_clean_up_one_at_a_time_and_one_that_ends_is_no_trouble(kind, tmp_path):
    with closing(kind(tmp_path)) as store:
        checkpointer = store.open()
        fill(checkpointer)
        script = """
import sys, threading, clew
checkpointer = clew.connect(sys.argv[1], retention=clew.RetentionPolicy(max_history=1), cleanup_interval=3600)
while checkpointer._auto_cleanup.status.next_run is None:
    threading.Event().wait(0.005)
print(checkpointer.status().cleanup.runs, checkpointer.status().cleanup.skipped)
"""
        assert python(script, store.url) == "1 0\n"
        with AutoCleanup(checkpointer, KEEP_ONE, 3600) as other:
            found = settled(other)
        assert (found.runs, found.skipped) == (0, 1)
        assert checkpointer.size("t") == 1
