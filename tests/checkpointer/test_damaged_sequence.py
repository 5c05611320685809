"""A damaged sequence number: the thread takes no commits, its records stay readable, and strangers learn nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
import redis

import clew
from clew.storage.redis.header import MOST
from clew.testing.servers import shared_postgres, shared_redis
from tests.checkpointer.support import PostgresStore, RedisStore, SQLiteStore, Store

ANN = {"thread_id": "t", "user_id": "ann"}
BOB = {"thread_id": "t", "user_id": "bob"}
STORES = [SQLiteStore, PostgresStore, RedisStore]
PLACE = slice(22, 26)
"""Where a thread's header in Redis has its sequence number."""


def damage(store: Store, sequence: int) -> None:
    """Set the thread's sequence number."""
    if isinstance(store, SQLiteStore):
        with sqlite3.connect(store.path) as connection:
            connection.execute("UPDATE threads SET sequence = ? WHERE thread_id = 't'", (sequence,))
        connection.close()
    elif isinstance(store, PostgresStore):
        asyncio.run(damage_row(store.schema, sequence))
    elif isinstance(store, RedisStore):
        with redis.Redis.from_url(shared_redis()) as server:
            (key,) = [key for key in server.scan_iter(f"{store.prefix}*{{t}}*") if server.type(key) == b"zset"]
            (header,) = server.zrangebyscore(key, 0, 0)
            server.zrem(key, header)
            server.zadd(key, {header[: PLACE.start] + sequence.to_bytes(4, "big") + header[PLACE.stop :]: 0})


async def damage_row(schema: str, sequence: int) -> None:
    connection = await asyncpg.connect(shared_postgres())
    await connection.execute(f'UPDATE "{schema}".threads SET sequence = $1 WHERE thread_id = $2', sequence, "t")
    await connection.close()


def out_of_range(store: Store) -> int:
    return MOST["sequence"] + 1 if isinstance(store, RedisStore) else (1 << 53) + 1


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    made = request.param(tmp_path)
    with made.open() as checkpointer:
        # The numbers between have no checkpoint: no unique index would notice a second use of them.
        for number in range(3):
            checkpointer.put_messages(ANN, [{"role": "user", "content": f"message {number}"}])
        checkpointer.put_state(ANN, {"n": 1})
    yield made
    made.close()


def writes(checkpointer: clew.BaseCheckpointer, config: dict[str, Any]) -> dict[str, Callable[[], object]]:
    return {
        "put_state": lambda: checkpointer.put_state(config, {"n": 2}),
        "put_messages": lambda: checkpointer.put_messages(config, [{"role": "user", "content": "new"}]),
        "put_thread": lambda: checkpointer.put_thread(config, thread_name="new"),
        "update_state": lambda: checkpointer.update_state({**config, "user_id": clew.ANY_USER}, set={"n": 2}),
        "put_checkpoint": lambda: checkpointer.put_checkpoint({**config, "checkpoint_ns": "inner"}, {"n": 2}),
    }


def test_a_thread_with_a_lower_number_than_its_head_takes_no_commit_and_is_named(store):
    damage(store, 1)
    with store.open(retry_for=0) as checkpointer:
        for write in writes(checkpointer, ANN).values():
            with pytest.raises(clew.CorruptRecordError, match="'t'"):
                write()
        assert checkpointer.get_state(ANN) == {"n": 1}
        assert len(checkpointer.list_messages(ANN)) == 3
        assert [each.thread_id for each in checkpointer.verify().damage] == ["t"]
        checkpointer.delete_thread(ANN)
        checkpointer.put_state(ANN, {"n": 3})
        assert checkpointer.verify().ok


def test_the_writer_that_saved_last_notices_it_too(store):
    with store.open(retry_for=0) as checkpointer:
        checkpointer.put_state(ANN, {"n": 2})
        damage(store, 1)
        with pytest.raises(clew.CorruptRecordError, match="'t'"):
            checkpointer.put_state(ANN, {"n": 3})
        assert checkpointer.get_state(ANN) == {"n": 2}


@pytest.mark.parametrize("number", ["lower", "out of range"])
def test_a_stranger_gets_of_a_damaged_thread_what_a_stranger_gets_of_a_whole_one(store, number):
    def outcomes(checkpointer: clew.BaseCheckpointer) -> list[object]:
        calls = {
            **writes(checkpointer, BOB),
            "get_state": lambda: checkpointer.get_state(BOB),
            "list_messages": lambda: checkpointer.list_messages(BOB),
            "get_thread": lambda: checkpointer.get_thread(BOB),
            "exists": lambda: checkpointer.exists(BOB),
            "fork": lambda: checkpointer.fork(BOB, "f"),
            "copy_thread": lambda: checkpointer.copy_thread(BOB, "f"),
            "lease": lambda: checkpointer.lease(BOB).__enter__(),
            "delete_message": lambda: checkpointer.delete_message(BOB, "m"),
            "delete_thread": lambda: checkpointer.delete_thread(BOB),
        }
        del calls["update_state"]  # It acts for everybody.
        return [(name, outcome(call)) for name, call in calls.items()]

    with store.open(retry_for=0) as checkpointer:
        whole = outcomes(checkpointer)
    damage(store, 1 if number == "lower" else out_of_range(store))
    with store.open(retry_for=0) as checkpointer:
        assert outcomes(checkpointer) == whole


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except clew.ClewError as error:
        return type(error), str(error)
