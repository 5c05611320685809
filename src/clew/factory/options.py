"""Options of checkpointers: their names, and those that a URL may contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, nearest, shown


class NotAFlagError(ValueError):
    """The text is not "true" or "false"."""


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise NotAFlagError
    return text.lower() == "true"


STORE_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "synchronous": str.upper,
    "busy_timeout": float,
    "schema": str,
    "user_id_type": str,
    "enforce_user_isolation": _flag,
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
    "lock": _flag,
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
    "require_user": _flag,
    "cleanup_interval": float,
    "durability": str,
    "max_background": int,
    "max_background_bytes": int,
    "telemetry": _flag,
}
URL_OPTIONS: Final = {**STORE_OPTIONS, **CHECKPOINTER_OPTIONS}
"""All options that a URL may contain, with a converter for each."""


def option_names(method: Callable[..., Any]) -> list[str]:
    """The options of a class or a method that makes a checkpointer, those of all checkpointers included."""
    return list(dict.fromkeys((*_keywords(method), *_keywords(BaseCheckpointer))))


@cache
def _keywords(method: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name, each in signature(method).parameters.items() if each.kind is Parameter.KEYWORD_ONLY)


def check_options(options: Mapping[str, Any], maker: Callable[..., Any], label: str | None = None) -> None:
    """Raise ConfigError if one of `options` is not an option of `maker`; `label` names that in the message."""
    known = option_names(maker)
    for name in options:
        if name not in known:
            raise unknown_option(name, known, label or maker.__qualname__)


def unknown_option(name: str, known: Iterable[str], label: str) -> ConfigError:
    """The error for an option that nothing reads, with the nearest known name."""
    known = list(known)
    near = nearest(name, known)
    meant = f"did you mean {near!r}? " if near else ""
    return ConfigError(f"unknown option {shown(name)}; {meant}{label} takes {', '.join(known)}")


def split(url: str) -> SplitResult:
    """Return the parts of a URL. Raises ConfigError if it can't be read."""
    try:
        return urlsplit(url)
    except ValueError:
        # Not as the cause: its message may have the password.
        raise ConfigError(f"the {url.partition('://')[0]} URL can't be read: its host is invalid") from None


def split_query(url: str) -> tuple[str, dict[str, Any]]:
    """Split `url` into a URL with the driver's parameters (sslmode, target_session_attrs, …) and
    Clew's options."""
    own: dict[str, Any] = {}
    drivers: list[tuple[str, str]] = []
    parts = split(url)
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        convert = URL_OPTIONS.get(name)
        if convert is None:
            drivers.append((name, text))
            continue
        try:
            own[name] = convert(text)
        except NotAFlagError as error:
            raise ConfigError(f"{name} in the URL must be true or false, not {text!r}") from error
        except ValueError as error:
            raise ConfigError(f"{name}={text!r} in the URL is not a number") from error
    return (parts._replace(query=urlencode(drivers)).geturl() if own else url), own


def own_query(url: str, maker: Callable[..., Any] | None = None) -> dict[str, Any]:
    """The options in the URL of a storage whose driver takes no parameters; `maker` makes the storage's checkpointer."""
    rest, own = split_query(url)
    unknown = [name for name, _ in parse_qsl(urlsplit(rest).query, keep_blank_values=True)]
    if unknown:
        known = [name for name in URL_OPTIONS if maker is None or name in option_names(maker)]
        raise unknown_option(unknown[0], known, "the URL")
    return own


def check_database(url: str) -> None:
    """Raise ConfigError if the path of a URL of Redis is not the number of a database. Its driver ignores others."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower().removesuffix("+cluster") not in ("redis", "rediss"):
        return
    path = re.split(r"[?#]", rest)[0].rpartition("@")[2].partition("/")[2]
    if re.fullmatch(r"\d*/?", path, re.ASCII) is None:
        # Not shown: an unescaped password may be part of it.
        raise ConfigError("the path of a Redis URL is the number of a database, as in redis://localhost:6379/0")
