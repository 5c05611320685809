"""From a URL or settings to a checkpointer. The only module that knows every part."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError
from clew.storage.memory import MemoryStorage
from clew.storage.sqlite import SQLiteStorage
from clew.storage.sqlite.connections import Synchronous

DEFAULT_URL: Final = "sqlite:///clew.db"


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


def connect(url: str | None = None, **options: Any) -> BaseCheckpointer:
    """A checkpointer for `url`: `memory://` or `sqlite:///path.db`. Without one: `$CLEW_URL`, else `sqlite:///clew.db`.

    Options are those of the checkpointer's class; those that are text or numbers may also stand in the URL
    (`sqlite:///agent.db?synchronous=NORMAL`).
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
    return InMemoryCheckpointer(**_from_query(url), **options)


def _sqlite(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    # sqlite:///relative.db and sqlite:////absolute.db, as SQLAlchemy writes them.
    parts = urlsplit(url)
    path = unquote(parts.path[1:])
    if parts.netloc or not path or path == ":memory:":
        raise ConfigError(
            f"{url!r} names no file: write sqlite:///relative.db or sqlite:////absolute/path.db (and memory:// for memory)"
        )
    return SQLiteCheckpointer(path, **_from_query(url), **options)


def _from_query(url: str) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for name, text in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        convert = _QUERY_OPTIONS.get(name)
        if convert is None:
            raise ConfigError(f"{name!r} can't stand in a URL; those that can are {', '.join(_QUERY_OPTIONS)}")
        try:
            converted[name] = convert(text)
        except ValueError as error:
            raise ConfigError(f"{name}={text!r} in the URL is not a number") from error
    return converted


_QUERY_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "synchronous": str.upper,
    "busy_timeout": float,
    "cache_ttl": float,
    "max_cached_threads": int,
    "max_index_bytes": int,
    "max_state_bytes": int,
}
_SCHEMES: Final[dict[str, Callable[[str, dict[str, Any]], BaseCheckpointer]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
}
