"""BoundedMap evicts the least recently used entries, counts weights exactly, and
expires entries by its clock."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.bounded import BoundedMap
from clew.testing.clock import FakeClock

KEYS = st.integers(0, 5)
CALLS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 12)),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("pop"), KEYS),
    st.tuples(st.just("pass"), st.integers(1, 4)),
    st.tuples(st.just("clear")),
)


class Model:
    """The same promises, written as plainly as possible: a list of
    entries, least recently used first."""

    def __init__(self, max_entries: int, max_weight: int, ttl: int | None) -> None:
        self.max_entries, self.max_weight, self.ttl = max_entries, max_weight, ttl
        self.now = 0
        self.entries: list[tuple[int, int, int, int]] = []

    def put(self, key, value, weight):
        self.entries = [each for each in self.entries if each[0] != key]
        self.entries.append((key, value, weight, self.now))
        evicted = []
        while sum(each[2] for each in self.entries) > self.max_weight or len(self.entries) > self.max_entries:
            evicted.append(self.entries.pop(0)[:2])
        return evicted

    def pop(self, key):
        found = next((each for each in self.entries if each[0] == key), None)
        if found is None:
            return None
        self.entries.remove(found)
        return None if self.ttl is not None and self.now - found[3] >= self.ttl else found[1]

    def get(self, key):
        found = next((each for each in self.entries if each[0] == key), None)
        value = self.pop(key)
        if found is not None and value is not None:
            self.entries.append(found)
        return value


@given(st.integers(1, 4), st.integers(1, 20), st.none() | st.integers(1, 6), st.lists(CALLS, max_size=60))
def test_a_bounded_map_behaves_like_its_model(max_entries, max_weight, ttl, calls):
    clock, model = FakeClock(), Model(max_entries, max_weight, ttl)
    tested: BoundedMap[int, int] = BoundedMap(max_entries=max_entries, max_weight=max_weight, ttl=ttl, clock=clock)
    for number, (call, *args) in enumerate(calls):
        match call:
            case "put":
                key, weight = args
                assert tested.put(key, number, weight) == model.put(key, number, weight)
            case "get":
                assert tested.get(*args) == model.get(*args)
            case "pop":
                assert tested.pop(*args) == model.pop(*args)
            case "pass":
                clock.advance(*args)
                model.now += args[0]
            case "clear":
                tested.clear()
                model.entries.clear()
        assert [*tested] == [each[0] for each in model.entries]
        assert len(tested) == len(model.entries) <= max_entries
        assert tested.weight == sum(each[2] for each in model.entries) <= max_weight


def test_without_a_bound_everything_is_kept():
    tested: BoundedMap[int, int] = BoundedMap()
    for key in range(1000):
        assert tested.put(key, key, weight=10**6) == []
    assert [*tested] == list(range(1000))
    assert tested.weight == 10**9


def test_a_value_over_the_bound_is_evicted_itself_after_all_others():
    tested: BoundedMap[str, int] = BoundedMap(max_weight=10)
    tested.put("small", 1, weight=4)
    assert tested.put("large", 2, weight=11) == [("small", 1), ("large", 2)]
    assert (len(tested), tested.weight) == (0, 0)


def test_threads_that_put_get_and_pop_at_once_leave_exact_sums():
    tested: BoundedMap[int, int] = BoundedMap(max_entries=20, max_weight=100)

    def work(worker):
        for number in range(2000):
            key = (number * (worker + 7)) % 40
            tested.put(key, number, weight=number % 9)
            tested.get((key + 1) % 40)
            if number % 5 == 0:
                tested.pop((key + 2) % 40)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, worker) for worker in range(4)]:
            done.result()
    assert len(tested) <= 20
    assert tested.weight <= 100
    for key in tested:
        tested.pop(key)
    assert (len(tested), tested.weight) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_lock_that_nobody_will_release():
    tested: BoundedMap[str, int] = BoundedMap(max_entries=2)
    tested.put("a", 1)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with tested._lock:
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            tested.put("b", 2)
            os._exit(0 if tested.get("b") == 2 and tested.get("a") is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        release.set()
        holder.join()
