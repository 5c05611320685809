"""A class for each storage: its settings by name, and the options of `BaseCheckpointer`.

The drivers are imported when a checkpointer is made, so that nobody needs those of storages that they don't use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from clew.checkpointer.base import BaseCheckpointer
from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ConfigError, MissingExtraError
from clew.storage.locking import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.sqlite import SQLiteStorage
from clew.storage.sqlite.connections import Synchronous

if TYPE_CHECKING:
    from clew.storage.postgres import PgStorage
    from clew.storage.redis import RedisStorage

_log = logging.getLogger("clew")


class InMemoryCheckpointer(BaseCheckpointer):
    """Everything in this process's memory: for tests and trials. Takes the options of `BaseCheckpointer`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(MemoryStorage(), **options)


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
        **options: Any,
    ) -> None:
        super().__init__(SQLiteStorage(path, synchronous=synchronous, busy_timeout=busy_timeout), **options)


class PgCheckpointer(BaseCheckpointer):
    """PostgreSQL, for any number of processes on any number of machines. Takes the options of `BaseCheckpointer`.

    `postgres_dsn` is a libpq URL (`sslmode`, several hosts and `target_session_attrs` included); or `pg_pool` is an asyncpg
    pool that exists, which is closed with the checkpointer only if `release_resources`. `pool_config` are settings of the
    pool that is made otherwise. `schema` is created if it is missing. `user_id_type` is the type of the column that holds
    owners. `statement_cache_size=0` prepares no statements, as a PgBouncer of before 1.21 needs it.

    `redis_url`, `redis` and `redis_pool` name the hot cache of Agentflow's checkpointer. They are accepted, and not used yet.
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
        **options: Any,
    ) -> None:
        for name, given in (("redis_url", redis_url), ("redis", redis), ("redis_pool", redis_pool)):
            if given is not None:
                _log.warning(
                    "PgCheckpointer(%s=…): this version has no cache in Redis; PostgreSQL serves everything", name
                )
        storage = _postgres()(
            postgres_dsn,
            pool=pg_pool,
            pool_config=pool_config,
            schema=schema,
            user_id_type=user_id_type,
            statement_cache_size=statement_cache_size,
            release_resources=release_resources,
        )
        super().__init__(storage, **options)


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
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> None:
        storage = _redis()(
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
        self._build(storage, lock=lock, lock_timeout=lock_timeout, lock_expiry=lock_expiry, clock=clock, **options)

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
        clock: Clock = SYSTEM_CLOCK,
        **options: Any,
    ) -> Self:
        """A checkpointer for the server that `client` (a `redis.asyncio` client, also of a cluster) talks to.

        The client stays the caller's, and open.
        """
        self = cls.__new__(cls)
        storage = _redis().from_client(client, prefix=prefix, ttl=ttl)
        self._build(storage, lock=lock, lock_timeout=lock_timeout, lock_expiry=lock_expiry, clock=clock, **options)
        return self

    def _build(
        self,
        storage: RedisStorage,
        *,
        lock: bool,
        lock_timeout: float,
        lock_expiry: float,
        clock: Clock,
        **options: Any,
    ) -> None:
        for name, seconds in (("lock_timeout", lock_timeout), ("lock_expiry", lock_expiry)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
                raise ConfigError(f"{name} must be a number of seconds; got {seconds!r:.60}")
        if not lock:
            return super().__init__(storage, clock=clock, **options)
        if lock_expiry == 0:
            raise ConfigError("lock_expiry must be more than 0 seconds")
        locking = LockingStorage(storage, timeout=lock_timeout, expiry=lock_expiry, clock=clock)
        return super().__init__(locking, clock=clock, **options)


def _postgres() -> type[PgStorage]:
    try:
        from clew.storage.postgres import PgStorage
    except ModuleNotFoundError as error:
        raise _missing("PostgreSQL", "postgres", error) from error
    return PgStorage


def _redis() -> type[RedisStorage]:
    try:
        from clew.storage.redis import RedisStorage
    except ModuleNotFoundError as error:
        raise _missing("Redis", "redis", error) from error
    return RedisStorage


def _missing(what: str, extra: str, error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(f"{what} needs {error.name}: pip install 'clew[{extra}]'", extra=extra)
