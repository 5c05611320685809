"""The hot cache that `cache=` names, around the storage of a checkpointer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from clew.checkpointer.base import CACHE_TTL, MAX_CACHED_THREADS
from clew.clock import SYSTEM_CLOCK
from clew.codec.frame import intact
from clew.errors import ConfigError, shown
from clew.factory.drivers import redis_storage
from clew.factory.options import check_database, own_query, split_query
from clew.storage.cached import CachedStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.validation import checked_clock, checked_number

PREFIX: Final = "clew:cache"
"""The default prefix of a cache's keys.

A digest of the store's location follows: two copies of a store (a restored backup, a replica that
was written to) have the same threads with other values under the same numbers.
"""
CACHE_TIMEOUT: Final = 0.25
_LIMITS: Final[dict[str, Any]] = {"pool_size": 4, "read_timeout": 1.0, "write_timeout": 1.0, "advise": False}
"""Settings of the connections to a cache: callers don't wait for the cache, and its content may be lost."""
_URL_LIMITS: Final[dict[str, Any]] = {**_LIMITS, "retries": 0, "dial_timeout": 1.0}
_IN_URL: Final = (
    "prefix",
    "pool_size",
    "min_idle",
    "health_check_interval",
    "retries",
    "dial_timeout",
    "read_timeout",
    "write_timeout",
)
_TOUCHES: Final = 8
"""How often within `cache_ttl` a thread that is read is marked as used; at least every minute."""


def with_cache(
    cold: Storage,
    options: Mapping[str, Any],
    *,
    cache: str | None = None,
    cache_timeout: float,
    client: Any = None,
    pool: Any = None,
    pool_config: Mapping[str, Any] | None = None,
    store: str,
    prefix: str | None = None,
) -> Storage:
    """Return `cold` behind the cache that `cache` (a URL), `client` or `pool` (of redis.asyncio)
    names, if any.

    `pool_config` has settings of redis.asyncio for the connections to `cache`. `options` are those of
    the checkpointer, `store` names the location of `cold`, and `prefix` is that of a cold storage in
    Redis.
    """
    checked_clock(options.get("clock", SYSTEM_CLOCK))
    checked_number("cache_timeout", cache_timeout, "number of seconds", more_than=0)
    given = [each for each in (cache, client, pool) if each is not None]
    if pool_config is not None and cache is None:
        raise ConfigError("redis_pool_config has settings for the connections to redis_url: pass redis_url, too")
    if not given:
        return cold
    if len(given) > 1:
        raise ConfigError("only one cache is possible: give one of cache=, redis_url=, redis= and redis_pool=")
    ttl = checked_number("cache_ttl", options.get("cache_ttl", CACHE_TTL), "number of seconds", more_than=0)
    max_threads = checked_number(
        "max_cached_threads", options.get("max_cached_threads", MAX_CACHED_THREADS), "whole number", at_least=1
    )
    forgets = True
    if cache is None:
        hot: Storage = _of_client(client, pool, ttl, prefix_for(store))
    elif pool_config is not None:
        hot = _of_pool_config(cache, pool_config, ttl, prefix_for(store))
    elif not isinstance(cache, str) or "://" not in cache:
        # A text is not shown, because it may contain a password.
        got = "another text" if isinstance(cache, str) else shown(cache)
        raise ConfigError(f"cache takes a URL, redis://… or memory://; got {got}")
    elif cache.partition("://")[0].lower() == "memory":
        if cache.rstrip("/") != "memory:" or own_query(cache):
            raise ConfigError("the cache memory:// takes no URL options; use cache_ttl and max_cached_threads")
        hot, forgets = MemoryStorage(), False
    else:
        hot = _of_url(cache, ttl, prefix_for(store), prefix)
    return CachedStorage(
        cold,
        hot,
        max_threads=max_threads,
        ttl=None if forgets else ttl,
        touch_every=min(60.0, ttl / _TOUCHES),
        timeout=cache_timeout,
        intact=intact,
        clock=options.get("clock", SYSTEM_CLOCK),
    )


def prefix_for(store: str) -> str:
    """The prefix of the cache of the store at this location."""
    return f"{PREFIX}:{hashlib.blake2b(store.encode(), digest_size=6).hexdigest()}"


def _of_url(cache: str, ttl: float, prefix: str, cold_prefix: str | None) -> Storage:
    scheme = cache.partition("://")[0].lower()
    if scheme.partition("+")[0] not in ("redis", "rediss", "unix"):
        raise ConfigError(f"{scheme}:// can't be a cache; use redis://… or memory://")
    check_database(cache)
    address, own = split_query(cache)
    if wrong := [name for name in own if name not in _IN_URL]:
        raise ConfigError(f"unknown option {wrong[0]!r}; the URL of a cache takes {', '.join(_IN_URL)}")
    if own.setdefault("prefix", prefix) == cold_prefix:
        raise ConfigError(f"the cache needs another prefix than the store; both have {cold_prefix!r}")
    return redis_storage()(address, ttl=ttl, **{**_URL_LIMITS, **own})


def _of_client(client: Any, pool: Any, ttl: float, prefix: str) -> Storage:
    storage = redis_storage()
    from redis.asyncio import ConnectionPool, Redis, RedisCluster

    if pool is not None:
        if not isinstance(pool, ConnectionPool):
            raise ConfigError(f"redis_pool takes a redis.asyncio.ConnectionPool, not {type(pool).__name__}")
        client = Redis(connection_pool=pool)
    elif not isinstance(client, (Redis, RedisCluster)):
        raise ConfigError(f"redis takes a redis.asyncio client, not {type(client).__name__}")
    return storage.from_client(client, prefix=prefix, ttl=ttl, **_LIMITS)


def _of_pool_config(cache: str, config: Mapping[str, Any], ttl: float, prefix: str) -> Storage:
    """The storage at the URL `cache`, with connections as `redis.asyncio.ConnectionPool` makes them with `config`."""
    storage = redis_storage()
    from redis.asyncio import ConnectionPool, Redis

    check_database(cache)
    address, own = split_query(cache)
    if wrong := [name for name in own if name != "prefix"]:
        raise ConfigError(f"{wrong[0]!r} is in the URL of the cache: with redis_pool_config, put all settings there")
    if not isinstance(config, Mapping):
        raise ConfigError(f"redis_pool_config must be a mapping, not {type(config).__name__}")
    try:
        pool = ConnectionPool.from_url(address, **config)
        # Only to check the settings: it is not opened.
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"redis_pool_config does not fit redis.asyncio.ConnectionPool.from_url: {error}") from error
    limits = {**_LIMITS, "prefix": prefix, **own}
    if "max_connections" in config:
        limits["pool_size"] = config["max_connections"]
    return storage.from_client(Redis(connection_pool=pool), ttl=ttl, **limits)
