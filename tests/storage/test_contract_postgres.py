"""The PostgreSQL storage keeps the contract."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import asyncpg
import pytest

from clew.storage.postgres import PgStorage
from clew.testing import DurableStorageContract
from clew.testing.machine import machine_settings, storage_machine
from clew.testing.servers import shared_postgres

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def schema_of(directory: Path) -> str:
    """A schema of its own for each test."""
    return f"{directory.parent.name}/{directory.name}"[-63:]


def drop(directory: Path) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(shared_postgres())
        await connection.execute(f'DROP SCHEMA IF EXISTS "{schema_of(directory)}" CASCADE')
        await connection.close()

    asyncio.run(run())


class PostgresContract(DurableStorageContract):
    statement_cache_size: int | None = None

    @pytest.fixture(autouse=True)
    def dropped(self, tmp_path: Path):
        yield
        drop(tmp_path)

    def make_storage(self, tmp_path: Path) -> PgStorage:
        return PgStorage(shared_postgres(), schema=schema_of(tmp_path), statement_cache_size=self.statement_cache_size)


class TestPgStorage(PostgresContract):
    pass


if PGBOUNCER is None:

    class TestPgStorageWithoutPreparedStatements(PostgresContract):
        """Where there is a PgBouncer, `test_postgres_pgbouncer.py` runs the same through it."""

        statement_cache_size = 0
        paths = ("warm", "batched")


class _Dropping(storage_machine(lambda directory: PgStorage(shared_postgres(), schema=schema_of(directory)))):  # type: ignore[misc]
    """The machine, which takes away the schema that it used."""

    def teardown(self) -> None:
        directory = Path(self._directory.name)
        super().teardown()
        drop(directory)


TestPostgresMachine = _Dropping.TestCase
TestPostgresMachine.settings = machine_settings(25)
