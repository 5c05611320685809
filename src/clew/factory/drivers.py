"""Storages whose drivers are optional dependencies, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import MissingExtraError

if TYPE_CHECKING:
    from clew.storage.postgres import PgStorage
    from clew.storage.redis import RedisStorage


def pg_storage() -> type[PgStorage]:
    try:
        from clew.storage.postgres import PgStorage
    except ModuleNotFoundError as error:
        raise _missing("PostgreSQL", "postgres", error) from error
    return PgStorage


def redis_storage() -> type[RedisStorage]:
    try:
        from clew.storage.redis import RedisStorage
    except ModuleNotFoundError as error:
        raise _missing("Redis", "redis", error) from error
    return RedisStorage


def _missing(what: str, extra: str, error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(f"{what} needs {error.name}: pip install 'clew[{extra}]'", extra=extra)
