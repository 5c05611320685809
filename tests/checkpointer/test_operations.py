"""Statistics, cleanup, compaction, erasure."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import clew
from clew import Message, RetentionPolicy
from tests.checkpointer.support import at, run, text

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_statistics_count_by_thread_and_by_day(store, clock):
    checkpointer = store.open(clock=clock)
    alice = {"thread_id": "a", "user_id": "alice"}
    checkpointer.put_checkpoint(
        alice,
        {"n": 1},
        messages=[
            Message(role="user", content="hi", created_at=NOON),
            Message(role="assistant", tool_calls=({"id": 1}, {"id": 2}), created_at=NOON + timedelta(days=1)),
        ],
    )
    clock.advance(86_400)
    checkpointer.put_state(alice, {"n": 2})
    checkpointer.put_state("b", {"n": 3})
    stats = checkpointer.stats()
    assert (stats.total_sessions, stats.total_checkpoints, stats.total_messages, stats.total_tool_calls) == (2, 3, 2, 2)
    assert stats.checkpoints_per_session == {"a": 2, "b": 1}
    assert (stats.by_thread["a"].messages, stats.by_thread["a"].tool_calls, stats.by_thread["a"].checkpoints) == (
        2,
        2,
        2,
    )
    days = {day: (each.checkpoints, each.messages, each.tool_calls) for day, each in stats.by_day.items()}
    assert days == {"2026-01-31": (1, 1, 0), "2026-02-01": (2, 1, 2)}
    assert stats.total_bytes == sum(each.bytes for each in stats.by_thread.values()) > 0
    assert stats.stored_bytes >= stats.total_bytes
    mine = checkpointer.stats("alice")
    assert set(mine.by_thread) == {"a"}
    assert mine.total_checkpoints == 2
    assert set(checkpointer.stats(None).by_thread) == {"b"}
    assert checkpointer.stats("nobody").total_sessions == 0


def test_size_counts_checkpoints(checkpointer):
    for number in range(3):
        checkpointer.put_state("t", number)
    checkpointer.put_state("u", 1)
    assert (checkpointer.size(), checkpointer.size("t"), checkpointer.size("absent")) == (4, 3, 0)


def test_the_async_operations_do_the_same(store):
    async def go():
        checkpointer = store.open()
        for number in range(6):
            await checkpointer.aput_state("t", {"n": text(number)})
        assert await checkpointer.asize("t") == 6
        assert (await checkpointer.astats()).total_checkpoints == 6
        assert (await checkpointer.acleanup(RetentionPolicy(max_history=2))).checkpoints == 4
        assert (await checkpointer.acompact()).threads == 1
        assert (await checkpointer.averify()).checkpoints == 2
        assert (await checkpointer.arepair("t", rebuild=lambda state, _: state)).state == {"n": text(5)}
        assert await checkpointer.aerase_user("nobody") == 0
        assert await checkpointer.aclear_all() == 1
        await checkpointer.arelease()

    run(go())


# Cleanup


def numbers(checkpointer, config="t"):
    return [each.state["n"] for each in checkpointer.get_history(config, limit=None)][::-1]


@pytest.fixture
def aged(store, clock):
    """Ten checkpoints on ten days, numbered by their sequence; it is the end of the tenth."""
    checkpointer = store.open(clock=clock)
    for number in range(1, 11):
        checkpointer.put_state("t", {"n": number, "pad": text(number)})
        clock.advance(86_400)
    return checkpointer


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (RetentionPolicy(max_history=3), [8, 9, 10]),
        (RetentionPolicy(max_history=1), [10]),
        (RetentionPolicy(max_history=99), list(range(1, 11))),
        (RetentionPolicy(max_age=timedelta(days=4, hours=1)), [7, 8, 9, 10]),
        (RetentionPolicy(max_age=timedelta(0)), [10]),
        (RetentionPolicy(max_history=2, keep_every=4), [4, 8, 9, 10]),
        (RetentionPolicy(max_age=timedelta(days=2, hours=1), keep_every=5), [5, 9, 10]),
        (RetentionPolicy(max_age=timedelta(days=5, hours=1), max_history=2), [9, 10]),
    ],
)
def test_a_policy_keeps_what_it_says_and_always_the_head(aged, policy, kept):
    messages = [Message(role="user", content="kept")]
    aged.put_messages("t", messages)
    dry = aged.cleanup(policy, dry_run=True)
    assert numbers(aged) == list(range(1, 11))
    assert dry.dry_run
    report = aged.cleanup(policy)
    assert numbers(aged) == kept
    assert (report.checkpoints, report.dry_run) == (dry.checkpoints, False) == (10 - len(kept), False)
    assert report.threads == dry.threads == (1 if len(kept) < 10 else 0)
    assert (report.bytes > 0) == (len(kept) < 10)
    assert len(aged.list_messages("t")) == 1
    assert aged.verify().ok
    assert aged.cleanup(policy).checkpoints == 0


def test_a_cleanup_may_be_of_one_thread_only(store):
    checkpointer = store.open()
    for name in ("t", "u"):
        for number in range(4):
            checkpointer.put_state(name, {"n": number})
    seen = []
    checkpointer.cleanup(
        RetentionPolicy(max_history=1), config="t", progress=lambda done, total: seen.append((done, total))
    )
    assert (checkpointer.size("t"), checkpointer.size("u")) == (1, 4)
    assert (seen[0], seen[-1]) == ((0, 4), (4, 4))


def test_a_cleanup_keeps_the_head_of_every_namespace(store):
    checkpointer = store.open()
    for number in range(4):
        checkpointer.put_state("t", {"n": number})
        checkpointer.put_state({"thread_id": "t", "checkpoint_ns": "sub"}, {"n": number})
    assert checkpointer.cleanup(RetentionPolicy(max_history=1)).checkpoints == 6
    assert numbers(checkpointer) == numbers(checkpointer, {"thread_id": "t", "checkpoint_ns": "sub"}) == [3]


def test_a_cleanup_gives_the_space_back(sqlite):
    checkpointer = sqlite.open()
    for number in range(60):
        checkpointer.put_state("t", {"m": [text((number, each)) for each in range(100)]})
    before = checkpointer.stats().total_bytes
    report = checkpointer.cleanup(RetentionPolicy(max_history=1))
    after = checkpointer.stats().total_bytes
    assert report.bytes == before - after > 0.9 * before
    checkpointer.release()
    assert sqlite.path.stat().st_size < 0.2 * before


def test_what_a_fork_needs_survives_a_cleanup_of_its_source(store):
    checkpointer = store.open()
    made = [checkpointer.put_checkpoint("t", {"m": [text((n, each)) for each in range(10)]}) for n in range(5)]
    forked = checkpointer.fork(at(made[1]))
    checkpointer.cleanup(RetentionPolicy(max_history=1))
    checkpointer.compact()
    assert store.open().get_state(forked) == made[1].state
    assert store.open().get_state("t") == made[4].state
    assert checkpointer.verify().ok


def test_compaction_may_be_of_one_thread_and_tells_its_progress(store):
    checkpointer = store.open()
    for name in ("t", "u"):
        for number in range(10):
            checkpointer.update_state(name, append={"m": [text(number)]})
    seen = []
    report = checkpointer.compact("t", progress=lambda done, total: seen.append((done, total)))
    assert report.threads == 1
    assert report.rows_after < report.rows_before
    assert seen[-1] == (1, 1)
    assert checkpointer.compact().threads == 2


def test_upkeep_goes_on_after_a_thread_was_deleted_and_came_again(store):
    """A process that sweeps every hour must not fail because it knew an earlier incarnation of a thread."""
    sweeper, other = store.open(), store.open()
    for life in range(3):
        for number in range(40):
            other.put_state("t", {"n": number, "pad": text((life, number))})
        sweeper.cleanup(RetentionPolicy(max_history=5))
        sweeper.compact()
        assert sweeper.verify().ok
        assert other.get_state("t") == {"n": 39, "pad": text((life, 39))}
        assert other.size("t") == 5
        if life < 2:
            other.delete_thread("t")
    sweeper.put_state({"thread_id": "t", "user_id": clew.ANY_USER}, {"n": "for everybody"})
    other.delete_thread("t")
    for number in range(2):
        other.put_state("t", number)
    assert sweeper.clear_all() == 1


# Erasure


def test_erasing_a_user_leaves_nothing_of_theirs_and_everything_of_others(store):
    checkpointer = store.open()
    for user in ("alice", "bob"):
        for number in range(3):
            config = {"thread_id": f"{user}{number}", "user_id": user}
            checkpointer.put_checkpoint(config, {"secret": text((user, number))}, messages=[Message(role="user")])
            checkpointer.put_state_cache(config, 1)
    forked = checkpointer.fork({"thread_id": "alice0", "user_id": "alice"})
    assert checkpointer.erase_user("alice") == 4
    assert checkpointer.list_threads({"user_id": "alice"}) == []
    assert checkpointer.get_state(forked) is None
    assert checkpointer.get_state_cache({"thread_id": "alice0", "user_id": "alice"}) is None
    assert checkpointer.stats("alice").total_sessions == 0
    assert checkpointer.stats().total_sessions == 3
    assert checkpointer.get_state({"thread_id": "bob1", "user_id": "bob"}) == {"secret": text(("bob", 1))}
    assert checkpointer.erase_user("alice") == 0


def test_nothing_erased_is_left_in_the_file(sqlite):
    secret = "the word is swordfish"
    checkpointer = sqlite.open()
    config = {"thread_id": "t", "user_id": "alice"}
    checkpointer.put_checkpoint(config, {"s": secret}, messages=[Message(role="user", content=secret)])
    checkpointer.put_thread(config, {"thread_name": secret})
    checkpointer.put_state("kept", {"n": 1})
    checkpointer.erase_user("alice")
    checkpointer.release()
    left = b"".join(path.read_bytes() for path in sqlite.path.parent.iterdir())
    assert b"swordfish" not in left


def test_clearing_all_leaves_an_empty_store_that_works(store):
    checkpointer = store.open()
    seen = []
    for number in range(5):
        checkpointer.put_state({"thread_id": f"t{number}", "user_id": f"u{number % 2}"}, number)
    assert checkpointer.clear_all(progress=lambda done, total: seen.append((done, total))) == 5
    assert seen[-1] == (5, 5)
    assert checkpointer.stats().total_sessions == 0
    assert checkpointer.list_threads({"user_id": clew.ANY_USER}) == []
    checkpointer.put_state("t1", "new")
    assert checkpointer.get_history("t1")[0].state == "new"


def test_more_threads_than_a_page_are_all_swept(store):
    checkpointer = store.open()
    run(_put_many(checkpointer, 1100))
    assert checkpointer.verify().threads == 1100
    assert len(checkpointer.list_threads({}, limit=None)) == 1100
    assert checkpointer.clear_all() == 1100


async def _put_many(checkpointer, count):
    await asyncio.gather(*[checkpointer.aput_state(f"t{number}", number) for number in range(count)])


def test_a_thread_may_be_begun_anew_after_everything_was_cleared(checkpointer):
    config = {"thread_id": "t", "user_id": "ana"}
    checkpointer.put_state(config, {"n": 1})
    checkpointer.put_state("open", {"n": 1})
    assert checkpointer.clear_all() == 2
    checkpointer.put_state(config, {"n": 2})
    checkpointer.put_state("open", {"n": 2})
    assert checkpointer.get_state(config) == checkpointer.get_state("open") == {"n": 2}
