"""Checkpointer classes, one for each storage, with its settings and the options of `Checkpointer`.

All take `cache`, the URL of a hot cache (`redis://…`, or `memory://` for this process's memory),
and `cache_timeout`, how many seconds to wait for it; `cache_ttl` and `max_cached_threads` bound it.
All take `encryption`, the keys that encrypt everything before a store or a cache sees it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, Unpack
from urllib.parse import parse_qsl, urlsplit

from clew.checkpointer.base import Checkpointer
from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ConfigError, shown
from clew.factory.cache import CACHE_TIMEOUT, with_cache
from clew.factory.drivers import pg_storage, redis_storage
from clew.factory.encryption import with_encryption
from clew.factory.option_types import CheckpointerOptions, SharedOptions
from clew.factory.options import check_database, check_options
from clew.ids import new_id
from clew.model.encryption import Encryption
from clew.model.generic import StateT
from clew.storage.locked import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.sqlite import SQLiteStorage
from clew.storage.sqlite.connections import Synchronous
from clew.validation import checked_flag, checked_number


class InMemoryCheckpointer(Checkpointer[StateT]):
    """Keeps everything in this process's memory, for tests and trials.

    Takes the options of `Checkpointer`.
    """

    def __init__(
        self,
        *,
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        state_type: type[StateT] | None = None,
        **options: Unpack[CheckpointerOptions],
    ) -> None:
        check_options(options, InMemoryCheckpointer)
        # A unique location: each has its own store.
        storage = with_cache(
            MemoryStorage(), options, cache=cache, cache_timeout=cache_timeout, store=f"memory {new_id()}"
        )
        super().__init__(with_encryption(storage, encryption), state_type=state_type, **options)


class SQLiteCheckpointer(Checkpointer[StateT]):
    """Keeps everything in one file, for any number of processes on one machine.

    `synchronous="NORMAL"` is faster, and may lose the last commits when the machine (not the
    process) crashes. `busy_timeout` is how many seconds a commit waits for other processes. Takes
    the options of `Checkpointer` too.
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
        state_type: type[StateT] | None = None,
        **options: Unpack[CheckpointerOptions],
    ) -> None:
        check_options(options, SQLiteCheckpointer)
        if path == ":memory:":
            raise ConfigError(
                "SQLiteCheckpointer needs a file: to keep everything in memory, use clew.connect('memory://')"
            )
        storage = SQLiteStorage(path, synchronous=synchronous, busy_timeout=busy_timeout)
        if Path(path).is_dir():
            raise ConfigError(f"{os.fspath(path)!r} is a directory: name a file in it, such as clew.db")
        place = f"sqlite {platform.node()} {Path(path).resolve()}"
        cached = with_cache(storage, options, cache=cache, cache_timeout=cache_timeout, store=place)
        super().__init__(with_encryption(cached, encryption), state_type=state_type, **options)


