"""Pool settings: `pool_config` and the DSN, validated before any connection is opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import asyncpg

from clew.errors import ConfigError, shown
from clew.storage.postgres.failures import DRIVER_ERRORS, SETTING_ERRORS, connection_error

ACQUIRE_TIMEOUT = 30.0
"""Default for the seconds that a call waits for a free connection."""
CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
"""Default for the seconds that a statement may take, or a silent connection would hang forever."""

_FIRST_OWN_OID = 10_000
"""PostgreSQL's own types have OIDs below this, the same in every version."""

_DEFAULTS: dict[str, Any] = {
    "min_size": 0,
    "max_size": 10,
    "timeout": CONNECT_TIMEOUT,
    "command_timeout": COMMAND_TIMEOUT,
    "acquire_timeout": ACQUIRE_TIMEOUT,
}
_KNOWN = {*_DEFAULTS, *signature(asyncpg.create_pool).parameters, *signature(asyncpg.connect).parameters}
_KNOWN -= {"dsn", "connect_kwargs"}
_LEAST_COUNTS = {"min_size": 0, "max_size": 1, "max_queries": 1, "statement_cache_size": 0}
_SECONDS = ("timeout", "command_timeout")

_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "target_session_attrs": ("any", "primary", "standby", "read-write", "read-only", "prefer-standby"),
}
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_KEEPALIVES = (
    "leave it out: the server does it with tcp_keepalives_idle and the like, and command_timeout in pool_config limits "
    "how long a statement waits"
)
_LIBPQS: dict[str, tuple[tuple[str, ...], str]] = {
    "channel_binding": (("disable", "prefer"), "leave it out; sslmode=verify-full authenticates the server"),
    "fallback_application_name": ((), "write application_name"),
    "gssencmode": (("disable", "prefer"), "leave it out, and encrypt with sslmode"),
    "hostaddr": ((), "write host"),
    "keepalives": ((), _KEEPALIVES),
    "keepalives_count": ((), _KEEPALIVES),
    "keepalives_idle": ((), _KEEPALIVES),
    "keepalives_interval": ((), _KEEPALIVES),
    "load_balance_hosts": (("disable",), "leave it out; hosts are tried in order"),
    "require_auth": ((), "leave it out"),
    "requirepeer": ((), "leave it out"),
    "sslcertmode": (("allow",), "leave it out"),
    "sslcompression": (("0",), "leave it out"),
    "sslsni": (("1",), "leave it out"),
}
"""libpq parameters that asyncpg does not know: harmless values, and advice for the others."""


class PoolSettings:
    """The settings of a pool. `pool_config` is passed to asyncpg, except for `acquire_timeout`."""

    def __init__(
        self, dsn: str | None, pool_config: Mapping[str, Any] | None, statement_cache_size: int | None
    ) -> None:
        if not isinstance(pool_config, (Mapping, type(None))):
            raise ConfigError(f"pool_config must be a mapping of settings, not {type(pool_config).__name__}")
        given = dict(pool_config or {})
        unknown = [name for name in given if name not in _KNOWN]
        if unknown:
            raise ConfigError(
                f"unknown setting {shown(unknown[0])} in pool_config; it takes acquire_timeout and those of asyncpg.create_pool"
            )
        if statement_cache_size is not None:
            given["statement_cache_size"] = statement_cache_size
        from_dsn: dict[str, Any] = {}
        if dsn:
            dsn, from_dsn = read_dsn(dsn)
        self._dsn = dsn
        options = {**_DEFAULTS, **from_dsn, **given}
        _check(options)
        self.acquire_timeout = float(options.pop("acquire_timeout"))
        self._options = options
        self.where = server_of(dsn, options)

    async def open(self) -> asyncpg.Pool:
        """Open a pool on the running loop."""
        try:
            # Clew leaves no session state behind, so a reset would be a wasted round trip.
            own = {"reset": _no_reset, "connection_class": _Connection}
            return await asyncpg.create_pool(self._dsn, **{**own, **self._options})
        except (*SETTING_ERRORS, *DRIVER_ERRORS) as error:
            raise connection_error(error, self.where) from error


def server_of(dsn: str | None, settings: Mapping[str, Any]) -> str:
    """Return `host:port` of the server, or of several, for messages. It contains no credentials."""
    parts = urlsplit(dsn or "")
    query = dict(parse_qsl(parts.query))
    hosts: Any = settings.get("host") or query.get("host") or parts.netloc.rpartition("@")[2]
    hosts = hosts or os.environ.get("PGHOST") or "localhost"
    port = settings.get("port") or query.get("port") or os.environ.get("PGPORT") or 5432
    each = hosts.split(",") if isinstance(hosts, str) else map(str, hosts)
    return ",".join(host if _has_port(host) else f"{host}:{port}" for host in map(unquote_plus, each))


