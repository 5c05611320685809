"""Times of checkpoints: when an id was first saved, and when it was saved last."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import clew
from clew.testing import FakeClock
from tests.checkpointer.support import at, run
from tests.encryption.support import ONLY_NEW, ROTATED, opened

HOUR = timedelta(hours=1)


def times(told: clew.Checkpoint | clew.CheckpointMetadata) -> tuple[datetime, datetime]:
    return told.created_at, told.updated_at


def replaced(memory: clew.BaseCheckpointer, clock: FakeClock) -> tuple[datetime, datetime]:
    """Save the checkpoint `c` twice, an hour apart, and another one in between. Returns its two times."""
    first = clock.now()
    memory.put_checkpoint("t", {"n": 1}, new_id="c")
    clock.advance(HOUR.total_seconds() / 2)
    memory.put_checkpoint("t", {"n": 2}, new_id="d")
    clock.advance(HOUR.total_seconds() / 2)
    assert times(memory.put_checkpoint("t", {"n": 3}, new_id="c")) == (first, first + HOUR)
    return first, first + HOUR


def test_every_method_tells_when_a_checkpoint_was_created_and_updated(store, clock):
    memory = store.open(clock=clock)
    saved = memory.put_checkpoint("t", {"n": 0})
    assert times(saved) == times(memory.get_checkpoint(at(saved))) == (clock.now(), clock.now())
    memory.delete_thread("t")
    expected = replaced(memory, clock)
    for reader in (memory, store.open()):
        listed = {each.checkpoint_id: each for each in reader.list_checkpoints("t")}
        assert times(listed["c"]) == expected
        assert times(listed["d"]) == (expected[0] + HOUR / 2,) * 2
        assert list(listed) == ["d", "c"]
        loaded = reader.get_checkpoint({"thread_id": "t", "checkpoint_id": "c"})
        assert times(loaded) == times(loaded.metadata) == expected
        assert [times(each) for each in reader.get_history("t") if each.checkpoint_id == "c"] == [expected]


def test_the_head_of_a_thread_tells_both_times(store, clock):
    memory = store.open(clock=clock)
    first = memory.put_checkpoint("t", {"n": 1}, new_id="c").created_at
    clock.advance(60)
    memory.put_checkpoint("t", {"n": 2}, new_id="c")
    expected = first, first + timedelta(minutes=1)
    assert times(memory.get_thread("t").head) == expected
    assert [times(each.head) for each in memory.list_threads({})] == [expected]
    assert times(memory.get_checkpoint("t")) == expected


def test_a_watcher_is_told_both_times(store, clock):
    memory = store.open(clock=clock)

    async def go() -> list[tuple[datetime, datetime]]:
        async with memory.awatch("t") as watch, asyncio.timeout(60):
            await memory.aput_checkpoint("t", 1, new_id="c")
            first = await anext(watch)
            clock.advance(60)
            await memory.aput_checkpoint("t", 2, new_id="c")
            return [times(each.checkpoint) for each in (first, await anext(watch))]

    first = clock.now()
    assert run(go()) == [(first, first), (first, first + timedelta(minutes=1))]


def test_copies_and_forks_keep_both_times_and_a_rewind_has_its_own(store, clock):
    memory = store.open(clock=clock)
    expected = replaced(memory, clock)
    clock.advance(60)
    memory.copy_thread("t", "copy")
    memory.fork({"thread_id": "t", "checkpoint_id": "c"}, "fork")
    for name in ("copy", "fork"):
        found = {each.checkpoint_id: times(each) for each in memory.list_checkpoints(name)}
        assert found["c"] == expected
    again = memory.rewind("t", to="c")
    assert times(again) == times(memory.get_checkpoint("t")) == (clock.now(), clock.now())
    memory.compact()
    assert times(memory.get_checkpoint({"thread_id": "t", "checkpoint_id": "c"})) == expected
    assert memory.verify().ok


def test_a_new_key_changes_no_time(store, clock):
    expected = replaced(opened(store, clock=clock), clock)
    rotated = opened(store, ROTATED, clock=clock)
    before = [times(each) for each in rotated.list_checkpoints("t")]
    clock.advance(60)
    assert rotated.reseal().resealed == 1
    assert [times(each) for each in opened(store, ONLY_NEW).list_checkpoints("t")] == before
    assert before[1] == expected


def test_a_clock_that_was_set_back_is_told_as_it_was(store, clock):
    memory = store.open(clock=clock)
    first = memory.put_checkpoint("t", 1, new_id="c").created_at
    clock.set(datetime(1999, 1, 1, tzinfo=UTC))
    assert times(memory.put_checkpoint("t", 2, new_id="c")) == (first, datetime(1999, 1, 1, tzinfo=UTC))
    assert times(memory.list_checkpoints("t")[0]) == (first, datetime(1999, 1, 1, tzinfo=UTC))


def test_retention_by_age_counts_from_the_last_save(store, clock):
    memory = store.open(clock=clock)
    replaced(memory, clock)
    memory.put_checkpoint("t", "head")
    clock.advance(60)
    policy = clew.RetentionPolicy(max_age=timedelta(minutes=20))
    assert memory.cleanup(policy).checkpoints == 1
    assert "c" in {each.checkpoint_id for each in memory.list_checkpoints("t")}
    clock.advance(HOUR.total_seconds())
    memory.put_checkpoint("t", "new head")
    memory.cleanup(policy)
    assert "c" not in {each.checkpoint_id for each in memory.list_checkpoints("t")}


def test_another_user_learns_no_time(store, clock):
    memory = store.open(clock=clock)
    memory.put_checkpoint({"thread_id": "t", "user_id": "ana"}, 1, new_id="c")
    clock.advance(60)
    memory.put_checkpoint({"thread_id": "t", "user_id": "ana"}, 2, new_id="c")
    assert memory.list_checkpoints({"thread_id": "t", "user_id": "bob"}) == []
    assert memory.get_checkpoint({"thread_id": "t", "checkpoint_id": "c", "user_id": "bob"}) is None
    with pytest.raises(clew.ClewError):
        memory.put_checkpoint({"thread_id": "t", "user_id": "bob"}, 3, new_id="c")


def test_metadata_takes_one_time_or_both():
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    once = clew.CheckpointMetadata(checkpoint_id="c", thread_id="t", timestamp=late)
    assert once == clew.CheckpointMetadata(checkpoint_id="c", thread_id="t", updated_at=late, timestamp=late)
    assert times(once) == (late, late)
    twice = clew.CheckpointInfo(checkpoint_id="c", thread_id="t", created_at=early, updated_at=late, size=1)
    assert (times(twice), twice.timestamp) == ((early, late), late)
    assert times(replace(twice, node_name="n")) == (early, late)
    with pytest.raises(clew.ConfigError, match="another name of updated_at"):
        clew.CheckpointMetadata(checkpoint_id="c", thread_id="t", timestamp=early, updated_at=late)
    with pytest.raises(TypeError, match="updated_at"):
        clew.CheckpointMetadata(checkpoint_id="c", thread_id="t")


def test_a_dict_has_both_times_and_may_have_the_timestamp_alone():
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    made = clew.CheckpointInfo(checkpoint_id="c", thread_id="t", created_at=early, updated_at=late, size=1)
    told = json.loads(json.dumps(made.to_dict()))
    assert (told["created_at"], told["updated_at"]) == (early.isoformat(), late.isoformat())
    assert clew.CheckpointInfo.from_dict(told) == made
    del told["created_at"]
    told["timestamp"] = told.pop("updated_at")
    assert clew.CheckpointInfo.from_dict(told) == replace(made, created_at=late)


@pytest.mark.parametrize("column", ["created_at", "saved_at"])
def test_a_damaged_time_is_named_and_the_next_save_repairs_it(sqlite, clock, column):
    memory = sqlite.open(clock=clock)
    first, _ = replaced(memory, clock)
    memory.release()
    connection = sqlite3.connect(sqlite.path)
    connection.execute(f"UPDATE checkpoints SET {column} = {1 << 62} WHERE checkpoint_id = 'c'")
    connection.commit()
    connection.close()
    clock.advance(60)
    memory = sqlite.open(clock=clock)
    assert f"its {column} can't be read" in str(memory.list_checkpoints("t")[1].metadata)
    now = clock.now()
    expected = (now, now) if column == "created_at" else (first, now)
    assert times(memory.put_checkpoint("t", {"n": 4}, new_id="c")) == expected
    assert times(memory.list_checkpoints("t")[1]) == expected
    assert memory.verify().ok
