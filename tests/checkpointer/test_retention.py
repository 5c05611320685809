"""Retention: cleanups by size, their reports, policies of checkpointers and threads, and disk space."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
import redis

import clew
from clew import RetentionPolicy
from clew.model.commit import ThreadFields
from clew.model.config import read_config
from clew.storage.locked import LockingStorage
from clew.testing.servers import shared_postgres, shared_redis
from tests.checkpointer.support import PostgresStore, RedisStore, SpyStorage, at, run, text

KEEP_ALL = RetentionPolicy(max_history=1, keep_every=1)


def fill(checkpointer, config, count, size=400):
    """Save `count` checkpoints, each with `size` new characters in a few values."""
    for number in range(count):
        said = [text((config, number, part), size // 4) for part in range(4)]
        checkpointer.put_state(config, {"n": number, "said": said})


def numbers(checkpointer, config="t"):
    return [each.state["n"] for each in checkpointer.get_history(config, limit=None)][::-1]


def sizes(checkpointer):
    return {name: totals.bytes for name, totals in checkpointer.stats().by_thread.items()}


# By size


@pytest.mark.parametrize("room", [0, 5_000, 20_000, 1_000_000])
def test_the_oldest_go_until_the_thread_fits(store, room):
    checkpointer = store.open()
    fill(checkpointer, "t", 30, 1600)
    before = checkpointer.get_thread("t").size
    report = checkpointer.cleanup(RetentionPolicy(max_bytes=room))
    left = numbers(checkpointer)
    after = checkpointer.get_thread("t").size
    assert left == list(range(30 - len(left), 30))
    assert report.bytes == before - after
    if room == 0:
        assert left == [29]
    elif room < before:
        # About as much as fits: one more would not.
        assert room - 4_500 < after <= room
    else:
        assert len(left) == 30
    assert checkpointer.verify().ok
    assert store.open().get_state("t")["n"] == 29


def test_milestones_heads_and_what_is_kept_stay_however_large_they_are(store):
    checkpointer = store.open()
    fill(checkpointer, "t", 10)
    fill(checkpointer, {"thread_id": "t", "checkpoint_ns": "sub"}, 4)
    third = checkpointer.list_checkpoints("t", limit=None)[7]
    checkpointer.cleanup(RetentionPolicy(max_bytes=0, keep_every=4), config="t", keep=[("", third.checkpoint_id)])
    assert numbers(checkpointer) == [2, 3, 7, 9]
    # Commits 11 to 14: the first since the eighth, the twelfth, the head.
    assert numbers(checkpointer, {"thread_id": "t", "checkpoint_ns": "sub"}) == [0, 1, 3]


def test_milestones_stay_where_messages_are_saved_between_the_checkpoints(store):
    checkpointer = store.open()
    policy = RetentionPolicy(max_history=2, keep_every=10)
    kept = []
    for number in range(40):
        checkpointer.put_state("t", {"n": number})
        checkpointer.put_messages("t", [clew.Message(role="user", content="hi")])
        if number % 20 == 19:
            checkpointer.cleanup(policy)
            kept.append(numbers(checkpointer))
    # Commits 11, 21 and 31 are the first after a multiple of 10. The cleanup is a commit too, so 42, 50, 60 and 70 follow.
    assert kept == [[5, 10, 15, 18, 19], [5, 10, 15, 20, 24, 29, 34, 38, 39]]


def test_a_size_counts_the_messages_though_they_stay(store):
    checkpointer = store.open()
    fill(checkpointer, "t", 3)
    checkpointer.put_messages("t", [clew.Message(role="user", content=text("long", 20_000))])
    assert checkpointer.cleanup(RetentionPolicy(max_bytes=10_000)).checkpoints == 2
    assert len(checkpointer.list_messages("t")) == 1


def test_what_a_fork_shares_does_not_cost_its_source_the_history(local):
    checkpointer = local.open()
    fill(checkpointer, "t", 30, 4000)
    fork = checkpointer.fork("t", "what-if")
    limit = checkpointer.get_thread("t").size * 9 // 10
    report = checkpointer.cleanup(RetentionPolicy(max_bytes=limit))
    assert (report.checkpoints, report.over_limit) == (0, 1)
    # Both histories after the fork are bounded as usual.
    for number in range(30, 60):
        for config in ("t", fork):
            said = [text((str(config), number, part), 1000) for part in range(4)]
            checkpointer.put_state(config, {"n": number, "said": said})
    policy = RetentionPolicy(max_bytes=30_000)
    assert checkpointer.cleanup(policy).over_limit == 1
    assert 20_000 < checkpointer.get_thread(fork).size <= 30_000
    assert 40 < min(numbers(checkpointer)) < 55
    checkpointer.delete_thread(fork)
    assert checkpointer.cleanup(policy).over_limit == 0
    assert checkpointer.get_thread("t").size <= 30_000
    assert checkpointer.verify().ok


def test_a_thread_that_can_not_be_made_to_fit_is_counted(store):
    checkpointer = store.open()
    fill(checkpointer, "small", 1, 40)
    fill(checkpointer, "one", 1)
    fill(checkpointer, "many", 5)
    report = checkpointer.cleanup(RetentionPolicy(max_bytes=300))
    assert (report.checkpoints, report.over_limit) == (4, 2)
    assert checkpointer.cleanup(RetentionPolicy(max_history=1)).over_limit == 0


# Reports


@pytest.mark.parametrize(
    "policy",
    [
        RetentionPolicy(max_history=3),
        RetentionPolicy(max_history=1, keep_every=5),
        RetentionPolicy(max_bytes=12_000),
        RetentionPolicy(max_age=timedelta(0)),
    ],
)
def test_a_dry_run_says_the_same_as_the_cleanup_that_follows(store, clock, policy):
    checkpointer = store.open(clock=clock)
    for name in ("t", "u"):
        fill(checkpointer, name, 25, 1200)
        for info in checkpointer.list_checkpoints(name, limit=None):
            checkpointer.put_attachments(at(info), {"a": text(info.checkpoint_id, 90), "b": 1})
    checkpointer.put_state("small", 1)
    clock.advance(1)
    before, messages = sum(sizes(checkpointer).values()), checkpointer.size()
    dry = checkpointer.cleanup(policy, dry_run=True)
    assert (checkpointer.size(), sum(sizes(checkpointer).values())) == (messages, before)
    real = checkpointer.cleanup(policy)
    assert real.to_dict() == dry.to_dict() | {"dry_run": False}
    assert real.bytes == before - sum(sizes(checkpointer).values())
    assert real.bytes == real.checkpoint_bytes + real.attachment_bytes + real.value_bytes
    assert (real.threads, real.attachments) == (2, 2 * real.checkpoints)
    assert real.values > 0
    assert messages - checkpointer.size() == real.checkpoints > 0


def test_a_cleanup_of_very_many_checkpoints_goes_in_steps_and_counts_all(store, monkeypatch):
    monkeypatch.setattr("clew.checkpointer.cleanup.MOST_REMOVED", 7)
    monkeypatch.setattr("clew.checkpointer.sweeper.BODIES", 10)
    checkpointer = store.open(SpyStorage)
    spy: Any = checkpointer.storage
    fill(checkpointer, "t", 60)
    dry = checkpointer.cleanup(RetentionPolicy(max_history=2), dry_run=True)
    spy.commits.clear()
    report = checkpointer.cleanup(RetentionPolicy(max_history=2))
    assert max(len(commit.remove.checkpoints) for commit in spy.commits) == 7
    assert (report.checkpoints, report.bytes, report.values) == (58, dry.bytes, dry.values)
    assert numbers(checkpointer) == [58, 59]
    assert checkpointer.verify().ok


def test_namespaces_that_have_the_same_ids_keep_what_they_should(store, monkeypatch):
    monkeypatch.setattr("clew.checkpointer.sweeper.BODIES", 10)
    monkeypatch.setattr("clew.checkpointer.loader.PAGE", 10)
    checkpointer = store.open()
    both = [{"thread_id": "t", "checkpoint_ns": name} for name in ("", "sub")]
    for config in both:
        for number in range(25):
            checkpointer.put_checkpoint(config, {"n": number}, new_id=f"step-{number}", metadata={"a": 1})
    assert len(checkpointer.list_checkpoints("t", limit=None, where={"a": 1}, namespaces="all")) == 50
    assert checkpointer.cleanup(RetentionPolicy(max_history=15)).checkpoints == 20
    assert [numbers(checkpointer, config) for config in both] == [list(range(10, 25))] * 2
    assert len(checkpointer.list_checkpoints("t", limit=None, where={"a": 1}, namespaces="all")) == 30


def test_threads_that_the_policy_can_not_touch_are_not_read(store, clock):
    checkpointer = store.open(SpyStorage, clock=clock)
    spy: Any = checkpointer.storage
    for number in range(40):
        fill(checkpointer, f"t{number}", 3, 40)
    spy.reads = 0
    for policy in (
        RetentionPolicy(max_history=3),
        RetentionPolicy(max_age=timedelta(days=1)),
        RetentionPolicy(max_bytes=1 << 20),
    ):
        assert checkpointer.cleanup(policy).threads == 0
    assert spy.reads == 3


def test_many_threads_are_cleaned_up_page_by_page(store, monkeypatch):
    monkeypatch.setattr("clew.checkpointer.sweeper.FIRST_PAGE", 3)
    monkeypatch.setattr("clew.checkpointer.thread_pages.LARGEST_PAGE", 8)
    checkpointer = store.open()
    for number in range(50):
        fill(checkpointer, f"t{number}", 3, 40)
    seen = []

    async def go():
        other = store.open()
        report = await other.acleanup(
            RetentionPolicy(max_history=1), progress=lambda done, total: seen.append((done, total))
        )
        await other.arelease()
        return report

    assert run(go()).checkpoints == 100
    assert (seen[0], seen[-1]) == ((0, 150), (150, 150))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert checkpointer.size() == 50


def test_writers_at_work_lose_nothing_to_a_cleanup(store):
    async def go():
        checkpointer = store.open()
        states = {}

        async def write(name):
            for number in range(40):
                states[name] = {"n": number, "said": [text((name, number, part)) for part in range(3)]}
                await checkpointer.aput_state(name, states[name])

        async def clean():
            while len(done) < 4:
                await checkpointer.acleanup(RetentionPolicy(max_history=2))
                await asyncio.sleep(0)

        done = []

        async def both(name):
            await write(name)
            done.append(name)

        await asyncio.gather(clean(), *(both(f"t{each}") for each in range(4)))
        await checkpointer.acleanup(RetentionPolicy(max_history=2))
        assert (await checkpointer.averify()).ok
        fresh = store.open()
        for name, state in states.items():
            assert await fresh.aget_state(name) == state
            assert await fresh.asize(name) == 2
        await checkpointer.arelease()
        await fresh.arelease()

    run(go())


def test_a_thread_whose_turn_somebody_has_waits_for_the_next_time_where_every_write_takes_a_turn(store):
    locking = store.open(lambda storage: LockingStorage(storage, timeout=0.01, expiry=30))
    for name in ("held", "free"):
        fill(locking, name, 3)
    with store.open().lease("held"):
        assert locking.cleanup(RetentionPolicy(max_history=1)).checkpoints == 2
    assert locking.cleanup(RetentionPolicy(max_history=1)).checkpoints == 2


# Precedence of policies


def test_a_checkpointers_own_policy_is_what_a_cleanup_goes_by(store):
    checkpointer = store.open(retention=RetentionPolicy(max_history=2))
    fill(checkpointer, "t", 5)
    assert checkpointer.cleanup().checkpoints == 3
    assert checkpointer.cleanup(RetentionPolicy(max_history=1)).checkpoints == 1
    fill(checkpointer, "t", 5)
    assert store.open().cleanup().checkpoints == 0
    with pytest.raises(clew.ConfigError, match=r"leave the policy out: cleanup\(\)"):
        RetentionPolicy()
    with pytest.raises(clew.ConfigError):
        store.open(retention="all")


def test_a_threads_own_policy_comes_before_that_of_the_store(store):
    checkpointer = store.open(retention=RetentionPolicy(max_history=1))
    for name in ("short", "long", "hold"):
        fill(checkpointer, name, 5)
    checkpointer.put_retention("long", RetentionPolicy(max_history=3))
    checkpointer.put_retention("hold", KEEP_ALL)
    checkpointer.cleanup()
    checkpointer.cleanup(RetentionPolicy(max_history=1))
    assert [checkpointer.size(name) for name in ("short", "long", "hold")] == [1, 3, 5]
    # A policy with the thread's config takes precedence.
    assert checkpointer.cleanup(config="hold").checkpoints == 0
    assert checkpointer.cleanup(RetentionPolicy(max_history=4), config="hold").checkpoints == 1
    checkpointer.put_retention("long", None)
    assert store.open(retention=RetentionPolicy(max_history=1)).cleanup().checkpoints == 2


def test_a_policy_survives_what_else_describes_the_thread(store):
    checkpointer = store.open()
    alice = {"thread_id": "t", "user_id": "alice"}
    policy = RetentionPolicy(max_age=timedelta(days=30, microseconds=5), keep_every=10, max_bytes=1 << 20)
    checkpointer.put_thread(alice, clew.ThreadInfo(thread_id="t", thread_name="Trip", tags=("a",), run_id="r"))
    checkpointer.put_retention(alice, policy)
    found = store.open().get_thread(alice)
    assert (found.thread_name, found.tags, found.run_id, found.user_id, found.retention) == (
        "Trip",
        ("a",),
        "r",
        "alice",
        policy,
    )
    checkpointer.put_thread(alice, {"thread_name": "Journey"})
    assert checkpointer.get_thread(alice).retention == policy
    checkpointer.put_thread(alice, clew.ThreadInfo.from_dict(checkpointer.get_thread(alice).to_dict()))
    assert checkpointer.get_thread(alice).retention == policy
    checkpointer.put_thread(alice, clew.ThreadInfo(thread_id="t", retention=KEEP_ALL))
    assert checkpointer.get_thread(alice).retention == KEEP_ALL
    checkpointer.put_retention(alice, None)
    assert checkpointer.get_thread(alice).retention is None
    with pytest.raises(clew.PermissionDeniedError):
        checkpointer.put_retention("t", policy)
    with pytest.raises(clew.ConfigError):
        checkpointer.put_retention(alice, {"max_history": 1})


def test_a_policy_may_come_before_the_thread_and_goes_with_copies(store):
    checkpointer = store.open()
    checkpointer.put_retention("t", KEEP_ALL)
    fill(checkpointer, "t", 3)
    assert checkpointer.get_thread(checkpointer.fork("t")).retention == KEEP_ALL
    assert checkpointer.get_thread(checkpointer.copy_thread("t", "u")).retention == KEEP_ALL
    assert checkpointer.cleanup(RetentionPolicy(max_history=1)).checkpoints == 0


def test_names_and_policies_that_are_given_at_once_are_all_kept(store):
    async def go():
        checkpointer = store.open()
        await checkpointer.aput_state("t", 1)
        for number in range(10):
            policy = RetentionPolicy(max_history=number + 1)
            await asyncio.gather(
                checkpointer.aput_retention("t", policy),
                checkpointer.aput_thread("t", {"thread_name": f"name {number}"}),
                checkpointer.aput_state("t", number),
            )
            found = await checkpointer.aget_thread("t")
            assert (found.thread_name, found.retention) == (f"name {number}", policy)
        await checkpointer.arelease()

    run(go())


def test_nothing_goes_of_a_thread_whose_policy_can_not_be_read(store):
    checkpointer = store.open()
    fill(checkpointer, "t", 3)
    newer = checkpointer._engine.codec.pack(
        {"thread_name": "x", "tags": [], "metadata": {}, "retention": {"max_moons": 3}}, name="thread"
    )
    fields = ThreadFields(text="x", data=newer, run_id=None, user_id=None)
    run_sync = checkpointer.run
    run_sync(checkpointer._engine.apply(checkpointer._engine.new_commit(read_config("t"), thread=fields)), "commit")
    assert checkpointer.cleanup(RetentionPolicy(max_history=1)).checkpoints == 0
    assert checkpointer.get_thread("t").retention is None
    checkpointer.put_thread("t", {"thread_name": "y"})
    assert checkpointer.cleanup(RetentionPolicy(max_history=1)).checkpoints == 0


# Disk space


def test_what_a_fork_shares_stays_until_the_fork_is_gone(store):
    checkpointer = store.open()
    made = [checkpointer.put_checkpoint("t", {"m": [text((n, each)) for each in range(20)]}) for n in range(6)]
    forked = checkpointer.fork(at(made[2]))
    policy = RetentionPolicy(max_history=1)
    checkpointer.cleanup(policy)
    assert store.open().get_state(forked) == made[2].state
    assert checkpointer.verify().ok
    checkpointer.delete_thread(forked)
    checkpointer.put_state("t", {"m": ["short"]})
    checkpointer.cleanup(policy)
    assert checkpointer.get_thread("t").size < 1_000
    assert store.open().get_state("t") == {"m": ["short"]}


def test_postgresql_uses_the_space_again(tmp_path):
    store = PostgresStore(tmp_path)
    try:
        checkpointer = store.open()

        def rewrite():
            for number in range(60):
                checkpointer.put_state("t", {"m": [text((number, each)) for each in range(50)]})
            checkpointer.cleanup(RetentionPolicy(max_history=1))
            return run(relation_sizes(store.schema))

        rewrite()
        once = rewrite()
        for _ in range(3):
            again = rewrite()
        assert again <= 1.15 * once
        assert checkpointer.stats().total_bytes < 0.05 * once
    finally:
        store.close()


async def relation_sizes(schema):
    connection = await asyncpg.connect(shared_postgres())
    size = await connection.fetchval(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'",
        f'"{schema}"',
    )
    await connection.close()
    return int(size)


def test_redis_gives_the_memory_back(tmp_path):
    store = RedisStore(tmp_path)
    try:
        checkpointer = store.open()
        for number in range(60):
            checkpointer.put_state("t", {"m": [text((number, each)) for each in range(50)]})
        before = memory(store.prefix)
        checkpointer.cleanup(RetentionPolicy(max_history=1))
        assert memory(store.prefix) < 0.1 * before
    finally:
        store.close()


def memory(prefix):
    with redis.Redis.from_url(shared_redis()) as client:
        return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(f"{prefix}*", count=10_000))
