"""Members of a thread in Redis with a flipped bit: each is read as a record, damaged or not, and raises nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

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
