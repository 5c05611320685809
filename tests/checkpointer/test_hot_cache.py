"""PostgreSQL with a cache in Redis: never stale, whatever befalls Redis, a process, or the way between them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
import redis

import clew
from clew.storage.cached import breaker, hot_tier
from clew.testing.servers import Proxy, RedisServer, shared_redis
from clew.testing.servers.redis import wait_until
from tests.checkpointer.support import PostgresStore, RedisStore, python, run, text

WRITES = {
    "put": lambda other: other.put_state("t", {"n": 2, "text": text(2, 9_000)}),
    "update": lambda other: other.update_state("t", set={"n": 2}),
    "append": lambda other: other.update_state("t", append={"list": [text(3, 900)]}),
    "clear": lambda other: other.clear_state("t"),
    "delete": lambda other: other.delete_thread("t"),
    "clear all": lambda other: other.clear_all(),
    "begin anew": lambda other: (
        other.delete_thread("t"),
        other.get_state("t"),
        other.put_state("t", [text(4, 9_000)]),
    ),
    "clean up": lambda other: (
        other.put_state("t", {"n": 2, "list": []}),
        other.cleanup(clew.RetentionPolicy(max_history=1)),
        other.compact(),
    ),
}


class Both:
    """A schema in PostgreSQL, and a prefix in Redis for its cache. What is opened is closed in the end."""

    def __init__(self, directory: Any) -> None:
        self.postgres = PostgresStore(directory)
        self.redis = RedisStore(directory)
        self.url = self.postgres.url

    def cache(self, url: str | None = None) -> str:
        return f"{url or shared_redis()}?prefix={quote(self.redis.prefix)}"

    def open(self, redis_url: str | None = None, **options: Any) -> clew.BaseCheckpointer:
        """Another process's checkpointer, patient with a busy machine."""
        return self.opened(clew.connect(self.url, cache=self.cache(redis_url), **{"cache_timeout": 5.0, **options}))

    def plain(self) -> clew.BaseCheckpointer:
        """One without the cache."""
        return self.opened(clew.connect(self.url))

    def opened(self, checkpointer: clew.BaseCheckpointer) -> clew.BaseCheckpointer:
        self.postgres.opened.append(checkpointer)
        return checkpointer

    def threads(self) -> list[str]:
        """The threads whose keys are in Redis."""
        with redis.Redis.from_url(shared_redis()) as client:
            keys = [key.decode() for key in client.scan_iter(f"{self.redis.prefix}:*", count=10_000)]
        return sorted(key.partition("{")[2].partition("}")[0] for key in keys if key.endswith("}:t"))

    def close(self) -> None:
        self.postgres.close()
        self.redis.close()


@pytest.fixture
def both(tmp_path):
    with closing(Both(tmp_path)) as opened:
        yield opened


@pytest.fixture
def server():
    """A Redis that a test may do anything to."""
    with RedisServer() as own:
        yield own


@pytest.fixture(autouse=True)
def tried_again_soon(monkeypatch):
    monkeypatch.setattr(breaker, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE", 0.1)


def settled(checkpointer: clew.BaseCheckpointer) -> clew.BaseCheckpointer:
    """`checkpointer`, when what it has on its way to the cache is there."""
    tier = hot_tier(checkpointer.storage)
    assert tier is not None
    checkpointer._runner.run(tier.settle(), "settle")
    return checkpointer


def status(checkpointer: clew.BaseCheckpointer) -> clew.CacheStatus:
    found = checkpointer.status().cache
    assert found is not None
    return found


def begun(checkpointer: clew.BaseCheckpointer) -> dict[str, Any]:
    state = {"n": 1, "text": text(1, 20_000), "list": [text(number) for number in range(50)]}
    checkpointer.put_state("t", state)
    return state


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each for each in caplog.records if each.name == "clew" and each.levelno >= logging.WARNING]
    return [each.getMessage() for each in found]


# Never stale


