"""Members of a thread in Redis with a flipped bit: each is read as a record, damaged or not, and raises nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
import redis

import clew
from clew.ids import new_id
from clew.storage.redis.layout import checkpoint_tail, pack_origin, read_checkpoint, read_origin
from clew.testing.build import checkpoint
from clew.testing.servers import shared_redis

AT = datetime(2026, 1, 1, tzinfo=UTC)


def flipped(stored: bytes):
    for at in range(1, len(stored)):
        for bit in range(8):
            yield stored[:at] + bytes([stored[at] ^ 1 << bit]) + stored[at + 1 :]


def test_a_checkpoint_with_a_flipped_bit_is_a_record():
    new = checkpoint("c1", node_name="écoute", run_id="r", step=3, metadata=b"m" * 9, body=b"b" * 9)
    stored = b"C" + (7).to_bytes(4, "big") + b"\0\0\3p1" + checkpoint_tail(new, AT, own=True)
    assert read_checkpoint(stored).node_name == "écoute"
    damaged = [read_checkpoint(each).damage for each in flipped(stored)]
    assert any(damaged)


def test_the_origin_of_a_fork_with_a_flipped_bit_is_read():
    for each in flipped(pack_origin("thréad", "c1")):
        read_origin(each)


def test_a_flipped_bit_in_one_thread_stops_no_call_for_the_whole_store():
    url, prefix, chance = shared_redis(), f"flips-{new_id()}", Random(11)
    server: Any = redis.Redis.from_url(url)
    with clew.connect(url, prefix=prefix) as memory:
        for name in ("damaged", "other"):
            for number in range(3):
                said = clew.Message(message_id=f"m{number}", role="user", content=f"message {number}")
                memory.put_checkpoint(name, {"n": number}, messages=[said], node_name="nœud", metadata={"n": number})
    kept = {key: server.dump(key) for key in server.scan_iter(f"{prefix}:*")}
    (key,) = [key for key in kept if b"{damaged}" in key and server.type(key) == b"zset"]
    for _ in range(120):
        for name, stored in kept.items():
            server.restore(name, 0, stored, replace=True)
        member, score = chance.choice(server.zrange(key, 0, -1, withscores=True))
        at = chance.randrange(1, len(member))
        server.zrem(key, member)
        server.zadd(key, {member[:at] + bytes([member[at] ^ 1 << chance.randrange(8)]) + member[at + 1 :]: score})
        with clew.connect(url, prefix=prefix, retry_for=0.5) as memory:
            listed = [thread.thread_id for thread in memory.list_threads({"user_id": clew.ANY_USER})]
            assert "other" in listed, member
            memory.verify()
            memory.stats()
            memory.cleanup(clew.RetentionPolicy(max_history=2))
            memory.compact()
            assert memory.get_state("other") == {"n": 2}
    for name in kept:
        server.delete(name)
    server.close()


HEADERS = [
    pytest.param(lambda member: member[:1] + b"9" + member[2:], id="version"),
    pytest.param(lambda member: member[:40], id="cut"),
    pytest.param(lambda member: b"", id="empty"),
]


@pytest.fixture
def damaged_header():
    """Return a function that makes a store of three threads and damages the header of the second."""
    url, prefix = shared_redis(), f"headers-{new_id()}"
    server: Any = redis.Redis.from_url(url)

    def damage(change: Callable[[bytes], bytes]) -> tuple[clew.BaseCheckpointer, Any, bytes]:
        with clew.connect(url, prefix=prefix) as memory:
            for name in ("t1", "t2", "t3"):
                memory.put_state({"thread_id": name, "user_id": "u"}, {"n": name})
            memory.put_state({"thread_id": "other", "user_id": "v"}, {"n": 1})
            with memory.lease({"thread_id": "t2", "user_id": "u"}, 60):
                pass
        key = f"{prefix}:{{t2}}:t".encode()
        (header,) = server.zrangebyscore(key, 0, 0)
        server.zrem(key, header)
        server.zadd(key, {change(header): 0})
        return clew.connect(url, prefix=prefix, retry_for=0.5), server, key

    yield damage
    for key in server.scan_iter(f"{prefix}:*"):
        server.delete(key)
    server.close()


@pytest.mark.parametrize("change", HEADERS)
def test_a_thread_with_a_damaged_header_is_listed_for_its_user_and_erased_with_the_others(damaged_header, change):
    memory, server, key = damaged_header(change)
    listed = {each.thread_id: bool(each.metadata.get("damage")) for each in memory.list_threads({"user_id": "u"})}
    assert set(listed) == {"t1", "t2", "t3"}
    assert {each.thread_id for each in memory.list_threads({"user_id": "v"})} == {"other"}
    assert memory.erase_user("u") == 3
    assert not server.exists(key)
    assert [each.thread_id for each in memory.list_threads({"user_id": clew.ANY_USER})] == ["other"]
    memory.release()


@pytest.mark.parametrize("change", HEADERS)
def test_a_thread_with_a_damaged_header_is_deleted_by_any_user_only(damaged_header, change):
    memory, server, key = damaged_header(change)
    for user in ("u", "v"):
        with pytest.raises(clew.CorruptRecordError, match="t2"):
            memory.delete_thread({"thread_id": "t2", "user_id": user})
    memory.delete_thread({"thread_id": "t2", "user_id": clew.ANY_USER})
    assert not server.exists(key)
    memory.put_state({"thread_id": "t2", "user_id": "v"}, {"n": 2})
    assert memory.get_state({"thread_id": "t2", "user_id": "v"}) == {"n": 2}
    memory.release()


def test_a_store_with_a_damaged_header_and_a_damaged_lease_is_cleared(damaged_header):
    memory, server, key = damaged_header(lambda member: member[:1] + b"9" + member[2:])
    with memory.lease({"thread_id": "t1", "user_id": "u"}, 60):
        (lease,) = [each for each in server.zrange(key.replace(b"{t2}", b"{t1}"), 0, -1) if each.startswith(b"L")]
        server.zadd(key, {b"L2 x" + lease[4:]: server.zscore(key.replace(b"{t2}", b"{t1}"), lease)})
    assert memory.clear_all() == 4
    assert not server.exists(key)
    assert memory.list_threads({"user_id": clew.ANY_USER}) == []
    memory.release()


def test_a_damaged_entry_of_the_feed_is_a_gap(damaged_header):
    memory, server, key = damaged_header(lambda member: member)
    feed = key.replace(b"{t2}:t", b"{feed}")

    async def main() -> list[str]:
        async with memory.awatch({"thread_id": "t1", "user_id": "u"}) as watch:
            position = watch.position
        server.xadd(feed, {"t": key, "i": b"\xff", "s": b"none", "o": b"+u", "f": b"x"})
        async with asyncio.timeout(60), memory.awatch({"thread_id": "t1", "user_id": "u"}, since=position) as watch:
            first = (await anext(watch)).kind
            await memory.aput_state({"thread_id": "t1", "user_id": "u"}, {"n": 2})
            return [first, (await anext(watch)).kind]

    assert memory.run(main(), "main") == ["gap", "checkpoint"]
    memory.release()
