"""Settings: parses Redis URLs and checks the options of `RedisStorage`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from clew.errors import ConfigError
from clew.storage.redis.sentinel import Endpoint, SentinelMaster
from clew.validation import checked_number
from clew.version import __version__

_HOST: Final = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]+))?")
_FOR_SENTINELS: Final = ("sentinel_username", "sentinel_password")
_FOR_SERVERS: Final = ("username", "password", "db", "client_name")
"""Options that are for the servers only."""
_MOST_SECONDS: Final = 10**10
"""Three hundred years: within what Redis counts in milliseconds."""


def check_seconds(name: str, seconds: object) -> None:
    """Raise ConfigError unless `seconds` is a positive number."""
    checked_number(name, seconds, "number of seconds", more_than=0, at_most=_MOST_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Connection counts and timeouts for each server."""

    pool_size: int
    min_idle: int
    health_check: float
    read_timeout: float
    write_timeout: float

    def __post_init__(self) -> None:
        checked_number("pool_size", self.pool_size, "whole number", at_least=1)
        checked_number("min_idle", self.min_idle, "whole number", at_least=0)
        checked_number(
            "health_check_interval", self.health_check, "number of seconds", at_least=0, at_most=_MOST_SECONDS
        )
        check_seconds("read_timeout", self.read_timeout)
        check_seconds("write_timeout", self.write_timeout)


class Address:
    """The location of Redis. Opens connections to it."""

    def __init__(self, url: str, options: dict[str, Any], *, cluster: bool | None) -> None:
        parts = _split(url)
        scheme, _, kind = parts.scheme.partition("+")
        if scheme not in ("redis", "rediss", "unix") or kind not in ("", "cluster", "sentinel"):
            raise ConfigError(
                f"{parts.scheme}:// is not a scheme for Redis: use redis://, rediss:// (TLS), redis+cluster://, "
                "redis+sentinel:// or unix://"
            )
        self.cluster = True if kind == "cluster" else cluster
        """Whether it is a cluster; None if the server has to be asked."""
        parts = parts._replace(scheme=scheme)
        if kind == "sentinel":
            self.cluster = False
            self._sentinel: SentinelMaster | None = _sentinel_master(parts, options)
            self.where = self._sentinel.where
            return
        self._sentinel = None
        credentials, at, hosts = parts.netloc.rpartition("@")
        first, *others = hosts.split(",")
        if others and not self.cluster:
            raise ConfigError("the URL has several hosts, but is not a cluster's; use redis+cluster:// for a cluster")
        self._pool = _pool(parts._replace(netloc=credentials + at + first), options)
        self.where = hosts or parts.path
        self.first = ["{}:{}".format(*_host_and_port(each, 6379)) for each in (first, *others)]

    @classmethod
    def of_pool(cls, pool: ConnectionPool, *, cluster: bool | None, first: list[str] | None = None) -> Address:
        """Return the address of an existing client."""
        self = cls.__new__(cls)
        kwargs = pool.connection_kwargs
        self._pool, self.cluster = pool, cluster
        self._sentinel = SentinelMaster.of_pool(pool) if isinstance(pool, SentinelConnectionPool) else None
        if self._sentinel is not None:
            self.cluster, self.where = False, self._sentinel.where
            return self
        self.where = str(kwargs.get("path") or f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}")
        self.first = first or [self.where]
        return self

    async def connect(self, where: str | None = None) -> AbstractConnection:
        """Open a connection to the address `where`, or to the server. The caller owns it."""
        if self._sentinel is not None:
            return await self._sentinel.connect()
        if where is None:
            connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        else:
            host, _, port = where.rpartition(":")
            arguments = {**self._pool.connection_kwargs, "host": host, "port": int(port)}
            arguments.pop("path", None)
            connection = self._pool.connection_class(**arguments)
        await connection.connect()  # type: ignore[no-untyped-call]
        return connection


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        # Not as the cause: its message may have part of the password.
        raise _unreadable() from None


