"""`connect`: what a URL means."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError
from clew.factory.classes import InMemoryCheckpointer, PgCheckpointer, RedisCheckpointer, SQLiteCheckpointer

DEFAULT_URL: Final = "sqlite:///clew.db"


def connect(url: str | None = None, **options: Any) -> BaseCheckpointer:
    """A checkpointer for `url`: `memory://`, `sqlite:///path.db`, `postgresql://…`, `redis://…` or `rediss://…`.

    Without one: `$CLEW_URL`, else `sqlite:///clew.db`. Options are those of the checkpointer's class; those that are text or
    numbers may also stand in the URL (`sqlite:///agent.db?synchronous=NORMAL`).
    """
    url = url or os.environ.get("CLEW_URL") or DEFAULT_URL
    if not isinstance(url, str):
        raise ConfigError(f"connect takes a URL such as {DEFAULT_URL!r}, not {type(url).__name__}")
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"{url!r} is not a URL; for a file write sqlite:///{url}")
    opener = _SCHEMES.get(scheme.lower())
    if opener is None:
        raise ConfigError(f"no storage is called {scheme!r}; there are {', '.join(sorted(_SCHEMES))}")
    try:
        return opener(url, options)
    except TypeError as error:
        raise ConfigError(f"{url.partition('?')[0]!r}: {error}") from error


def _memory(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    return InMemoryCheckpointer(**_own_query(url), **options)


def _sqlite(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    # sqlite:///relative.db and sqlite:////absolute.db, as SQLAlchemy writes them.
    parts = urlsplit(url)
    path = unquote(parts.path[1:])
    if parts.netloc or not path or path == ":memory:":
        raise ConfigError(
            f"{url!r} names no file: write sqlite:///relative.db or sqlite:////absolute/path.db (and memory:// for memory)"
        )
    return SQLiteCheckpointer(path, **_own_query(url), **options)


def _postgres(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    dsn, own = _split_query(url)
    return PgCheckpointer(dsn, **own, **options)


def _redis(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    address, own = _split_query(url)
    return RedisCheckpointer(address, **own, **options)


def _own_query(url: str) -> dict[str, Any]:
    """The options in the URL of a storage whose driver takes none."""
    rest, own = _split_query(url)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} can't stand in a URL; those that can are {', '.join(URL_OPTIONS)}")
    return own


def _split_query(url: str) -> tuple[str, dict[str, Any]]:
    """`url` with what is the driver's (sslmode, target_session_attrs, …), and the options in it that are Clew's."""
    own: dict[str, Any] = {}
    drivers: list[tuple[str, str]] = []
    parts = urlsplit(url)
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        convert = URL_OPTIONS.get(name)
        if convert is None:
            drivers.append((name, text))
            continue
        try:
            own[name] = convert(text)
        except ValueError as error:
            raise ConfigError(f"{name}={text!r} in the URL is not a number") from error
    return (parts._replace(query=urlencode(drivers)).geturl() if own else url), own


URL_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "synchronous": str.upper,
    "busy_timeout": float,
    "schema": str,
    "user_id_type": str,
    "statement_cache_size": int,
    "prefix": str,
    "ttl": float,
    "pool_size": int,
    "min_idle": int,
    "health_check_interval": float,
    "retries": int,
    "dial_timeout": float,
    "read_timeout": float,
    "write_timeout": float,
    "lock_timeout": float,
    "lock_expiry": float,
    "cache_ttl": float,
    "max_cached_threads": int,
    "max_index_bytes": int,
    "max_state_bytes": int,
    "retry_for": float,
    "cleanup_interval": float,
    "durability": str,
    "max_background": int,
    "max_background_bytes": int,
}
"""Options that may stand in a URL, and how they are read there."""
_SCHEMES: Final[dict[str, Callable[[str, dict[str, Any]], BaseCheckpointer]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "redis": _redis,
    "rediss": _redis,
    "redis+cluster": _redis,
    "rediss+cluster": _redis,
    "redis+sentinel": _redis,
    "rediss+sentinel": _redis,
    "unix": _redis,
}
