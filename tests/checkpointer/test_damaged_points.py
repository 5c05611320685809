"""Damaged branch points: `verify` names them, and what needs no branch goes on without them."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import asyncpg
import pytest
import redis

import clew
from clew.ids import new_id
from clew.storage.branches import checked_points
from clew.storage.redis.layout import read_points
from clew.testing.servers import shared_postgres, shared_redis

POINTS = 5
"""The score of the branch points among a thread's members in Redis."""


def branched(url: str, **options: Any) -> None:
    """Save a thread with two branches, and another one."""
    with clew.connect(url, **options) as memory:
        for name in ("t", "other"):
            first = memory.put_checkpoint(name, {"n": 1}, messages=[said(1)])
            memory.put_checkpoint(name, {"n": 2}, messages=[said(2)])
            memory.put_checkpoint(
                {"thread_id": name, "checkpoint_id": first.checkpoint_id}, {"n": 3}, messages=[said(3)]
            )
        assert [each.message_id for each in memory.list_messages("t")] == ["m1", "m3"]


def said(number: int) -> clew.Message:
    return clew.Message(message_id=f"m{number}", role="user", content=f"message {number}")


def check(url: str, *, lists: bool = False, **options: Any) -> None:
    with clew.connect(url, retry_for=0.5, **options) as memory:
        (damage,) = memory.verify().damage
        assert (damage.thread_id, damage.message_id) == ("t", None)
        assert "branch points can't be read" in damage.problem
        assert [each.message_id for each in memory.list_messages("t", branches="all")] == ["m1", "m2", "m3"]
        assert memory.get_state("t") == {"n": 3}
        calls = [
            lambda: memory.copy_thread("t", "copy"),
            lambda: memory.rewind("t", turns=1),
            lambda: memory.shared_messages("t", ["m1"]),
            *([] if lists else [lambda: memory.list_messages("t"), lambda: memory.fork("t", "fork")]),
        ]
        for call in calls:
            with pytest.raises(clew.CorruptRecordError, match=r"'t' .*branch points can't be read"):
                call()
        found = {each.thread_id for each in memory.list_threads({"user_id": clew.ANY_USER})}
        assert found == {"other", "t"}
        memory.put_state("t", {"n": 4})
        memory.delete_thread("t")
        assert memory.verify().ok


def test_damaged_branch_points_in_a_file_are_named(tmp_path):
    url = f"sqlite:///{tmp_path}/clew.db"
    branched(url)
    with closing(sqlite3.connect(tmp_path / "clew.db")) as connection, connection:
        connection.execute("UPDATE threads SET points = x'020278' WHERE thread_id = 't'")
    check(url)


def test_damaged_branch_points_in_redis_are_named():
    url, prefix = shared_redis(), f"points-{new_id()}"
    branched(url, prefix=prefix)
    server: Any = redis.Redis.from_url(url)
    (key,) = [each for each in server.scan_iter(f"{prefix}:*") if b"{t}" in each and server.type(each) == b"zset"]
    (member,) = server.zrangebyscore(key, POINTS, POINTS)
    assert read_points(member) is not None
    server.zrem(key, member)
    server.zadd(key, {member + b"x": POINTS})
    check(url, prefix=prefix)
    server.close()


def test_damaged_branch_points_in_postgresql_are_named():
    url, schema = shared_postgres(), f"points_{new_id()}".replace("-", "_").lower()
    branched(url, schema=schema)

    async def damage() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(f"UPDATE \"{schema}\".threads SET points = points || 9::bigint WHERE thread_id = 't'")
        await connection.close()

    asyncio.run(damage())
    # The server's own queries ignore the number without a partner.
    check(url, schema=schema, lists=True)


@pytest.mark.parametrize(
    "points", [None, [(1, 1)], [(2, 1)], [(1, 3), (1, 3)], [(1, 4), (2, 3)], [(0, 9)], [(0, 0)]], ids=repr
)
def test_points_that_no_commit_makes_are_damage(points):
    assert checked_points([(1, 3), (1, 5), (4, 8)], 8) == (((1, 3), (1, 5), (4, 8)), "")
    found, damage = checked_points(points, 8)
    assert not found
    assert "branch points" in damage