class PgCheckpointer(Checkpointer[StateT]):
    """Keeps everything in PostgreSQL, for any number of processes on any number of machines.

    `postgres_dsn` is a libpq URL (with `sslmode`, several hosts, `target_session_attrs`).
    Alternatively, `pg_pool` is an existing asyncpg pool. It works only on the event loop that it
    was made in, so not with sync methods, and is closed with the checkpointer only if
    `release_resources` is true. Otherwise a pool is made with the settings in `pool_config`.
    `schema` is created if it is missing. `user_id_type` is the type of the column of owners.
    `statement_cache_size=0` disables prepared statements, which PgBouncer before 1.21 does not
    support.

    `redis_url` is another name for `cache`, as in Agentflow's checkpointer. Alternatively, `redis`
    is a `redis.asyncio` client for the cache, or `redis_pool` a pool; they belong to the caller and
    stay open. `redis_pool_config` has settings for the connections to `redis_url`, as
    `redis.asyncio.ConnectionPool` takes them.

    With `state_history_limit`, every save keeps only that many of the thread's newest checkpoints. With
    `enforce_user_isolation=False`, user ids are ignored: every caller reads and writes every thread, and
    new threads have no owner. With a numeric `user_id_type`, owners are returned as numbers. `id_type` takes
    "string" only, because ids of threads and messages are text here. Takes the options of
    `Checkpointer` too.
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
        redis_pool_config: Mapping[str, Any] | None = None,
        state_history_limit: int | None = None,
        enforce_user_isolation: bool = True,
        id_type: Literal["string"] = "string",
        cache: str | None = None,
        cache_timeout: float = CACHE_TIMEOUT,
        encryption: Encryption | None = None,
        state_type: type[StateT] | None = None,
        **options: Unpack[CheckpointerOptions],
    ) -> None:
        check_options(options, PgCheckpointer)
        checked_flag("enforce_user_isolation", enforce_user_isolation)
        checked_flag("release_resources", release_resources)
        if id_type != "string":
            raise ConfigError(
                f"id_type={shown(id_type)}: Clew keeps ids of threads and messages as text, so leave id_type out; "
                "numeric thread ids are accepted, and user_id_type sets the type of user ids"
            )
        if cache is not None and redis_url is not None:
            raise ConfigError("cache and redis_url are the same option: give one of them")
        elsewhere = [
            name
            for name, plain in (("durability", "sync"), ("cleanup_interval", None))
            if options.get(name, plain) != plain
        ]
        if pg_pool is not None and elsewhere:
            raise ConfigError(
                f"{elsewhere[0]} needs connections on its own event loop, but pg_pool belongs to yours: "
                f"use postgres_dsn instead"
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
            pool_config=redis_pool_config,
            store=f"postgresql {_pg_place(postgres_dsn, pg_pool)} {schema}",
        )
        super().__init__(with_encryption(cached, encryption), state_type=state_type, **options)
        self._engine.users.numeric = user_id_type != "string"
        self._engine.users.isolated = enforce_user_isolation
        if state_history_limit:
            self._limit_history(state_history_limit)


class RedisCheckpointer(Checkpointer[StateT]):
    """Keeps everything in Redis, Valkey or a managed service: one server, one behind Sentinel, or a cluster.

    `address` is a URL (`redis://`, `rediss://` for TLS, `redis+sentinel://`, `redis+cluster://`) or
    `host:port`. With `ttl`, a whole thread expires that many seconds after its last write.
    Acknowledged writes are as durable as the server makes them: docs/redis.md explains what that
    means without `appendonly`. With `lock=True`, every write takes the thread's lease first and
    waits up to `lock_timeout` seconds for it; the lease of a process that died expires after
    `lock_expiry` seconds. Takes the options of `Checkpointer` too.
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
        state_type: type[StateT] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[SharedOptions],
    ) -> None:
        check_options(options, RedisCheckpointer)
        url = address if "://" in address else f"redis://{address}"
        check_database(url)
        storage = redis_storage()(
            url,
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
        settings: dict[str, Any] = {**options, "clock": clock}
        cached = with_cache(
            storage,
            settings,
            cache=cache,
            cache_timeout=cache_timeout,
            store=f"redis {_place(address)} {db} {prefix}",
            prefix=prefix,
        )
        self._build(
            cached,
            encryption,
            lock=lock,
            lock_timeout=lock_timeout,
            lock_expiry=lock_expiry,
            state_type=state_type,
            **settings,
        )

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
        state_type: type[StateT] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[SharedOptions],
    ) -> Self:
        """Return a checkpointer that uses the server of `client`, a `redis.asyncio` client of a
        server or a cluster.

        The client belongs to the caller and stays open.
        """
        check_options(options, RedisCheckpointer.from_client)
        self = cls.__new__(cls)
        storage = redis_storage().from_client(client, prefix=prefix, ttl=ttl)
        settings: dict[str, Any] = {**options, "clock": clock}
        place = f"redis client {_client_place(client)} {prefix}"
        cached = with_cache(storage, settings, cache=cache, cache_timeout=cache_timeout, store=place, prefix=prefix)
        self._build(
            cached,
            encryption,
            lock=lock,
            lock_timeout=lock_timeout,
            lock_expiry=lock_expiry,
            state_type=state_type,
            **settings,
        )
        return self

    def _build(
        self,
        storage: Storage,
        encryption: Encryption | None,
        *,
        lock: bool,
        lock_timeout: float,
        lock_expiry: float,
        clock: Clock,
        **options: Any,
    ) -> None:
        checked_flag("lock", lock)
        checked_number("lock_timeout", lock_timeout, "number of seconds", at_least=0)
        checked_number("lock_expiry", lock_expiry, "number of seconds", more_than=0)
        if lock:
            storage = LockingStorage(storage, timeout=lock_timeout, expiry=lock_expiry, clock=clock)
        super().__init__(with_encryption(storage, encryption), clock=clock, **options)


def _place(url: str, *variables: str) -> str:
    """The location that `url` and the environment name, without credentials and settings."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    where = [parts.netloc.rpartition("@")[2].lower(), parts.path]
    where += [
        f"{name}={said}" for name, said in parse_qsl(parts.query) if name in ("host", "port", "dbname", "service")
    ]
    return " ".join([*where, *(os.environ.get(name, "") for name in variables)])


def _pg_place(dsn: str | None, pool: Any) -> str:
    """The location of a DSN or an asyncpg pool, whose attributes for that are private."""
    given = getattr(pool, "_connect_kwargs", {})
    told = [dsn, given.get("dsn"), *getattr(pool, "_connect_args", ())]
    url = next((each for each in told if isinstance(each, str)), "")
    more = [f"{name}={given[name]}" for name in ("host", "port", "database") if given.get(name) is not None]
    return " ".join([_place(url, "PGHOST", "PGPORT", "PGDATABASE"), *more])


def _client_place(client: Any) -> str:
    """The location of a `redis.asyncio` client."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        names = ("host", "port", "path", "db")
        told = [pool.connection_kwargs.get(name) for name in names] + [getattr(pool, "service_name", None)]
        return " ".join(map(str, told))
    nodes = getattr(getattr(client, "nodes_manager", None), "startup_nodes", {})
    return " ".join(sorted(nodes))
