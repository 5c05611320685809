"""Options that PgCheckpointer and RedisCheckpointer have from the systems that Clew descends from."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.testing.servers import shared_postgres, shared_redis
from tests.storage.postgres_support import own_schema, shared_schema

ANA = {"thread_id": "t", "user_id": "ana"}


@pytest.fixture
def pg():
    with shared_schema() as schema:
        opened: list[clew.PgCheckpointer] = []

        def make(**options: Any) -> clew.PgCheckpointer:
            opened.append(clew.PgCheckpointer(shared_postgres(), schema=schema, **options))
            return opened[-1]

        yield make
        for each in opened:
            each.release()


def test_numeric_users_come_back_as_numbers(tmp_path):
    with (
        own_schema(tmp_path) as schema,
        clew.PgCheckpointer(shared_postgres(), schema=schema, user_id_type="bigint") as memory,
    ):
        mine = {"thread_id": 7, "user_id": -5}
        memory.put_state(mine, {"n": 1})
        described = memory.get_thread(mine)
        assert described is not None
        assert described.user_id == -5
        assert memory.list_threads({"user_id": "-5"})[0].user_id == -5
        assert memory.fork(mine, "fork")["user_id"] == -5
        copied = memory.copy_thread(mine, "copy")
        assert copied["user_id"] == -5
        assert memory.get_state(copied) == {"n": 1}
        memory.put_thread(mine, described)
        memory.put_state("nobody's", 1)
        assert [each.user_id for each in memory.list_threads({})] == [None]
        assert memory.get_state({"thread_id": 7, "user_id": 6}) is None


@pytest.mark.parametrize("in_a_pair", [False, True], ids=["alone", "in a pair"])
def test_numeric_users_are_numbers_wherever_they_are_returned(tmp_path, in_a_pair):
    with own_schema(tmp_path) as schema:
        opened = clew.PgCheckpointer(shared_postgres(), schema=schema, user_id_type="int")
        with clew.DistributedCheckpointer(opened, "memory://") if in_a_pair else opened as memory:
            _check_numbers(memory)


def _check_numbers(memory):
    mine = {"thread_id": "t", "user_id": 5}
    with memory.watch({"user_id": 5}) as watch:
        saved = memory.put_checkpoint(mine, {"n": 1}, messages=[{"role": "user", "content": "hello"}])
        events = [next(watch), next(watch)]
    assert [event.user_id for event in events] == [5, 5]
    memory.get_state({**mine, "thread_id": "other"})
    found = [
        saved.metadata,
        memory.get_checkpoint(mine).metadata,
        memory.update_state(mine, set={"n": 2}).metadata,
        memory.list_checkpoints(mine)[0],
        memory.get_history(mine)[0].metadata,
        memory.get_thread(mine).head,
        memory.list_threads({"user_id": clew.ANY_USER})[0].head,
        memory.rewind(mine).metadata,
        next(event.checkpoint for event in events if event.checkpoint is not None),
    ]
    assert [(each.user_id, each.config["user_id"]) for each in found] == [(5, 5)] * len(found)
    assert memory.get_state(saved.config) == {"n": 1}
    assert [hit.user_id for hit in memory.search("hello", user_id=5)] == [5]
    assert [hit.user_id for hit in memory.search("hello", user_id=clew.ANY_USER)] == [5]
    owners: list[object] = []
    memory.copy_thread(mine, "copy", choose=lambda infos: owners.extend(info.user_id for info in infos))
    assert set(owners) == {5}
    for_all = {"thread_id": "t", "user_id": clew.ANY_USER}
    assert memory.get_checkpoint(for_all).config["user_id"] is clew.ANY_USER
    with memory.turn(mine) as turn:
        turn.state = {"n": 3}
    assert turn.saved.config["user_id"] == 5


def test_a_text_of_digits_stays_a_text_where_users_are_texts(pg):
    memory = pg()
    memory.put_state({"thread_id": "t", "user_id": 5}, 1)
    assert memory.get_thread({"thread_id": "t", "user_id": 5}).user_id == "5"


def test_a_history_limit_removes_older_checkpoints_with_each_save(pg):
    memory = pg(state_history_limit=2)
    for number in range(4):
        memory.put_state(ANA, {"n": number})
    assert [each.state["n"] for each in memory.get_history(ANA)] == [3, 2]
    memory.put_checkpoint(ANA, {"n": 4})
    memory.update_state(ANA, set={"n": 5})
    assert [each.state["n"] for each in memory.get_history(ANA)] == [5, 4]
    for none in (0, None):
        unlimited = pg(state_history_limit=none)
        unlimited.put_state(ANA, {"n": 6})
    assert len(memory.list_checkpoints(ANA)) == 4


def test_without_isolation_user_ids_are_ignored(pg):
    pg().put_state({"thread_id": "owned", "user_id": "ana"}, {"n": 1})
    memory = pg(enforce_user_isolation=False)
    bob = {"thread_id": "owned", "user_id": "bob"}
    assert memory.get_state(bob) == memory.get_state("owned") == {"n": 1}
    memory.put_state(bob, {"n": 2})
    memory.put_state({"thread_id": "new", "user_id": "bob"}, {"n": 3})
    assert {each.thread_id: each.user_id for each in memory.list_threads({"user_id": "carl"})} == {
        "owned": "ana",
        "new": None,
    }
    with memory.turn(bob) as turn:
        turn.state["n"] += 1
    assert memory.erase_user("bob") == 0
    isolated = pg()
    assert isolated.get_state({"thread_id": "owned", "user_id": "ana"}) == {"n": 3}
    assert isolated.get_state(bob) is None


def test_settings_of_the_connections_to_a_cache(pg):
    memory = pg(redis_url=shared_redis(), redis_pool_config={"max_connections": 2, "client_name": "clew-of-a-test"})
    memory.put_state("t", {"n": 1})
    assert memory.get_state("t") == {"n": 1}
    memory.put_state_cache("t", {"n": 2})
    assert memory.status().cache.available
    assert memory.status().cache.errors == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"redis_url": "redis://h", "redis_pool_config": {"no_such": 1}}, "no_such"),
        ({"redis_url": "redis+cluster://h", "redis_pool_config": {}}, "redis_pool_config does not fit"),
        ({"redis_url": "redis://h", "redis_pool_config": 5}, "must be a mapping"),
        ({"redis_url": "redis://h?pool_size=2", "redis_pool_config": {}}, "put all settings there"),
        ({"redis_pool_config": {}}, "pass redis_url, too"),
        ({"id_type": "int"}, "leave id_type out; numeric thread ids are accepted"),
        ({"state_history_limit": -1}, "state_history_limit must be a whole number"),
        ({"state_history_limit": 2, "durability": "background"}, "excludes durability"),
    ],
)
def test_options_that_can_t_be_honoured_are_refused_with_advice(pg, options, said):
    with pytest.raises(clew.ConfigError, match=said):
        pg(**options)


def test_a_ttl_of_zero_means_that_threads_never_expire(tmp_path):
    import redis

    prefix = f"ttl-{tmp_path.name}"
    with clew.RedisCheckpointer(shared_redis(), prefix=prefix, ttl=0) as memory:
        memory.put_state("t", {"n": 1})
        with redis.Redis.from_url(shared_redis()) as client:
            keys = list(client.scan_iter(f"{prefix}*", count=10_000))
            assert keys
            assert {client.ttl(key) for key in keys if b"own" not in key} == {-1}
            memory.delete_thread("t")