@pytest.mark.parametrize("write", WRITES)
def test_after_a_write_of_any_process_no_process_reads_anything_older(both, write):
    mine, other = both.open(), both.open()
    assert begun(settled(other)) == mine.get_state("t")
    WRITES[write](other)
    expected = both.plain().get_state("t")
    assert mine.get_state("t") == expected
    assert both.open().get_state("t") == expected
    assert settled(other).get_state("t") == expected
    assert both.open().get_state("t") == expected


@pytest.mark.parametrize("write", WRITES)
def test_a_process_that_is_cut_off_from_redis_outdates_what_the_others_read_all_the_same(both, write):
    mine = both.open()
    begun(mine)
    with Proxy.before(shared_redis()) as proxy:
        other = both.open(proxy.url(shared_redis()))
        assert other.get_state("t") == settled(mine).get_state("t")
        proxy.refuse()
        WRITES[write](other)
        expected = both.plain().get_state("t")
        assert mine.get_state("t") == other.get_state("t") == both.open().get_state("t") == expected
        assert not status(other).available
        proxy.accept()
        wait_until(lambda: status(other).available)
        settled(other)
        assert other.get_state("t") == both.open().get_state("t") == expected
        if write in ("delete", "clear", "clear all"):
            # What could not be told then was told now.
            assert "t" not in both.threads()
        other.release()


def test_a_writer_that_dies_between_the_two_leaves_nothing_stale(both):
    mine = both.open()
    begun(mine)
    settled(mine)
    script = """
import os, sys
import clew
from clew.storage.cached.tier import HotTier

async def die(*args, **options):
    os._exit(9)

HotTier.keep = HotTier.drop = die
checkpointer = clew.connect(sys.argv[1], cache=sys.argv[2])
checkpointer.get_state("t")
getattr(checkpointer, sys.argv[3])("t", *([{"n": "written"}] if sys.argv[3] == "put_state" else []))
"""
    python(script, both.url, both.cache(), "put_state", check=False)
    python(script, both.url, both.cache(), "put_state", check=False)
    assert mine.get_state("t") == both.open().get_state("t") == {"n": "written"}
    python(script, both.url, both.cache(), "delete_thread", check=False)
    assert mine.get_state("t") is None
    assert both.open().get_state("t") is None


def test_what_a_slow_writer_brings_late_outdates_nothing(both):
    begun(both.open())
    with Proxy.before(shared_redis()) as proxy:
        slow = both.open(proxy.url(shared_redis()))
        slow.get_state("t")
        proxy.delay(0.5)
        slow.put_state("t", {"n": "slow", "text": text("slow", 9_000)})
        quick = both.open()
        quick.get_state("t")
        quick.put_state("t", {"n": "quick", "text": text("quick", 9_000)})
        settled(quick)
        settled(slow)
        for each in (slow, quick, both.open()):
            assert each.get_state("t")["n"] == "quick"
        slow.release()


def test_many_processes_read_their_own_and_the_others_writes(both):
    names = [f"t{number}" for number in range(3)]

    async def converse(checkpointer: clew.BaseCheckpointer) -> None:
        for turn in range(12):
            for name in names:
                await checkpointer.aupdate_state(name, append={"said": [text((name, turn), 700)]})
                before = (await plain.aget_state(name))["said"]
                found = (await checkpointer.aget_state(name))["said"]
                after = (await plain.aget_state(name))["said"]
                assert before == found[: len(before)]
                assert found == after[: len(found)]

    async def go() -> None:
        await asyncio.gather(*[converse(each) for each in (both.open(), both.open(), both.open())])
        for name in names:
            assert len((await both.open().aget_state(name))["said"]) == 36

    plain = both.plain()
    run(go())


# Redis in trouble


