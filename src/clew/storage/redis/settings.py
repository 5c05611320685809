"""Where Redis is and how to talk to it: what a URL and the options of `RedisStorage` mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import ExponentialBackoff

from clew.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections to a server, and how long to wait for it."""

    pool_size: int
    min_idle: int
    health_check: float
    read_timeout: float
    write_timeout: float


class Address:
    """Where Redis is: makes the pools that make connections."""

    def __init__(self, url: str, options: dict[str, Any], *, cluster: bool | None) -> None:
        parts = urlsplit(url)
        scheme, _, kind = parts.scheme.partition("+")
        if scheme not in ("redis", "rediss", "unix") or kind not in ("", "cluster", "sentinel"):
            raise ConfigError(
                f"{parts.scheme}:// is not a scheme for Redis: use redis://, rediss:// (TLS), redis+cluster://, "
                "redis+sentinel:// or unix://"
            )
        self._options = options
        self._sentinel: Sentinel | None = None
        self.cluster = True if kind == "cluster" else cluster
        """Whether it is a cluster; `None` if that has to be asked."""
        hosts = parts.netloc.rpartition("@")[2]
        if kind == "sentinel":
            self.cluster = False
            self._pool: ConnectionPool = self._watched(scheme, parts.netloc, parts.path)
            self.where = f"sentinel {hosts}{parts.path}"
            return
        first, *others = hosts.split(",")
        if others and not self.cluster:
            raise ConfigError("several hosts in a URL are the first nodes of a cluster: use redis+cluster:// for them")
        credentials, at, _ = parts.netloc.rpartition("@")
        plain = parts._replace(scheme=scheme, netloc=credentials + at + first).geturl()
        try:
            self._pool = ConnectionPool.from_url(plain, **options)
        except ValueError as error:
            raise ConfigError(f"the URL of Redis is not usable: {error}") from error
        self.where = hosts or parts.path
        self.first = [_with_port(host) for host in (first, *others)]

    @classmethod
    def of_pool(cls, pool: ConnectionPool, *, cluster: bool | None, first: list[str] | None = None) -> Address:
        """The address that an existing client has."""
        self = cls.__new__(cls)
        kwargs = pool.connection_kwargs
        self._options, self._pool, self._sentinel, self.cluster = kwargs, pool, None, cluster
        self.where = str(kwargs.get("path") or f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}")
        self.first = first or [self.where]
        return self

    def _watched(self, scheme: str, netloc: str, path: str) -> SentinelConnectionPool:
        """The pool of the server that Sentinel names: redis+sentinel://user:password@host:port,host:port/name/db."""
        credentials, _, hosts = netloc.rpartition("@")
        user, _, password = credentials.partition(":")
        name, _, db = path.strip("/").partition("/")
        if not name or not hosts or (db and not db.isdecimal()):
            raise ConfigError("a Sentinel URL is redis+sentinel://host:port,host:port/name-of-the-master/db")
        sentinels = [
            (host, int(port)) for host, _, port in (_with_port(h, 26379).rpartition(":") for h in hosts.split(","))
        ]
        given = {"username": unquote(user) or None, "password": unquote(password) or None, "db": int(db or 0)}
        options = {**{key: value for key, value in given.items() if value}, **self._options}
        timeouts = {key: value for key, value in options.items() if key.startswith("socket_")}
        self._sentinel = Sentinel(sentinels, sentinel_kwargs=timeouts)  # type: ignore[no-untyped-call]
        return SentinelConnectionPool(  # type: ignore[no-untyped-call]
            name, self._sentinel, ssl=scheme == "rediss", **options
        )

    def pool(self, where: str | None = None) -> ConnectionPool:
        """A pool for the given address, or for the server itself. It only makes connections; it keeps none."""
        if where is None:
            return self._pool
        host, _, port = where.rpartition(":")
        kwargs = {**self._pool.connection_kwargs, "host": host, "port": int(port)}
        kwargs.pop("path", None)
        return ConnectionPool(connection_class=self._pool.connection_class, **kwargs)

    async def close(self) -> None:
        """Let go of what looks for the master."""
        if self._sentinel is not None:
            for client in self._sentinel.sentinels:
                await client.aclose()


def _with_port(host: str, port: int = 6379) -> str:
    return host if host.rpartition(":")[2].isdecimal() and host.rpartition(":")[0] else f"{host or 'localhost'}:{port}"


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
    options: dict[str, Any] = {
        "socket_connect_timeout": dial_timeout,
        "socket_timeout": read_timeout,
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.02), retries),
        "protocol": 2,
    }
    given = {"username": username, "password": password, "db": db}
    return options | {key: value for key, value in given.items() if value is not None}
