"""A class for each storage: its settings by name, and the options of `BaseCheckpointer`.

All take `cache`, the URL of a hot tier (`redis://…`, or `memory://` for this process's memory), and `cache_timeout`, for how
many seconds to wait for it; `cache_ttl` and `max_cached_threads` say how much it keeps. And `encryption`, the keys with which
everything is sealed before a store or a cache sees it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from clew.checkpointer.base import BaseCheckpointer
from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ConfigError, shown
from clew.factory.caching import CACHE_TIMEOUT, with_cache
from clew.factory.drivers import pg_storage, redis_storage
from clew.factory.encrypting import with_encryption
from clew.ids import new_id
from clew.model.encryption import Encryption
from clew.storage.locking import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.sqlite import SQLiteStorage
from clew.storage.sqlite.connections import Synchronous


class InMemoryCheckpointer(BaseCheckpointer):
    """Everything in this process's memory: for tests and trials. Takes the options of `BaseCheckpointer`."""

    def __init__(
        self,
        *,
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        **options: Any,
    ) -> None:
        # Each has a store of its own.
        storage = with_cache(
            MemoryStorage(), options, cache=cache, cache_timeout=cache_timeout, store=f"memory {new_id()}"
        )
        super().__init__(with_encryption(storage, encryption), **options)


