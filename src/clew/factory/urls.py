"""`connect`: from a URL to a checkpointer."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar, Unpack, overload
from urllib.parse import unquote, urlsplit

from clew.checkpointer.base import BaseCheckpointer, Checkpointer
from clew.errors import ConfigError, shown
from clew.factory.classes import InMemoryCheckpointer, PgCheckpointer, RedisCheckpointer, SQLiteCheckpointer
from clew.factory.encryption import encryption_of_environment
from clew.factory.option_types import ConnectOptions
from clew.factory.options import check_options, own_query, split, split_query

DEFAULT_URL: Final = "sqlite:///clew.db"


_T = TypeVar("_T")


@overload
def connect(url: str | None = None, *, state_type: type[_T], **options: Unpack[ConnectOptions]) -> Checkpointer[_T]: ...
@overload
def connect(
    url: str | None = None, *, state_type: None = None, **options: Unpack[ConnectOptions]
) -> Checkpointer[Any]: ...
def connect(url: str | None = None, **options: Any) -> Checkpointer[Any]:
    """Return a checkpointer for `url`: `memory://`, `sqlite:///path.db`, `postgresql://…`,
    `redis://…` or `rediss://…`.

    The default is `$CLEW_URL`, or else `sqlite:///clew.db`. Options are those of the checkpointer's
    class; text, numbers and flags may also be given in the URL (`sqlite:///agent.db?synchronous=NORMAL`).
    With `secondary=`, another URL, everything is kept in both stores, and the options are those of
    `DistributedCheckpointer`. With `state_type=Trip`, it is a `Checkpointer[Trip]`, and states are loaded as
    `Trip`s. `encryption` defaults to the keys in `$CLEW_ENCRYPTION_KEYS`, if it
    is set; `encryption=None` means no encryption.
    """
    if "encryption" not in options:
        options["encryption"] = encryption_of_environment()
    url = url or os.environ.get("CLEW_URL") or DEFAULT_URL
    if options.get("secondary") is not None:
        # Imported late: that module imports this one.
        from clew.factory.distributed import DistributedCheckpointer

        given = {name: value for name, value in options.items() if name != "secondary"}
        check_options(given, DistributedCheckpointer, "connect with a secondary")
        return DistributedCheckpointer(url, **options)
    options.pop("secondary", None)
    if not isinstance(url, str):
        raise ConfigError(f"connect takes a URL such as {DEFAULT_URL!r}, not {type(url).__name__}")
    scheme, separator, _ = url.partition("://")
    if not separator:
        if url.partition(":")[0].lower() in (*_SCHEMES, "file"):
            raise _not_a_url(url)
        if "=" in url:
            # Not shown, because a libpq connection string may contain a password.
            raise ConfigError(
                "this is not a URL; instead of 'host=db dbname=app user=agent', write postgresql://agent@db/app"
            )
        raise _not_a_url(url)
    opener = _SCHEMES.get(scheme.lower())
    if opener is None:
        if scheme.lower() == "file":
            raise _not_a_url(url)
        base, plus, _ = scheme.lower().partition("+")
        if plus and base in ("postgresql", "postgres", "sqlite"):
            # SQLAlchemy's URLs name a driver.
            raise ConfigError(f"Clew chooses the driver itself: instead of {shown(scheme + '://')} write {base}://")
        raise ConfigError(f"unknown URL scheme {shown(scheme)}; use one of {', '.join(sorted(_SCHEMES))}")
    split(url)
    try:
        return opener(url, options)
    except TypeError as error:
        raise ConfigError(f"{_public(url)}: {error}") from error


def _not_a_url(url: str) -> ConfigError:
    """The error for a text that is no URL of Clew's, with the one that was probably meant. It shows no password."""
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if url == ":memory:" or (scheme == "memory" and "@" not in url):
        return ConfigError(f"{shown(url)} is not a URL; for a store in memory write memory://")
    if colon and scheme in _SCHEMES and scheme != "sqlite":
        where = rest.lstrip("/").rpartition("@")[2]
        return ConfigError(f"the URL needs two slashes after {scheme}: write {scheme}://{where[:60]}")
    if "@" in url:
        return ConfigError(
            "this is not a URL; for a server write redis://… or postgresql://…, and for a file sqlite:///path.db"
        )
    if rest.isdecimal():
        return ConfigError(
            f"{shown(url)} is not a URL; for a server write redis://{url[:60]} or postgresql://{url[:60]}/database"
        )
    path = url
    if scheme == "sqlite":
        path = rest
    elif scheme == "file":
        path = rest.partition("?")[0]
        path = f"/{path.lstrip('/')}" if path.startswith("/") else path
    return ConfigError(f"{shown(url)} is not a URL; for a file write sqlite:///{path[:60]}")


def _public(url: str) -> str:
    """`url` without credentials and parameters, for messages."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _memory(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    return _made(InMemoryCheckpointer, url, (), own_query(url, InMemoryCheckpointer), options)


def _sqlite(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    # sqlite:///relative.db and sqlite:////absolute.db, as in SQLAlchemy.
    parts = urlsplit(url)
    if "#" in url:
        raise ConfigError(f"{_public(url)!r} has a '#', which would end the file name: write %23")
    path = unquote(parts.path[1:])
    if "\0" in path:
        raise ConfigError(f"{shown(url)} has a NUL character (%00) in the file name")
    if path == ":memory:" or parts.netloc == ":memory:":
        raise ConfigError(f"{_public(url)!r} names no file: to keep everything in memory, use memory://")
    if parts.netloc or not path:
        raise ConfigError(
            f"{_public(url)!r} names no file: write sqlite:///relative.db or sqlite:////absolute/path.db; for memory, memory://"
        )
    return _made(SQLiteCheckpointer, url, (path,), own_query(url, SQLiteCheckpointer), options)


def _postgres(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    dsn, own = split_query(url)
    return _made(PgCheckpointer, url, (dsn,), own, options)


def _redis(url: str, options: dict[str, Any]) -> BaseCheckpointer:
    address, own = split_query(url)
    return _made(RedisCheckpointer, url, (address,), own, options)


def _made(
    cls: Callable[..., BaseCheckpointer], url: str, args: tuple[str, ...], own: dict[str, Any], options: dict[str, Any]
) -> BaseCheckpointer:
    """Return a checkpointer with the options in the URL and the caller's. Raises ConfigError for unknown ones."""
    check_options({**own, **options}, cls, _public(url))
    if twice := sorted(own.keys() & options.keys()):
        raise ConfigError(
            f"{_public(url)}: the option {twice[0]!r} is given in the URL and as an argument; give it once"
        )
    return cls(*args, **own, **options)


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
