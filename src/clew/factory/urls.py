"""`connect`: what a URL means."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, shown
from clew.factory.classes import InMemoryCheckpointer, PgCheckpointer, RedisCheckpointer, SQLiteCheckpointer
from clew.factory.encrypting import encryption_of_environment
from clew.factory.options import own_query, split_query

DEFAULT_URL: Final = "sqlite:///clew.db"


def connect(url: str | None = None, **options: Any) -> BaseCheckpointer:
    """A checkpointer for `url`: `memory://`, `sqlite:///path.db`, `postgresql://…`, `redis://…` or `rediss://…`.

    Without one: `$CLEW_URL`, else `sqlite:///clew.db`. Options are those of the checkpointer's class; those that are text or
    numbers may also stand in the URL (`sqlite:///agent.db?synchronous=NORMAL`). With `secondary=`, another URL, everything is
    kept in both stores, and the options are those of `DistributedCheckpointer`. Without `encryption`, the keys are those in
    `$CLEW_ENCRYPTION_KEYS`, if it is set; `encryption=None` means that there are none.
    """
    if "encryption" not in options:
        options["encryption"] = encryption_of_environment()
    url = url or os.environ.get("CLEW_URL") or DEFAULT_URL
    if options.get("secondary") is not None:
        # It takes URLs itself, and so comes after this module.
        from clew.factory.distributed import DistributedCheckpointer

        try:
            return DistributedCheckpointer(url, **options)
        except TypeError as error:
            raise ConfigError(str(error)) from error
    options.pop("secondary", None)
    if not isinstance(url, str):
        raise ConfigError(f"connect takes a URL such as {DEFAULT_URL!r}, not {type(url).__name__}")
    scheme, separator, _ = url.partition("://")
    if not separator:
        if "=" in url:
            # libpq's way to write it may have a password in it.
            raise ConfigError("this is not a URL; of 'host=db dbname=app user=agent' make postgresql://agent@db/app")
        raise ConfigError(f"{shown(url)} is not a URL; for a file write sqlite:///{url[:60]}")
    opener = _SCHEMES.get(scheme.lower())
    if opener is None:
        raise ConfigError(f"no storage is called {shown(scheme)}; there are {', '.join(sorted(_SCHEMES))}")
    try:
        urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"the {scheme} URL can't be read: {error}") from error
    try:
        return opener(url, options)
    except TypeError as error:
        raise ConfigError(f"{_public(url)}: {error}") from error


def _public(url: str) -> str:
    """What may be shown of `url`: not who logs in, nor with what."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _memory(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    return InMemoryCheckpointer(**own_query(url), **options)


def _sqlite(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    # sqlite:///relative.db and sqlite:////absolute.db, as SQLAlchemy writes them.
    parts = urlsplit(url)
    if "#" in url:
        raise ConfigError(f"{_public(url)!r} has a '#', which would end the name of the file: write %23")
    path = unquote(parts.path[1:])
    if "\0" in path:
        raise ConfigError(f"{shown(url)} has a NUL character (%00) in the name of the file")
    if parts.netloc or not path or path == ":memory:":
        raise ConfigError(
            f"{_public(url)!r} names no file: write sqlite:///relative.db or sqlite:////absolute/path.db; for memory, memory://"
        )
    return SQLiteCheckpointer(path, **own_query(url), **options)


def _postgres(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    dsn, own = split_query(url)
    return PgCheckpointer(dsn, **own, **options)


def _redis(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    address, own = split_query(url)
    return RedisCheckpointer(address, **own, **options)


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
