"""What a pool is made of: `pool_config` and the DSN, checked before a server is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import asyncpg

from clew.errors import ConfigError, shown
from clew.storage.postgres.failures import DRIVER_ERRORS, SETTING_ERRORS, connection_error

ACQUIRE_TIMEOUT = 30.0
"""Seconds that a call waits for a connection while all are taken, unless `pool_config` says otherwise."""
CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
"""Seconds that a statement may take, unless `pool_config` says otherwise: a connection that went silent never says so."""

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
    "leave it out: tcp_keepalives_idle and the like make the server do it, and command_timeout in pool_config ends "
    "what is not answered"
)
_LIBPQS: dict[str, tuple[tuple[str, ...], str]] = {
    "channel_binding": (("disable", "prefer"), "leave it out; sslmode=verify-full makes sure of the server"),
    "fallback_application_name": ((), "write application_name"),
    "gssencmode": (("disable", "prefer"), "leave it out, and encrypt with sslmode"),
    "hostaddr": ((), "write host"),
    "keepalives": ((), _KEEPALIVES),
    "keepalives_count": ((), _KEEPALIVES),
    "keepalives_idle": ((), _KEEPALIVES),
    "keepalives_interval": ((), _KEEPALIVES),
    "load_balance_hosts": (("disable",), "leave it out; hosts are tried in their order"),
    "require_auth": ((), "leave it out"),
    "requirepeer": ((), "leave it out"),
    "sslcertmode": (("allow",), "leave it out"),
    "sslcompression": (("0",), "leave it out"),
    "sslsni": (("1",), "leave it out"),
}
"""Parameters of libpq that asyncpg would send to the server: what of them it does anyway, and what to do about the rest."""


class PoolSettings:
    """What a pool is made of: `dsn` and `pool_config`, which goes to asyncpg but for `acquire_timeout`."""

    def __init__(
        self, dsn: str | None, pool_config: Mapping[str, Any] | None, statement_cache_size: int | None
    ) -> None:
        given = dict(pool_config or {})
        unknown = [name for name in given if name not in _KNOWN]
        if unknown:
            raise ConfigError(
                f"pool_config has no setting {shown(unknown[0])}; there are acquire_timeout and those of asyncpg.create_pool"
            )
        if statement_cache_size is not None:
            given["statement_cache_size"] = statement_cache_size
        said: dict[str, Any] = {}
        if dsn:
            dsn, said = read_dsn(dsn)
        self._dsn = dsn
        options = {**_DEFAULTS, **said, **given}
        _check(options)
        self.acquire_timeout = float(options.pop("acquire_timeout"))
        self._options = options

    async def open(self) -> asyncpg.Pool:
        """A pool on the running loop."""
        try:
            # Nothing of ours outlives its statement, so connections need no resetting, which would be a round trip each.
            return await asyncpg.create_pool(self._dsn, **{"reset": _nothing, **self._options})
        except (*SETTING_ERRORS, *DRIVER_ERRORS) as error:
            raise connection_error(error) from error


async def _nothing(_: Any) -> None:
    """Leave the connection as it is."""


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
    """`dsn` as asyncpg understands it, and the settings in it that it takes otherwise.

    Raises ConfigError for what can't be: no message has the DSN in it, which may have a password.
    """
    if not isinstance(dsn, str):
        raise ConfigError(f"the DSN of PostgreSQL must be text, not {type(dsn).__name__}")
    try:
        parts = urlsplit(dsn)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError as error:
        raise ConfigError(f"the DSN of PostgreSQL is no URL: {error}") from error
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigError(
            "the DSN of PostgreSQL must be a URL: of host=db dbname=app user=agent make postgresql://agent@db/app"
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
                f"{name} in the DSN names no file: {shown(value)}; give a path, or an SSLContext as pool_config['ssl']"
            )
        elif name in _LIBPQS:
            harmless, advice = _LIBPQS[name]
            if value not in harmless:
                raise ConfigError(f"the driver, asyncpg, can't do {name}={value:.60} of the DSN: {advice}")
            dropped.add(name)
    # What stays is left as it is written.
    kept = [each for each in parts.query.split("&") if unquote_plus(each.partition("=")[0]) not in dropped]
    return (parts._replace(query="&".join(kept)).geturl() if dropped else dsn), settings


def _connect_timeout(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError as error:
        raise ConfigError(f"connect_timeout in the DSN must be a number of seconds; got {shown(value)}") from error
    # libpq's 0 is: without limit.
    return seconds or None


def _check_hosts(netloc: str) -> None:
    if netloc.count("@") > 1:
        raise ConfigError("the DSN has more than one @: write those of the user and the password as %40")
    for host in netloc.rpartition("@")[2].split(","):
        _check_port(host.rpartition("]")[2].partition(":")[2])


def _check_port(port: str) -> None:
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        # Without the text: it may be part of a password.
        raise ConfigError(
            "a port in the DSN is not a number from 1 to 65535 (in a password, write / as %2F, # as %23 and ? as %3F)"
        )


def usable_here(pool: asyncpg.Pool) -> asyncpg.Pool:
    """`pool`, which was brought, if it is open and of the running loop. Raises ConfigError otherwise."""
    if pool.is_closing():
        raise ConfigError("the pool is closed; give one that is open")
    # asyncpg keeps this to itself, and fails in many ways on another loop. A pool that has none is taken at its word.
    home = getattr(pool, "_loop", None)
    if home is not None and home is not asyncio.get_running_loop():
        raise ConfigError(
            "the pool belongs to the event loop that it was made in, and this call runs on another one, as sync methods, saves "
            "in the background and cleanups by themselves do: give the DSN instead, and Clew opens a pool for each loop"
        )
    return pool
