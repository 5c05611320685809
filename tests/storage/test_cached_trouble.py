"""Faults of the hot tier: damaged, full, slow or down. Reads and writes go on without it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from clew.errors import ClewError, StorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery
from clew.model.records import CheckpointRecord, ValueRow
from clew.storage.cached import entries, pending_writes
from clew.storage.locked import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Capabilities
from clew.storage.wrapper import StorageWrapper, shared_states
from clew.testing import FakeClock
from clew.testing.build import checkpoint, commit, deletion, row
from tests.storage.cached_support import Away, Both, Slow, in_loop, put, turns

# Damaged and forged entries


def flipped(record: CheckpointRecord) -> bytes:
    return record.body[:-3] + bytes([record.body[-3] ^ 1]) + record.body[-2:]


DAMAGE: dict[str, Callable[[CheckpointRecord], bytes]] = {
    "a flipped bit": flipped,
    "cut short": lambda record: record.body[:-5],
    "nothing": lambda record: b"",
    "noise": lambda record: b"\xc1" * 500,
    "its checksum only": lambda record: record.body[:16],
}


async def replaced(both: Both, record: CheckpointRecord, body: bytes, *, namespace: str | None = None) -> None:
    """Replace the body of an entry."""
    new = checkpoint(record.checkpoint_id, namespace=namespace or record.namespace, parent=None, body=body)
    (outcome,) = await both.kept.apply([commit(user=ANY_USER, checkpoint=new)])
    assert isinstance(outcome, Applied)


@pytest.mark.parametrize("damage", DAMAGE)
@in_loop
async def test_damaged_entries_are_ignored_and_removed(damage: str):
    both = Both()
    await put(both.storage, *turns(3))
    record = (await both.entries())[0]
    await replaced(both, record, DAMAGE[damage](record))
    assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "values"]
    assert record.checkpoint_id not in {each.checkpoint_id for each in await both.entries()}
    status = await both.status()
    assert status.errors == 1
    assert status.available
    assert "damaged" in (status.last_error or "")
    assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "values", "body"]


@in_loop
async def test_a_misplaced_entry_is_ignored():
    both = Both()
    await put(both.storage, *turns(2), *turns(2, thread_id="u"))
    query = CheckpointQuery(thread_id="u", user=ANY_USER, namespace=None, limit=None, detail="body")
    theirs = (await both.kept.checkpoints(query)).checkpoints[0]
    mine = (await both.entries())[0]
    await replaced(both, mine, theirs.body)
    assert await both.state() == await both.truth()
    # Of the same thread, in another incarnation.
    await put(both.storage, deletion(), *turns(2))
    (now, *_) = await both.entries()
    await replaced(both, now, mine.body)
    assert await both.state() == await both.truth()


@pytest.mark.parametrize(
    "wrong",
    [replace(row(0, 3), digests=b"short"), replace(row(0, 3), count=-1), row(-1, 2)],
    ids=["digests", "count", "number"],
)
@in_loop
async def test_impossible_rows_are_ignored(wrong: ValueRow):
    both = Both()
    await put(both.storage, *turns(3))
    basis = (await both.truth()).basis
    assert basis is not None
    made = entries._entry_commit("t", entries.namespace_of(basis.incarnation, 0), 0, [wrong], commit().at)
    await both.kept.apply([made])
    assert await both.state() == await both.truth()
    assert (await both.status()).errors == 1


@in_loop
async def test_rows_that_overlap_partly_are_read_from_the_cold_storage():
    both = Both()
    await put(both.storage, *turns(4))
    basis = (await both.truth()).basis
    assert basis is not None
    for rows in ([row(0, 2)], [row(1, 2)]):
        await both.storage.hot.keep("t", basis, rows, read=True)
    assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "state"]


@pytest.mark.parametrize("merged", [False, True])
@in_loop
async def test_a_cold_storage_that_was_restored_and_continued_differently_is_authoritative(merged: bool):
    both = Both()
    await put(both.storage, *turns(4))
    await both.state()
    assert isinstance(both.cold.inner, MemoryStorage)
    thread = both.cold.inner._threads["t"]
    thread.rows, thread.next_value = thread.rows[:2], 2
    for lost in ("c2", "c3"):
        del thread.namespaces[""][lost]
    other = ValueRow(first=2, count=1, digests=b"another one said", data=b"other")
    await put(both.storage, commit(values=other, checkpoint=checkpoint("c9", covers=[(0, 3)])))
    if merged:
        whole = ValueRow(first=0, count=3, digests=row(0, 2).digests + other.digests, data=b"all of it")
        await put(both.storage, commit(merge=[whole]))
    assert await both.state() == await both.truth()
    assert (await both.status()).errors == 1
    # The values that the restore lost are gone here too.
    assert await both.entries() == ()
    assert await both.state() == await both.truth()


@in_loop
async def test_an_entry_of_a_later_version_is_ignored(monkeypatch: pytest.MonkeyPatch):
    both = Both()
    monkeypatch.setattr(entries, "_VERSION", 2)
    await put(both.storage, *turns(2))
    monkeypatch.undo()
    assert await both.state() == await both.truth()
    assert both.cold.asked == ["body", "values"]


# While it is down


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@in_loop
async def test_a_failing_hot_tier_is_suspended_for_a_growing_time_with_one_warning(caplog):
    clock = FakeClock()
    both = Both(Away, clock=clock)
    caplog.set_level(logging.INFO, "clew")
    await put(both.storage, *turns(2))
    both.hot.away = True
    asked_at: list[float] = []
    calls = both.hot.calls
    for _ in range(1000):
        assert await both.state() == await both.truth()
        if both.hot.calls != calls:
            calls = both.hot.calls
            asked_at.append(clock.monotonic())
        clock.advance(0.125)
    assert asked_at[:6] == [0, 0.5, 1.5, 3.5, 7.5, 15.5]
    assert asked_at[-1] - asked_at[-2] == 30
    (warning,) = warnings(caplog)
    assert "memory" in warning
    assert "nobody is there" in warning
    status = await both.status()
    assert not status.available
    assert status.errors == len(asked_at)
    assert status.last_error == "TransientStorageError: nobody is there"
    both.hot.away = False
    clock.advance(30)
    await both.state()
    assert (await both.status()).available
    assert len(warnings(caplog)) == 1
    assert "answers again" in caplog.text
    hits = (await both.status()).hits
    await both.state()
    assert (await both.status()).hits == hits + 1


@in_loop
async def test_a_hot_tier_that_answers_but_refuses_writes_is_warned_of_once(caplog):
    clock = FakeClock()
    both = Both(Full, clock=clock)
    for number in range(400):
        await put(both.storage, *turns(1, first=number))
        clock.advance(0.5)
    assert len(warnings(caplog)) == 1
    # Half a minute apart in the end: the pause between its failures grows.
    assert (await both.status()).errors < 20


class Full(StorageWrapper):
    """A hot storage that is full."""

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        return [StorageError("no room") for _ in commits]


@in_loop
async def test_threads_that_were_deleted_while_it_was_down_are_dropped_when_it_is_back():
    clock = FakeClock()
    both = Both(Away, clock=clock)
    await put(both.storage, *turns(1), *turns(1, thread_id="u"), *turns(1, thread_id="v"))
    both.hot.away = True
    await put(both.storage, deletion("t"), deletion("u"))
    assert await both.threads() == ["v", "u", "t"]
    both.hot.away = False
    clock.advance(1)
    await both.status()
    assert await both.threads() == ["v"]


@in_loop
async def test_a_hot_tier_that_does_not_answer_is_not_waited_for():
    both = Both(Slow, timeout=0.05)
    both.storage.hot._breaker.untried = False
    await both.cold.apply(turns(2))
    async with asyncio.timeout(10):
        assert await both.state() == await both.truth()
        assert await both.state() == await both.truth()
        await put(both.storage, *turns(1, first=2), deletion())
    assert not (await both.status()).available
    both.hot.open.set()
    await both.storage.close()


@in_loop
async def test_nobody_waits_for_pending_writes_and_their_rows_can_be_read():
    both = Both(Slow, timeout=60)
    await put(both.storage, *turns(3))
    await both.hot.waiting.wait()
    assert await both.entries() == ()
    reading = asyncio.create_task(both.state())
    both.hot.open.set()
    assert await reading == await both.truth()
    assert both.cold.asked == ["body"]
    await both.storage.hot.settle()
    assert len(await both.entries()) == 3
    await both.storage.close()


@in_loop
async def test_pending_writes_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pending_writes, "MAX_WRITES", 3)
    both = Both(Slow, timeout=60)
    await put(both.storage, *turns(5))
    status = await both.status()
    assert (status.writes, status.dropped) == (3, 2)
    both.hot.open.set()
    await both.storage.hot.settle()
    assert await both.state() == await both.truth()
    await both.storage.hot.settle()
    assert (await both.status()).fills == 2
    await both.storage.close()


@in_loop
async def test_a_deletion_waits_for_the_hot_tier():
    both = Both(Slow, timeout=60)
    await put(both.storage, *turns(3))
    deleting = asyncio.create_task(put(both.storage, deletion()))
    await both.hot.waiting.wait()
    assert not deleting.done()
    both.hot.open.set()
    await deleting
    assert await both.threads() == []
    await both.storage.close()


@in_loop
async def test_closing_gives_up_on_a_hot_tier_that_does_not_answer():
    both = Both(Slow, timeout=0.02)
    await put(both.storage, *turns(3))
    await both.hot.waiting.wait()
    async with asyncio.timeout(20):
        await both.storage.close()
    assert await both.entries() == ()
    await both.storage.close()


def test_pending_writes_end_with_their_event_loop():
    opened: list[Both] = []

    async def go() -> None:
        opened.append(Both(Slow, timeout=60))
        await put(opened[0].storage, *turns(3))
        await opened[0].hot.waiting.wait()

    asyncio.run(go())
    (both,) = opened
    assert both.storage.hot._pending.rows("t", "") == []
    assert both.storage.hot._pending._count == 0


def test_the_hot_tier_is_found_inside_other_wrappers():
    both = Both()
    assert shared_states(LockingStorage(both.storage, timeout=1, expiry=1)) is both.storage.hot
    assert shared_states(both.cold) is None
    assert both.storage.capabilities == Capabilities(
        name="memory+memory", durable=False, suspends=False, shares_forks=True
    )
