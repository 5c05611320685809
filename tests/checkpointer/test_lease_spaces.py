"""Lease spaces: a user's lease on an id that does not exist yet blocks no other user."""

from __future__ import annotations

import pytest

import clew
from clew.storage.locked import LockingStorage

ANN = {"thread_id": "future", "user_id": "ann"}
BOB = {"thread_id": "future", "user_id": "bob"}
YEAR = 366 * 86400


def test_a_lease_on_an_id_that_does_not_exist_keeps_nobody_else_from_a_turn(store):
    one, other = store.open(), store.open()
    with one.lease(BOB, ttl=YEAR):
        other.put_state(ANN, {"n": 1})
        with other.lease(ANN) as hers:
            other.put_state(ANN, {"n": 2})
            assert not hers.lost
        assert other.get_state(ANN) == {"n": 2}
        with pytest.raises(clew.PermissionDeniedError):
            one.put_state(BOB, {"n": 3})


def test_with_a_lock_for_each_write_nobody_waits_for_the_lease_of_another_user(store, clock):
    one = store.open(clock=clock)
    other = store.open(lambda inner: LockingStorage(inner, timeout=0, expiry=30, clock=clock), clock=clock)
    with one.lease(BOB, ttl=YEAR), one.lease({"thread_id": "future"}, ttl=YEAR):
        other.put_state(ANN, {"n": 1})
        other.put_messages(ANN, [clew.Message(role="user", content="hello")])
        assert other.get_state(ANN) == {"n": 1}
    with one.lease(ANN), pytest.raises(clew.LeaseError):
        other.put_state(ANN, {"n": 2})


def test_the_turn_in_a_thread_that_the_holder_creates_stays_the_holders(store):
    one, other = store.open(), store.open()
    with one.lease(ANN) as lease:
        one.put_state(ANN, {"n": 1})
        with pytest.raises(clew.LeaseError), other.lease(ANN):
            pass
        one.put_state(ANN, {"n": 2})
        assert not lease.lost
    assert other.get_state(ANN) == {"n": 2}
