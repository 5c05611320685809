"""Settings of caches, and the cache in memory."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
import redis.asyncio
from msgspec.structs import replace

import clew
from clew.codec.frame import intact
from clew.storage.cached import CachedStorage
from clew.storage.cached.tier import HotTier
from clew.storage.memory import MemoryStorage
from clew.storage.redis import RedisStorage
from clew.storage.wrapper import shared_states
from clew.testing.servers import shared_cluster, shared_postgres, shared_redis
from tests.checkpointer.support import PostgresStore, RedisStore, run, text


def cache_of(checkpointer: clew.BaseCheckpointer) -> clew.CacheStatus:
    found = checkpointer.status().cache
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cold", "name"),
    [("memory://", "memory"), ("sqlite:///{path}", "sqlite"), ("{postgres}", "postgresql"), ("{redis}", "redis")],
    ids=["memory", "sqlite", "postgres", "redis"],
)
@pytest.mark.parametrize("hot", ["memory", "redis", "cluster"])
def test_any_storage_takes_any_cache(cold, name, hot, tmp_path):
    stores = PostgresStore(tmp_path), RedisStore(tmp_path)
    url = cold.format(path=tmp_path / "clew.db", postgres=stores[0].url, redis=stores[1].url)
    prefix = f"prefix={quote(stores[1].prefix + ':cache')}"
    cache = "" if hot == "memory" else shared_redis() if hot == "redis" else shared_cluster()
    try:
        with clew.connect(
            url, cache="memory://" if hot == "memory" else f"{cache}?{prefix}", cache_timeout=60
        ) as memory:
            assert memory.storage.capabilities.name == f"{name}+{'memory' if hot == 'memory' else 'redis'}"
            memory.put_state("t", {"text": text(1, 5_000)})
            memory._engine.indexes.clear()
            assert memory.get_state("t") == {"text": text(1, 5_000)}
            assert cache_of(memory).hits == 1
            assert cache_of(memory).errors == 0
            memory.delete_thread("t")
    finally:
        for store in stores:
            store.close()


def test_without_a_cache_there_is_none(checkpointer):
    assert shared_states(checkpointer.storage) is None
    assert checkpointer.status().cache is None


def test_the_cache_may_stand_in_the_url(tmp_path):
    url = f"sqlite:///{tmp_path}/clew.db?cache=memory://&cache_ttl=60&cache_timeout=0.5&max_cached_threads=7"
    with clew.connect(url) as memory:
        assert memory.storage.capabilities.name == "sqlite+memory"
        for number in range(20):
            memory.put_state(f"t{number}", {"text": text(number, 2_000)})
        assert cache_of(memory).evicted == 13


def test_postgresql_takes_the_address_a_client_or_a_pool_of_redis(tmp_path, caplog):
    store = PostgresStore(tmp_path)

    async def go() -> None:
        client = redis.asyncio.Redis.from_url(shared_redis())
        pool = redis.asyncio.ConnectionPool.from_url(shared_redis())
        for given in ({"redis_url": shared_redis()}, {"redis": client}, {"redis_pool": pool}):
            options: dict[str, Any] = {"schema": store.schema, "cache_timeout": 10.0, **given}
            async with clew.PgCheckpointer(shared_postgres(), **options) as memory:
                assert memory.storage.capabilities.name == "postgresql+redis"
                await memory.aput_state("t", {"text": text(1, 5_000)})
                memory._engine.indexes.clear()
                assert await memory.aget_state("t") == {"text": text(1, 5_000)}
                cache = (await memory.astatus()).cache
                assert cache is not None
                assert cache.hits == 1
                await memory.adelete_thread("t")
        assert await client.ping()
        await client.aclose()
        await pool.aclose()

    caplog.set_level(logging.WARNING)
    try:
        run(go())
    finally:
        store.close()
    assert not [each for each in caplog.records if each.name.startswith("clew")]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"cache": "localhost:6379"}, "takes a URL"),
        ({"cache": 7}, "takes a URL"),
        ({"cache": "memcached://host"}, "memcached:// can't be a cache"),
        ({"cache": "sqlite:///x.db"}, "sqlite:// can't be a cache"),
        ({"cache": "memory://somewhere"}, "takes no URL options"),
        ({"cache": "memory://?ttl=3"}, "takes no URL options"),
        ({"cache": "redis://localhost?ttl=3"}, "unknown option 'ttl'"),
        ({"cache": "redis://localhost?cache_ttl=3"}, "unknown option 'cache_ttl'"),
        ({"cache": "redis://localhost?pool_size=x"}, "not a number"),
        ({"cache": "redis://a,b"}, "cluster"),
        ({"cache": "memory://", "cache_ttl": 0}, "cache_ttl"),
        ({"cache": "memory://", "cache_ttl": "day"}, "cache_ttl"),
        ({"cache": "memory://", "max_cached_threads": 0}, "max_cached_threads"),
        ({"cache": "memory://", "max_cached_threads": 2.5}, "max_cached_threads"),
        ({"cache": "memory://", "cache_timeout": 0}, "cache_timeout"),
        ({"cache_timeout": "soon"}, "cache_timeout"),
    ],
)
def test_a_cache_that_is_impossible_is_refused_with_what_to_do(options, complaint, tmp_path):
    for url in ("memory://", f"sqlite:///{tmp_path}/clew.db"):
        with pytest.raises(clew.ConfigError, match=complaint):
            clew.connect(url, **options)


def test_two_caches_a_wrong_client_and_the_prefix_of_the_store_are_refused():
    for given in (
        {"cache": "memory://", "redis_url": "redis://localhost"},
        {"cache": "memory://", "redis": redis.asyncio.Redis()},
        {"redis_url": "redis://localhost", "redis_pool": redis.asyncio.ConnectionPool()},
        {"redis": redis.Redis()},
        {"redis_pool": redis.ConnectionPool()},
    ):
        with pytest.raises(clew.ConfigError):
            clew.PgCheckpointer("postgresql://localhost/nowhere", **given)
    with pytest.raises(clew.ConfigError, match="prefix"):
        clew.connect("redis://localhost?prefix=agents", cache="redis://localhost?prefix=agents")


def prefix_of(checkpointer: clew.BaseCheckpointer) -> str:
    tier = shared_states(checkpointer.storage)
    assert isinstance(tier, HotTier)
    assert isinstance(tier._hot, RedisStorage)
    return tier._hot._keys._prefix.decode()


def test_stores_in_different_places_have_different_caches():
    cache = "redis://localhost"
    opened = [
        clew.connect("postgresql://ann@db1/app", cache=cache),
        clew.connect("postgresql://bob:secret@DB1/app?sslmode=require", redis_url=cache),
        clew.connect("postgresql://db2/app", cache=cache),
        clew.connect("postgresql://db1/other", cache=cache),
        clew.connect("postgresql://db1/app?schema=other", cache=cache),
        clew.connect("redis://db1/1", cache=cache),
        clew.connect("sqlite:///a.db", cache=cache),
        clew.connect("sqlite:///b.db", cache=cache),
    ]
    prefixes = [prefix_of(each) for each in opened]
    assert prefixes[0] == prefixes[1]
    assert len(set(prefixes)) == 7
    assert all(each.startswith("clew:cache:") for each in prefixes)
    assert prefix_of(clew.connect("sqlite:///a.db", cache=f"{cache}?prefix=mine")) == "mine"


def test_pools_and_clients_that_lead_to_different_places_have_different_caches():
    async def go():
        cache = "redis://localhost"
        pools = [
            asyncpg.create_pool("postgresql://ann@db1/app", min_size=0),
            asyncpg.create_pool("postgresql://db2/app", min_size=0),
            asyncpg.create_pool("postgresql://db1/app", database="other", min_size=0),
            asyncpg.create_pool(host="db1", database="app", min_size=0),
        ]
        clients = [redis.asyncio.Redis.from_url(f"redis://{place}") for place in ("db1", "db2", "db1/1", "db1:6380")]
        opened: list[clew.BaseCheckpointer] = [clew.PgCheckpointer(pg_pool=pool, cache=cache) for pool in pools]
        opened += [clew.RedisCheckpointer.from_client(client, cache=cache) for client in clients]
        prefixes = [prefix_of(each) for each in opened]
        assert len(set(prefixes)) == len(prefixes)
        assert prefixes[0] == prefix_of(clew.connect("postgresql://bob@db1/app", cache=cache))

    run(go())


def test_the_clock_of_the_checkpointer_is_that_of_its_cache(tmp_path, clock):
    with clew.connect("memory://", cache="memory://", cache_ttl=100, clock=clock) as memory:
        memory.put_state("old", {"text": text(1, 2_000)})
        clock.advance(101)
        memory.put_state("new", {"text": text(2, 2_000)})
        assert cache_of(memory).evicted == 1


def test_verification_looks_at_what_is_stored_and_not_at_the_cache():
    with clew.connect("memory://", cache="memory://") as memory:
        state = {"text": text(1, 20_000)}
        memory.put_state("t", state)
        rows = memory.storage.inner._threads["t"].rows  # type: ignore[attr-defined]
        rows[0] = replace(rows[0], data=rows[0].data[:-1] + b"?")
        memory._engine.indexes.clear()
        assert memory.get_state("t") == state
        assert not memory.verify().ok


def test_a_damaged_value_is_not_kept_in_the_cache_and_is_well_again_when_it_is_repaired():
    plain = clew.connect("memory://")
    state = {"text": text(1, 20_000)}
    plain.put_state("t", state)
    cached = clew.BaseCheckpointer(CachedStorage(plain.storage, MemoryStorage(), intact=intact))
    rows = plain.storage._threads["t"].rows  # type: ignore[attr-defined]
    good = rows[0]
    rows[0] = replace(good, data=good.data[:-1] + b"?")
    with pytest.raises(clew.CorruptRecordError, match="'t'"):
        cached.get_state("t")
    rows[0] = good
    assert cached.get_state("t") == state


def test_several_event_loops_and_sync_callers_share_a_cached_checkpointer(tmp_path):
    stores = PostgresStore(tmp_path), RedisStore(tmp_path)
    cache = f"{shared_redis()}?prefix={quote(stores[1].prefix + ':cache')}"
    try:
        memory = clew.connect(stores[0].url, cache=cache, cache_timeout=60)

        async def go(number: int) -> None:
            await memory.aupdate_state("t", append={"list": [text(number, 700)]})
            assert len((await memory.aget_state("t"))["list"]) == number + 1

        for number in range(3):
            asyncio.run(go(number))
        assert memory.get_state("t") == {"list": [text(number, 700) for number in range(3)]}
        memory.release()
        memory.release()
    finally:
        for store in stores:
            store.close()
