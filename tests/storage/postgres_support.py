"""Schemas for tests of the PostgreSQL storage: empty shared ones, and schemas of a test's own."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg

from clew.storage.postgres import PgStorage
from clew.storage.postgres.schema import TABLES
from clew.storage.protocol import Storage
from clew.testing.driver import DrivenStorage
from clew.testing.machine import StorageMachine
from clew.testing.servers import shared_postgres

SEQUENCES = ("thread_ordinals", "lease_tokens", "journal_positions")
TRUNCATED_EVERY = 100
"""How many times a schema is emptied until its files are. TRUNCATE takes fifty times as long as DELETE for a few rows."""


class _Admin:
    """A connection for statements between tests, on an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(asyncpg.connect(shared_postgres()))
        # A test that leaves a transaction open fails the next one, and does not hang it.
        self.execute("SET lock_timeout = '60s'; SET client_min_messages = warning")
        self.free: list[str] = []
        self.made: list[str] = []
        self.emptied = 0

    def execute(self, statement: str) -> None:
        self._loop.run_until_complete(self._connection.execute(statement))

    def close(self) -> None:
        for name in self.made:
            self.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


@cache
def _admin() -> _Admin:
    admin = _Admin()
    # Registered after the server's own handler, and so called before it.
    atexit.register(admin.close)
    return admin


@contextmanager
def shared_schema() -> Iterator[str]:
    """Yield the name of a schema without any records, which tests of this process use in turn.

    Creating a schema takes ten times as long as emptying one. A test that changes tables or
    functions, looks at plans or statistics, or uses another `user_id_type` needs `own_schema`.
    """
    admin = _admin()
    if admin.free:
        name = admin.free.pop()
        _empty(admin, name)
    else:
        name = f"clew test {os.getpid()} {len(admin.made)}"
        admin.made.append(name)
    try:
        yield name
    finally:
        admin.free.append(name)


def _empty(admin: _Admin, name: str) -> None:
    tables = [f'"{name}".{table}' for table in TABLES]
    admin.emptied += 1
    if admin.emptied % TRUNCATED_EVERY:
        statements = [f"DELETE FROM {table}" for table in tables]
    else:
        statements = [f"TRUNCATE {', '.join(tables)}"]
    statements += [f'ALTER SEQUENCE "{name}".{sequence} RESTART' for sequence in SEQUENCES]
    try:
        admin.execute("; ".join(statements))
    except (asyncpg.InvalidSchemaNameError, asyncpg.UndefinedTableError):
        # The last test did not set it up, or dropped it.
        drop(name)


@contextmanager
def own_schema(directory: Path) -> Iterator[str]:
    """Yield the name of a schema that does not exist yet, and drop it afterwards."""
    name = schema_of(directory)
    try:
        yield name
    finally:
        drop(name)


class WarmPool:
    """An event loop and a pool on it for many tests: most of a short test's time is a new connection's first statements."""

    def __init__(self, statement_cache_size: int | None = None) -> None:
        self.runner = asyncio.Runner()
        self._size = {} if statement_cache_size is None else {"statement_cache_size": statement_cache_size}
        self.pool = self.runner.get_loop().run_until_complete(self._opened())
        # Registered after the server's own handler, and so called before it.
        atexit.register(self._close)

    async def _opened(self) -> asyncpg.Pool:
        return await asyncpg.create_pool(shared_postgres(), min_size=0, max_size=10, **self._size)

    def _close(self) -> None:
        self.runner.get_loop().run_until_complete(self.pool.close())
        self.runner.close()


warm_pool = cache(WarmPool)


@contextmanager
def opened(schema: str, **options: Any) -> Iterator[DrivenStorage]:
    """Yield a storage in `schema` of the shared server, and close it afterwards."""
    driven = DrivenStorage(lambda: PgStorage(shared_postgres(), schema=schema, **options))
    try:
        yield driven
    finally:
        driven.close()


def schema_of(directory: Path) -> str:
    """Return a schema name for `directory`, a test's temporary folder."""
    return f"{directory.parent.name}/{directory.name}"[-63:]


def drop(name: str) -> None:
    _admin().execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


class PostgresMachine(StorageMachine):
    """The state machine of a storage over PostgreSQL: each run has an empty shared schema,
    `schema`."""

    def __init__(self) -> None:
        self._shared = shared_schema()
        self.schema = self._shared.__enter__()
        super().__init__()

    def make_storage(self, directory: Path) -> Storage:
        return PgStorage(shared_postgres(), schema=self.schema)

    def teardown(self) -> None:
        super().teardown()
        self._shared.__exit__(None, None, None)