class SQLiteCheckpointer(BaseCheckpointer):
    """One file, durable, for any number of processes on one machine. Takes the options of `BaseCheckpointer`.

    `synchronous="NORMAL"` is faster, and may lose the last commits when the machine (not the process) dies.
    `busy_timeout` is how many seconds a commit waits for other processes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 30.0,
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        **options: Any,
    ) -> None:
        storage = SQLiteStorage(path, synchronous=synchronous, busy_timeout=busy_timeout)
        place = f"sqlite {platform.node()} {Path(path).resolve()}"
        cached = with_cache(storage, options, cache=cache, cache_timeout=cache_timeout, store=place)
        super().__init__(with_encryption(cached, encryption), **options)


class PgCheckpointer(BaseCheckpointer):
    """PostgreSQL, for any number of processes on any number of machines. Takes the options of `BaseCheckpointer`.

    `postgres_dsn` is a libpq URL (`sslmode`, several hosts and `target_session_attrs` included); or `pg_pool` is an asyncpg
    pool that exists, which is closed with the checkpointer only if `release_resources`; it can be used only on the event loop
    that it was made in, so not by sync methods. `pool_config` are settings of the pool that is made otherwise. `schema` is
    created if it is missing. `user_id_type` is the type of the column that holds owners. `statement_cache_size=0` prepares
    no statements, as a PgBouncer of before 1.21 needs it.

    `redis_url` is another name for `cache`, as in Agentflow's checkpointer; or `redis` is a `redis.asyncio` client, or
    `redis_pool` a pool, for the server of the cache. Those stay the caller's, and open.
    """

    def __init__(
        self,
        postgres_dsn: str | None = None,
        *,
        pg_pool: Any = None,
        pool_config: Mapping[str, Any] | None = None,
        schema: str = "clew",
        user_id_type: Literal["string", "int", "bigint"] = "string",
        statement_cache_size: int | None = None,
        release_resources: bool = False,
        redis_url: str | None = None,
        redis: Any = None,
        redis_pool: Any = None,
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        **options: Any,
    ) -> None:
        if cache is not None and redis_url is not None:
            raise ConfigError("cache and redis_url are two names for one thing: give one of them")
        elsewhere = [
            name
            for name, plain in (("durability", "sync"), ("cleanup_interval", None))
            if options.get(name, plain) != plain
        ]
        if pg_pool is not None and elsewhere:
            raise ConfigError(
                f"{elsewhere[0]} needs connections on an event loop of its own, and pg_pool belongs to yours: "
                f"give postgres_dsn instead"
            )
        storage = pg_storage()(
            postgres_dsn,
            pool=pg_pool,
            pool_config=pool_config,
            schema=schema,
            user_id_type=user_id_type,
            statement_cache_size=statement_cache_size,
            release_resources=release_resources,
        )
        cached = with_cache(
            storage,
            options,
            cache=redis_url if cache is None else cache,
            cache_timeout=cache_timeout,
            client=redis,
            pool=redis_pool,
            store=f"postgresql {_pg_place(postgres_dsn, pg_pool)} {schema}",
        )
        super().__init__(with_encryption(cached, encryption), **options)


class RedisCheckpointer(BaseCheckpointer):
    """Redis, Valkey or a managed service: one server, one behind Sentinel, or a cluster.

    `address` is a URL (`redis://`, `rediss://` for TLS, `redis+sentinel://`, `redis+cluster://`) or `host:port`. With `ttl`,
    a thread is forgotten, whole, that many seconds after it was last written to. What is acknowledged is as durable as the
    server makes it: docs/redis.md says what that means with `appendonly` off. `lock=True` makes every write take the thread's
    lease first, waiting `lock_timeout` seconds for it at most; whoever dies with it keeps it for `lock_expiry` seconds.
    Takes the options of `BaseCheckpointer` too.
    """

    def __init__(
        self,
        address: str = "redis://localhost:6379",
        *,
        username: str | None = None,
        password: str | None = None,
        db: int | None = None,
        prefix: str = "clew",
        ttl: float | None = None,
        pool_size: int = 8,
        min_idle: int = 1,
        health_check_interval: float = 30.0,
        retries: int = 3,
        dial_timeout: float = 5.0,
        read_timeout: float = 10.0,
        write_timeout: float = 10.0,
        lock: bool = False,
        lock_timeout: float = 10.0,
        lock_expiry: float = 30.0,
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> None:
        storage = redis_storage()(
            address if "://" in address else f"redis://{address}",
            username=username,
            password=password,
            db=db,
            prefix=prefix,
            ttl=ttl,
            pool_size=pool_size,
            min_idle=min_idle,
            health_check_interval=health_check_interval,
            retries=retries,
            dial_timeout=dial_timeout,
            read_timeout=read_timeout,
            write_timeout=write_timeout,
        )
        options |= {"clock": clock}
        cached = with_cache(
            storage,
            options,
            cache=cache,
            cache_timeout=cache_timeout,
            store=f"redis {_place(address)} {db} {prefix}",
            prefix=prefix,
        )
        sealed = with_encryption(cached, encryption)
        self._build(sealed, lock=lock, lock_timeout=lock_timeout, lock_expiry=lock_expiry, **options)

    @classmethod
    def from_client(
        cls,
        client: Any,
        *,
        prefix: str = "clew",
        ttl: float | None = None,
        lock: bool = False,
        lock_timeout: float = 10.0,
        lock_expiry: float = 30.0,
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> Self:
        """A checkpointer for the server that `client` (a `redis.asyncio` client, also of a cluster) talks to.

        The client stays the caller's, and open.
        """
        self = cls.__new__(cls)
        storage = redis_storage().from_client(client, prefix=prefix, ttl=ttl)
        options |= {"clock": clock}
        place = f"redis client {_client_place(client)} {prefix}"
        cached = with_cache(storage, options, cache=cache, cache_timeout=cache_timeout, store=place, prefix=prefix)
        sealed = with_encryption(cached, encryption)
        self._build(sealed, lock=lock, lock_timeout=lock_timeout, lock_expiry=lock_expiry, **options)
        return self

    def _build(
        self,
        storage: Storage,
        *,
        lock: bool,
        lock_timeout: float,
        lock_expiry: float,
        clock: Clock,
        **options: Any,
    ) -> None:
        for name, seconds in (("lock_timeout", lock_timeout), ("lock_expiry", lock_expiry)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
                raise ConfigError(f"{name} must be a number of seconds; got {shown(seconds)}")
        if not lock:
            return super().__init__(storage, clock=clock, **options)
        if lock_expiry == 0:
            raise ConfigError("lock_expiry must be more than 0 seconds")
        locking = LockingStorage(storage, timeout=lock_timeout, expiry=lock_expiry, clock=clock)
        return super().__init__(locking, clock=clock, **options)


def _place(url: str, *variables: str) -> str:
    """Where `url` leads to, and what the environment adds to that; not who asks, nor how."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    where = [parts.netloc.rpartition("@")[2].lower(), parts.path]
    where += [
        f"{name}={said}" for name, said in parse_qsl(parts.query) if name in ("host", "port", "dbname", "service")
    ]
    return " ".join([*where, *(os.environ.get(name, "") for name in variables)])


def _pg_place(dsn: str | None, pool: Any) -> str:
    """Where a DSN or a pool of asyncpg leads to; the pool keeps that to itself."""
    given = getattr(pool, "_connect_kwargs", {})
    told = [dsn, given.get("dsn"), *getattr(pool, "_connect_args", ())]
    url = next((each for each in told if isinstance(each, str)), "")
    more = [f"{name}={given[name]}" for name in ("host", "port", "database") if given.get(name) is not None]
    return " ".join([_place(url, "PGHOST", "PGPORT", "PGDATABASE"), *more])


def _client_place(client: Any) -> str:
    """Where a client of redis.asyncio leads to."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        names = ("host", "port", "path", "db")
        told = [pool.connection_kwargs.get(name) for name in names] + [getattr(pool, "service_name", None)]
        return " ".join(map(str, told))
    nodes = getattr(getattr(client, "nodes_manager", None), "startup_nodes", {})
    return " ".join(sorted(nodes))