def _unreadable() -> ConfigError:
    """Return the error, without the driver's message, which may have part of the password."""
    return ConfigError(
        "the Redis URL can't be parsed: write redis://user:password@host:6379, and escape # / ? @ : % in the user "
        "name or password as %23 %2F %3F %40 %3A %25"
    )


def _pool(parts: SplitResult, options: dict[str, Any]) -> ConnectionPool:
    """Parse a URL without host lists with redis-py. Raises ConfigError for unknown options."""
    try:
        _ = parts.port
    except ValueError:
        # Not as the cause: its message may have part of the password.
        raise _unreadable() from None
    try:
        pool = ConnectionPool.from_url(parts.geturl(), **options)
        # Arguments are checked only when a connection is created.
        pool.connection_class(**pool.connection_kwargs)
    except (ValueError, RedisError) as error:
        raise ConfigError(f"the Redis URL is not valid: {error}") from error
    except (TypeError, AttributeError) as error:
        names = ", ".join(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        message = f"the Redis URL has an option ({names}) that neither Clew nor redis-py knows; remove it: {error}"
        raise ConfigError(message) from error
    return pool


def _sentinel_master(parts: SplitResult, options: dict[str, Any]) -> SentinelMaster:
    """Parse redis+sentinel://user:password@host:port,host:port/name/db?sentinel_password=…"""
    credentials, at, hosts = parts.netloc.rpartition("@")
    name, _, db = parts.path.strip("/").partition("/")
    if not name or not hosts or (db and not db.isdecimal()):
        raise ConfigError("the Sentinel URL must be like redis+sentinel://host:port,host:port/name-of-the-master/db")
    query = parse_qsl(parts.query, keep_blank_values=True)
    own = {key.removeprefix("sentinel_"): value for key, value in query if key in _FOR_SENTINELS}
    rest = urlencode([(key, value) for key, value in query if key not in _FOR_SENTINELS])
    pool = _pool(parts._replace(netloc=credentials + at, path=f"/{db}", query=rest), options)
    common = {key: value for key, value in pool.connection_kwargs.items() if key not in _FOR_SERVERS} | own
    sentinels = []
    for each in hosts.split(","):
        host, port = _host_and_port(each, 26379)
        sentinels.append(Endpoint(kind=pool.connection_class, arguments={**common, "host": host, "port": port}))
    return SentinelMaster(name, sentinels, Endpoint(kind=pool.connection_class, arguments=pool.connection_kwargs))


def _host_and_port(text: str, port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} in the Redis URL is not host:port; put an IPv6 address in brackets")
    return found["six"] or found["name"] or "localhost", int(found["port"] or port)


@cache
def _driver() -> dict[str, Any]:
    """Return the argument by which `CLIENT LIST` names Clew.

    Without it, redis-py reads its own version from its package's metadata for every connection.
    """
    try:
        from redis.driver_info import DriverInfo
    except ImportError:  # redis-py before 7.2
        return {}
    return {"driver_info": DriverInfo().add_upstream_driver("clew", __version__)}


def connection_options(
    *,
    username: str | None,
    password: str | None,
    db: int | None,
    retries: int,
    dial_timeout: float,
    read_timeout: float,
) -> dict[str, Any]:
    """Check the options and return redis-py's arguments for a connection."""
    if db is not None:
        checked_number("db", db, "whole number", at_least=0)
    checked_number("retries", retries, "whole number", at_least=0)
    check_seconds("dial_timeout", dial_timeout)
    check_seconds("read_timeout", read_timeout)
    options: dict[str, Any] = {
        "socket_connect_timeout": dial_timeout,
        "socket_timeout": read_timeout,
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.02), retries),
        "protocol": 2,
        **_driver(),
    }
    given = {"username": username, "password": password, "db": db}
    return options | {key: value for key, value in given.items() if value is not None}