def test_everything_goes_on_while_redis_is_killed_and_started_again_empty(both, server, caplog):
    caplog.set_level(logging.INFO, "clew")
    mine, other = both.open(server.url), both.open(server.url)
    state = begun(mine)
    settled(mine)
    assert other.get_state("t") == state
    server.kill()
    for number in range(3):
        mine.update_state("t", set={"n": number})
        assert other.get_state("t")["n"] == number
        assert both.plain().get_state("t") == mine.get_state("t")
    other.delete_thread("u")
    assert not status(mine).available
    assert status(mine).last_error
    assert len(warnings(caplog)) <= 2
    server.start()
    wait_until(lambda: status(mine).available and status(other).available)
    assert len(warnings(caplog)) <= 2
    mine.update_state("t", append={"list": ["more"]})
    expected = {**state, "n": 2, "list": [*state["list"], "more"]}
    settled(mine)
    third = both.open(server.url)
    assert third.get_state("t") == expected
    assert status(third).misses == 1
    settled(third)
    fourth = both.open(server.url)
    assert fourth.get_state("t") == expected
    assert status(fourth).hits == 1


def test_a_redis_that_hangs_holds_nobody_up_for_long_and_is_warned_of_once(both, server, caplog):
    mine = both.open(server.url, cache_timeout=0.1)
    state = begun(mine)
    settled(mine)
    server.pause()
    try:

        async def go() -> None:
            async with asyncio.timeout(20):
                for number in range(20):
                    mine._indexes.clear()
                    assert (await mine.aget_state("t")) == state | {"n": number or 1}
                    await mine.aput_state("t", state | {"n": number + 1})
                await mine.adelete_thread("t")

        run(go())
        assert not status(mine).available
        assert len(warnings(caplog)) == 1
        with both.open(server.url, cache_timeout=0.1) as fresh:
            # One that has never seen it answer.
            assert fresh.get_state("t") is None
    finally:
        server.resume()
    wait_until(lambda: status(mine).available)
    assert mine.get_state("t") is None


def test_a_wrong_password_is_one_warning_and_no_error(both, caplog):
    with RedisServer({"requirepass": "secret"}) as server:
        checkpointer = both.open(server.url)
        state = begun(checkpointer)
        assert both.open(server.url).get_state("t") == state
        assert not status(settled(checkpointer)).available
        assert "password" in (status(checkpointer).last_error or "")
    assert len(warnings(caplog)) == 2  # one for each checkpointer


# What is kept there


