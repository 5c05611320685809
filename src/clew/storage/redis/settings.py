"""Where Redis is and how to talk to it: what a URL and the options of `RedisStorage` mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from clew.errors import ConfigError, shown
from clew.storage.redis.watched import Endpoint, Watched

_HOST: Final = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]+))?")
_FOR_SENTINELS: Final = ("sentinel_username", "sentinel_password")
_FOR_SERVERS: Final = ("username", "password", "db", "client_name")
"""What a server is told and its Sentinels are not."""
_MOST_SECONDS: Final = 10**10
"""Three hundred years, which Redis still counts in milliseconds."""


def check_seconds(name: str, seconds: object, *, zero: bool = False) -> None:
    """Raises ConfigError unless it is a number of seconds: more than 0, or 0 too."""
    if isinstance(seconds, int | float) and (0 < seconds <= _MOST_SECONDS or (zero and seconds == 0)):
        return
    least = "0 or more" if zero else "more than 0"
    raise ConfigError(
        f"{name} must be a number of seconds, {least} and at most {_MOST_SECONDS:,}; got {shown(seconds)}"
    )


def check_whole(name: str, number: object, *, least: int) -> None:
    """Raises ConfigError unless it is a whole number, `least` or more."""
    if not isinstance(number, int) or number < least:
        raise ConfigError(f"{name} must be a whole number, {least} or more; got {shown(number)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections to a server, and how long to wait for it."""

    pool_size: int
    min_idle: int
    health_check: float
    read_timeout: float
    write_timeout: float

    def __post_init__(self) -> None:
        check_whole("pool_size", self.pool_size, least=1)
        check_whole("min_idle", self.min_idle, least=0)
        check_seconds("health_check_interval", self.health_check, zero=True)
        check_seconds("read_timeout", self.read_timeout)
        check_seconds("write_timeout", self.write_timeout)


class Address:
    """Where Redis is: opens connections to it."""

    def __init__(self, url: str, options: dict[str, Any], *, cluster: bool | None) -> None:
        parts = _split(url)
        scheme, _, kind = parts.scheme.partition("+")
        if scheme not in ("redis", "rediss", "unix") or kind not in ("", "cluster", "sentinel"):
            raise ConfigError(
                f"{parts.scheme}:// is not a scheme for Redis: use redis://, rediss:// (TLS), redis+cluster://, "
                "redis+sentinel:// or unix://"
            )
        self.cluster = True if kind == "cluster" else cluster
        """Whether it is a cluster; `None` if that has to be asked."""
        parts = parts._replace(scheme=scheme)
        if kind == "sentinel":
            self.cluster = False
            self._watched: Watched | None = _watched(parts, options)
            self.where = self._watched.where
            return
        self._watched = None
        credentials, at, hosts = parts.netloc.rpartition("@")
        first, *others = hosts.split(",")
        if others and not self.cluster:
            raise ConfigError("several hosts in a URL are the first nodes of a cluster: use redis+cluster:// for them")
        self._pool = _pool(parts._replace(netloc=credentials + at + first), options)
        self.where = hosts or parts.path
        self.first = ["{}:{}".format(*_host_and_port(each, 6379)) for each in (first, *others)]

    @classmethod
    def of_pool(cls, pool: ConnectionPool, *, cluster: bool | None, first: list[str] | None = None) -> Address:
        """The address that an existing client has."""
        self = cls.__new__(cls)
        kwargs = pool.connection_kwargs
        self._pool, self.cluster = pool, cluster
        self._watched = Watched.of_pool(pool) if isinstance(pool, SentinelConnectionPool) else None
        if self._watched is not None:
            self.cluster, self.where = False, self._watched.where
            return self
        self.where = str(kwargs.get("path") or f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}")
        self.first = first or [self.where]
        return self

    async def connect(self, where: str | None = None) -> AbstractConnection:
        """A new connection to the given address, or to the server itself; it is the caller's."""
        if self._watched is not None:
            return await self._watched.connect()
        if where is None:
            connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        else:
            host, _, port = where.rpartition(":")
            told = {**self._pool.connection_kwargs, "host": host, "port": int(port)}
            told.pop("path", None)
            connection = self._pool.connection_class(**told)
        await connection.connect()  # type: ignore[no-untyped-call]
        return connection


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise _unreadable() from error


def _unreadable() -> ConfigError:
    """The error for a URL that can't be read. What the driver says of it may be a part of the password."""
    return ConfigError(
        "the URL of Redis can't be read: write redis://user:password@host:6379, and the characters # / ? @ : % of a user or "
        "password as %23 %2F %3F %40 %3A %25"
    )


def _pool(parts: SplitResult, options: dict[str, Any]) -> ConnectionPool:
    """What redis-py makes of a plain URL. Raises ConfigError for what it does not know."""
    try:
        _ = parts.port
    except ValueError as error:
        raise _unreadable() from error
    try:
        pool = ConnectionPool.from_url(parts.geturl(), **options)
        # Only a connection looks at what it is told.
        pool.connection_class(**pool.connection_kwargs)
    except (ValueError, RedisError) as error:
        raise ConfigError(f"the URL of Redis is not usable: {error}") from error
    except (TypeError, AttributeError) as error:
        names = ", ".join(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        message = f"take out of the URL of Redis ({names}) what is no option of Clew or of redis-py: {error}"
        raise ConfigError(message) from error
    return pool


def _watched(parts: SplitResult, options: dict[str, Any]) -> Watched:
    """The server of redis+sentinel://user:password@host:port,host:port/name/db?sentinel_password=…"""
    credentials, at, hosts = parts.netloc.rpartition("@")
    name, _, db = parts.path.strip("/").partition("/")
    if not name or not hosts or (db and not db.isdecimal()):
        raise ConfigError("a Sentinel URL is redis+sentinel://host:port,host:port/name-of-the-master/db")
    query = parse_qsl(parts.query, keep_blank_values=True)
    own = {key.removeprefix("sentinel_"): value for key, value in query if key in _FOR_SENTINELS}
    rest = urlencode([(key, value) for key, value in query if key not in _FOR_SENTINELS])
    pool = _pool(parts._replace(netloc=credentials + at, path=f"/{db}", query=rest), options)
    told = {key: value for key, value in pool.connection_kwargs.items() if key not in _FOR_SERVERS} | own
    sentinels = []
    for each in hosts.split(","):
        host, port = _host_and_port(each, 26379)
        sentinels.append(Endpoint(kind=pool.connection_class, told={**told, "host": host, "port": port}))
    return Watched(name, sentinels, Endpoint(kind=pool.connection_class, told=pool.connection_kwargs))


def _host_and_port(text: str, port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} in the URL of Redis is not host:port (an IPv6 address stands in brackets)")
    return found["six"] or found["name"] or "localhost", int(found["port"] or port)


def connection_options(
    *,
    username: str | None,
    password: str | None,
    db: int | None,
    retries: int,
    dial_timeout: float,
    read_timeout: float,
) -> dict[str, Any]:
    """What redis-py is told for each connection."""
    if db is not None:
        check_whole("db", db, least=0)
    check_whole("retries", retries, least=0)
    check_seconds("dial_timeout", dial_timeout)
    check_seconds("read_timeout", read_timeout)
    options: dict[str, Any] = {
        "socket_connect_timeout": dial_timeout,
        "socket_timeout": read_timeout,
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.02), retries),
        "protocol": 2,
    }
    given = {"username": username, "password": password, "db": db}
    return options | {key: value for key, value in given.items() if value is not None}
