"""URL options and their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from clew.errors import ConfigError

STORE_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
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
}
CHECKPOINTER_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "cache": str,
    "cache_ttl": float,
    "cache_timeout": float,
    "max_cached_threads": int,
    "max_index_bytes": int,
    "max_state_bytes": int,
    "retry_for": float,
    "cleanup_interval": float,
    "durability": str,
    "max_background": int,
    "max_background_bytes": int,
}
URL_OPTIONS: Final = {**STORE_OPTIONS, **CHECKPOINTER_OPTIONS}
"""All options that a URL may contain, with a converter for each."""


def split_query(url: str) -> tuple[str, dict[str, Any]]:
    """Split `url` into a URL with the driver's parameters (sslmode, target_session_attrs, …) and
    Clew's options."""
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


def own_query(url: str) -> dict[str, Any]:
    """The options in the URL of a storage whose driver takes no parameters."""
    rest, own = split_query(url)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]!r} in the URL; it takes {', '.join(URL_OPTIONS)}")
    return own