def server_of_pool(pool: asyncpg.Pool) -> str:
    """Return `host:port` of the caller's pool, whose attributes for that are private."""
    given = getattr(pool, "_connect_kwargs", {})
    told = (given.get("dsn"), *getattr(pool, "_connect_args", ()))
    return server_of(next((each for each in told if isinstance(each, str)), None), given)


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2] if host.startswith("[") else ":" in host


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that knows PostgreSQL's own types from earlier connections.

    asyncpg asks every connection for the array types that its first statement has, which takes longer than the
    statement. The OIDs of PostgreSQL's own types are the same on every server.
    """

    _known: ClassVar[dict[frozenset[int], Any]] = {}

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        wanted = frozenset(typeoids)
        if max(wanted) >= _FIRST_OWN_OID:
            return await super()._introspect_types(typeoids, timeout)
        if wanted not in self._known:
            self._known[wanted] = await super()._introspect_types(typeoids, timeout)
        return self._known[wanted]


async def _no_reset(_: Any) -> None:
    """Leave the connection unchanged."""


def _check(options: Mapping[str, Any]) -> None:
    for name, least in _LEAST_COUNTS.items():
        value = options.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} must be a whole number, {least} or more; got {shown(value)}")
    for name in ("acquire_timeout", *_SECONDS):
        value = options[name]
        if value is None and name in _SECONDS:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ConfigError(f"pool_config[{name!r}] must be a number of seconds, more than 0; got {shown(value)}")


def read_dsn(dsn: str) -> tuple[str, dict[str, Any]]:
    """Return `dsn` as asyncpg understands it, and its settings that are arguments of asyncpg.

    Raises ConfigError for invalid settings. No message contains the DSN, which may have a password.
    """
    if not isinstance(dsn, str):
        raise ConfigError(f"the PostgreSQL DSN must be a string, not {type(dsn).__name__}")
    try:
        parts = urlsplit(dsn)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError as error:
        raise ConfigError(f"the PostgreSQL DSN is not a valid URL: {error}") from error
    base, plus, _ = parts.scheme.partition("+")
    if plus and base in ("postgresql", "postgres"):
        raise ConfigError(f"Clew uses asyncpg: instead of {parts.scheme}:// write {base}://")
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigError(
            "the PostgreSQL DSN must be a URL: instead of host=db dbname=app user=agent, write postgresql://agent@db/app"
        )
    _check_hosts(parts.netloc)
    settings: dict[str, Any] = {}
    dropped = set()
    for name, value in query:
        if name == "port":
            for port in value.split(","):
                _check_port(port)
        elif name == "connect_timeout":
            dropped.add(name)
            settings["timeout"] = _connect_timeout(value)
        elif name in _CHOICES and value not in _CHOICES[name]:
            raise ConfigError(f"{name} in the DSN must be one of {', '.join(_CHOICES[name])}; got {shown(value)}")
        elif name in _FILES and value and not Path(value).is_file():
            raise ConfigError(
                f"{name} in the DSN is not the path of a file: {shown(value)}; fix it, or pass an SSLContext "
                f"as pool_config['ssl']"
            )
        elif name in _LIBPQS:
            harmless, advice = _LIBPQS[name]
            if value not in harmless:
                raise ConfigError(f"asyncpg does not support {name}={value:.60} in the DSN: {advice}")
            dropped.add(name)
    # The other parameters keep their exact spelling.
    kept = [each for each in parts.query.split("&") if unquote_plus(each.partition("=")[0]) not in dropped]
    return (parts._replace(query="&".join(kept)).geturl() if dropped else dsn), settings


def _connect_timeout(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError as error:
        raise ConfigError(f"connect_timeout in the DSN must be a number of seconds; got {shown(value)}") from error
    # In libpq, 0 means no limit.
    return seconds or None


def _check_hosts(netloc: str) -> None:
    if netloc.count("@") > 1:
        raise ConfigError("the DSN has more than one @: write those in the user name and the password as %40")
    for host in netloc.rpartition("@")[2].split(","):
        _check_port(host.rpartition("]")[2].partition(":")[2])


def _check_port(port: str) -> None:
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        # The message does not quote the text, which may be part of a password.
        raise ConfigError(
            "a port in the DSN is not a number from 1 to 65535 (in a password, write / as %2F, # as %23 and ? as %3F)"
        )


def usable_here(pool: asyncpg.Pool) -> asyncpg.Pool:
    """Return the caller's `pool`. Raises ConfigError if it is closed or belongs to another loop."""
    if pool.is_closing():
        raise ConfigError("the pool is closed; pass an open one")
    # A private attribute, but asyncpg fails in obscure ways on another loop.
    home = getattr(pool, "_loop", None)
    if home is not None and home is not asyncio.get_running_loop():
        raise ConfigError(
            "the pool belongs to the event loop that created it, but this call runs on another one, as do sync methods, "
            "background saves and automatic cleanup: pass the DSN instead, and Clew opens a pool for each loop"
        )
    return pool