def test_a_save_sends_to_redis_what_is_new_and_not_the_state(both):
    said = [text(number, 500) for number in range(400)]
    with Proxy.before(shared_redis()) as proxy:
        checkpointer = both.open(proxy.url(shared_redis()))
        sent = []
        for number in range(1, 401):
            checkpointer.put_state("t", {"messages": said[:number]})
            settled(checkpointer)
            sent.append(proxy.bytes_asked)
        late = sorted(after - before for before, after in pairwise(sent[300:]))
        # The median: a merge of rows, now and then, sends those again.
        assert late[len(late) // 2] < 2_500
        assert sent[-1] < 3 * 400 * 500
        assert both.open().get_state("t") == {"messages": said}
        checkpointer.release()


def test_what_a_thread_leaves_in_redis_ends_with_it_and_with_cache_ttl(both):
    checkpointer = both.open(cache_ttl=1000)
    for name, user in (("a", "ann"), ("b", "bob"), ("c", None)):
        checkpointer.put_state({"thread_id": name, "user_id": user}, {"text": text(name, 5_000)})
    settled(checkpointer)
    assert both.threads() == ["a", "b", "c"]
    with redis.Redis.from_url(shared_redis()) as client:
        assert 900_000 < client.pttl(f"{both.redis.prefix}:{{a}}:t") <= 1_000_000
    checkpointer.erase_user("ann")
    assert both.threads() == ["b", "c"]
    checkpointer.clear_state("c")
    assert both.threads() == ["b"]
    checkpointer.clear_all()
    assert both.threads() == []


def test_at_most_max_cached_threads_are_kept_in_redis(both):
    checkpointer = both.open(max_cached_threads=8)
    for number in range(24):
        checkpointer.put_state(f"t{number}", {"text": text(number, 3_000)})
        settled(checkpointer)
    assert both.threads() == sorted(f"t{number}" for number in range(16, 24))
    assert status(checkpointer).evicted == 16
    assert checkpointer.get_state("t3") == {"text": text(3, 3_000)}


def test_warming_brings_a_users_threads_into_redis(both):
    plain = both.plain()
    for number in range(4):
        plain.put_state({"thread_id": f"t{number}", "user_id": "ann"}, {"text": text(number, 5_000)})
    warm = both.open()
    assert warm.warm("ann", limit=2) == 2
    settled(warm)
    assert both.threads() == ["t2", "t3"]
    fresh = both.open()
    assert fresh.get_state({"thread_id": "t3", "user_id": "ann"}) == {"text": text(3, 5_000)}
    assert (status(fresh).hits, status(fresh).misses) == (1, 0)
    # Also of what this process knows already.
    with redis.Redis.from_url(shared_redis()) as client:
        client.delete(f"{both.redis.prefix}:{{t3}}:t")
    assert warm.warm("ann", limit=1) == 1
    settled(warm)
    assert "t3" in both.threads()


# Volatile states


def test_volatile_states_are_shared_and_never_older_than_the_durable_head(both):
    mine, other = both.open(), both.open()
    mine.put_state("t", {"n": 1})
    mine.put_state_cache("t", {"n": (1, {2})})
    assert other.get_state_cache("t") == {"n": (1, {2})}
    other.put_state_cache("t", {"n": "newer"})
    assert mine.get_state_cache("t") == {"n": "newer"}
    other.get_state("t")
    other.put_state("t", {"n": 2})
    assert mine.get_state_cache("t") is None
    assert other.get_state_cache("t") is None
    mine.put_state_cache("t", 3)
    other.delete_thread("t")
    assert mine.get_state_cache("t") is None
    assert both.open().get_state_cache("t") is None


def test_volatile_states_are_each_users_own(both):
    mine, other = both.open(), both.open()
    ann, bob, anybody = ({"thread_id": "t", "user_id": user} for user in ("ann", "bob", clew.ANY_USER))
    mine.put_state(ann, 1)
    mine.put_state_cache(ann, "ann's")
    mine.put_state_cache({**ann, "checkpoint_ns": "sub"}, "ann's sub")
    assert other.get_state_cache(bob) is None
    assert other.get_state_cache("t") is None
    assert other.get_state_cache(anybody) is None
    assert other.get_state_cache(ann) == "ann's"
    assert other.get_state_cache({**ann, "checkpoint_ns": "sub"}) == "ann's sub"


def test_a_volatile_state_lives_as_long_as_cache_ttl_says(both, clock):
    mine, other = both.open(cache_ttl=60, clock=clock), both.open(cache_ttl=60, clock=clock)
    mine.put_state("t", 1)
    mine.put_state_cache("t", 2)
    clock.advance(59)
    assert other.get_state_cache("t") == 2
    clock.advance(2)
    assert other.get_state_cache("t") is None


def test_volatile_states_stay_in_the_process_while_redis_is_away_or_the_thread_is_not_there(both, server):
    mine, other = both.open(server.url), both.open(server.url)
    mine.put_state_cache("new", 1)
    assert (mine.get_state_cache("new"), other.get_state_cache("new")) == (1, None)
    mine.put_state("t", 1)
    server.kill()
    mine.put_state_cache("t", 2)
    assert (mine.get_state_cache("t"), other.get_state_cache("t")) == (2, None)
    server.start()
    wait_until(lambda: status(mine).available and status(other).available)
    assert mine.get_state_cache("t") == 2
    mine.put_state_cache("t", 3)
    assert (mine.get_state_cache("t"), other.get_state_cache("t")) == (3, 3)
