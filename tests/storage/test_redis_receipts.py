"""Receipts in Redis: bounded, and kept for the last commits of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.queries import JournalQuery
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED
from clew.storage.redis.keys import Keys
from clew.testing.build import checkpoint, commit, message
from clew.testing.driver import DrivenStorage
from clew.testing.servers import shared_redis
from tests.storage.redis_support import opened

MOST = RECEIPTS_KEPT + RECEIPTS_PRUNED
REGION = 2**44


class Opened:
    """A store, and a plain client that inspects the thread's key."""

    def __init__(self, store: DrivenStorage, client: Any, key: bytes) -> None:
        self.store, self.client, self.key = store, client, key

    def members(self) -> list[bytes]:
        return [each for each in self.client.zrange(self.key, 0, -1) if each.startswith(b"r")]

    def receipts(self) -> tuple[str, ...]:
        return self.store.run(self.store.storage.journal(JournalQuery(thread_id="t", receipts=True))).receipts


@pytest.fixture
def at() -> Iterator[Opened]:
    prefix = new_id()
    with opened(shared_redis(), prefix=prefix) as store, redis.Redis.from_url(shared_redis()) as client:
        yield Opened(store, client, Keys(prefix).thread("t"))


def saved(number: int) -> Commit:
    return commit(commit_id=f"s{number}", checkpoint=checkpoint(f"s{number}"))


def said(number: int) -> Commit:
    return commit(commit_id=f"m{number}", messages=[message("m", str(number))])


def test_alternating_kinds_of_commits_leave_a_bounded_number(at: Opened) -> None:
    made = [each for number in range(400) for each in (said(number), saved(number))]
    # With another id than its checkpoint's, which leaves a receipt on the fast path too.
    made += [replace(saved(number), commit_id=f"x{number}") for number in range(1_000, 1_400)]
    for start in range(0, len(made), 50):
        at.store.outcomes(*made[start : start + 50])
        assert len(at.members()) <= MOST
    before = at.store.everything()
    assert all(each.repeated for each in at.store.apply_all(*made[-RECEIPTS_KEPT:]))
    assert at.store.everything() == before


def test_receipts_of_old_versions_are_pruned_by_their_age(at: Opened) -> None:
    at.store.apply_all(*(saved(number) for number in range(400)))
    old = {f"rl{number}": 3 * REGION + number for number in range(1, 400)}
    old |= {f"rr{number}": 2 * REGION + number for number in range(1, 400)}
    at.client.zadd(at.key, old)
    assert at.receipts()[-1] in ("l399", "r399")
    assert len(at.receipts()) <= MOST
    at.store.outcomes(*(said(number) for number in range(MOST)))
    # The next receipt exceeds the bound and prunes.
    assert at.store.apply(replace(said(0), commit_id="l399")).repeated
    at.store.apply(said(MOST))
    assert at.members()
    assert not any(each.startswith((b"rl", b"rr")) for each in at.members())


def test_a_removed_checkpoint_leaves_a_receipt_only_if_its_commit_is_recent(at: Opened) -> None:
    at.store.apply_all(*(saved(number) for number in range(500)))
    assert at.members() == []
    at.store.apply(commit(commit_id="gone", remove=Removal(state=True)))
    assert len(at.members()) == RECEIPTS_KEPT
    assert at.receipts() == (*(f"s{number}" for number in range(500 - RECEIPTS_KEPT + 1, 500)), "gone")
    assert all(each.repeated for each in at.store.apply_all(*(saved(number) for number in range(300, 500))))
    assert not at.store.apply(saved(0)).repeated


def test_the_receipt_of_a_commit_that_replaced_a_checkpoint_has_that_commits_age(at: Opened) -> None:
    at.store.apply(commit(commit_id="first", checkpoint=checkpoint("c")))
    at.store.outcomes(*(saved(number) for number in range(MOST)))
    again = commit(commit_id="c", checkpoint=checkpoint("c"))
    at.store.apply_all(again, commit(commit_id="third", checkpoint=checkpoint("c")))
    assert at.store.apply(again).repeated
    at.store.apply(commit(remove=Removal(checkpoints=(("", "c"),))))
    assert at.store.apply(again).repeated


def test_receipts_that_a_commit_brings_come_before_its_own_in_their_order(at: Opened) -> None:
    brought = [f"{number * 7 % 300:03}" for number in range(300)]
    at.store.apply(said(0))
    at.store.apply(replace(said(1), receipts=tuple(brought)))
    at.store.apply(said(2))
    assert at.receipts() == ("m0", *brought, "m1", "m2")
    assert at.store.apply(replace(said(9), commit_id=brought[0])).repeated


def test_many_commits_that_bring_receipts_leave_a_bounded_number(at: Opened) -> None:
    for number in range(8):
        at.store.apply(replace(said(number), receipts=tuple(f"{number}/{each}" for each in range(1_000))))
        assert len(at.members()) <= MOST
    assert at.receipts()[-3:] == ("7/998", "7/999", "m7")
    assert at.store.apply(replace(said(99), commit_id="7/999")).repeated


def test_a_missing_thread_has_no_receipts(at: Opened) -> None:
    at.store.apply_all(said(0), commit(remove=Removal(thread=True), journal=b"j"))
    assert at.receipts() == ()
    assert at.store.apply(replace(commit(remove=Removal()), receipts=("a",))).basis is None
    assert at.receipts() == ()
