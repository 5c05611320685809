"""PostgreSQL with a cache in Redis: never stale, whatever happens to Redis, a process or the network."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import redis

import clew
from clew.testing.servers import Proxy, RedisServer, shared_redis
from clew.testing.servers.redis import wait_until
from tests.checkpointer.cached_support import begun, settled, status
from tests.checkpointer.support import python, run, text

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


pytestmark = pytest.mark.usefixtures("tried_again_soon")


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
            # The invalidation that failed then was made up for.
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


def test_a_state_that_one_process_saved_is_in_the_cache_of_all(both):
    mine, other = both.open(), both.open()
    config = {"thread_id": "t", "user_id": "ana"}
    mine.put_state(config, {"n": 1})
    assert other.get_state_cache(config) == {"n": 1}
    mine.put_state_cache(config, {"n": "volatile"})
    assert other.get_state_cache(config) == {"n": "volatile"}
    mine.put_state(config, {"n": 2})
    assert other.get_state_cache(config) == {"n": 2}
    assert other.get_state_cache({"thread_id": "t", "user_id": "bob"}) is None
    mine.clear_state(config)
    assert other.get_state_cache(config) is None


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
                    mine._engine.indexes.clear()
                    assert (await mine.aget_state("t")) == state | {"n": number or 1}
                    await mine.aput_state("t", state | {"n": number + 1})
                await mine.adelete_thread("t")

        run(go())
        assert not status(mine).available
        assert len(warnings(caplog)) == 1
        with both.open(server.url, cache_timeout=0.1) as fresh:
            # A process that has never seen it answer.
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


def members(client: Any, key: str) -> list[tuple[bytes, float]]:
    return [*client.zrange(key, 0, -1, withscores=True)]


def damage(client: Any, key: str, what: str) -> None:
    """Change the key of a thread's cache."""
    found = members(client, key)
    if what == "a string":
        client.set(key, b"somebody's")
    elif what == "no header":
        client.zremrangebyscore(key, 0, 0)
    elif what == "a header of noise":
        client.zremrangebyscore(key, 0, 0)
        client.zadd(key, {b"H1" + b"\xff" * 150: 0})
    elif what == "bits":
        for member, score in found[1:]:
            client.zrem(key, member)
            client.zadd(key, {member[:-9] + bytes([member[-9] ^ 255]) + member[-8:]: score})
    elif what == "halves":
        for member, score in found[1:]:
            client.zrem(key, member)
            client.zadd(key, {member[: len(member) // 2]: score})
    elif what == "noise everywhere":
        client.zadd(key, {b"C" + bytes([number]) * 40: score + 1 for number, (_, score) in enumerate(found[1:])})


@pytest.mark.parametrize("what", ["a string", "no header", "a header of noise", "bits", "halves", "noise everywhere"])
def test_whatever_lies_in_redis_what_is_read_is_right(both, what):
    checkpointer = both.open()
    state = begun(checkpointer)
    settled(checkpointer)
    with redis.Redis.from_url(shared_redis()) as client:
        damage(client, f"{both.redis.prefix}:{{t}}:t", what)
    for _ in range(3):
        fresh = both.open()
        assert fresh.get_state("t") == state
        fresh.put_state_cache("t", 1)
        assert fresh.get_state_cache("t") == 1
        settled(fresh)
    checkpointer.update_state("t", set={"n": 2})
    assert both.open().get_state("t") == state | {"n": 2}
    checkpointer.delete_thread("t")
    assert both.open().get_state("t") is None
