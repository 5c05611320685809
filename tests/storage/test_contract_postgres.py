"""The contract and the state machine on the PostgreSQL storage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.storage.postgres import PgStorage
from clew.storage.protocol import Storage
from clew.testing import DurableStorageContract
from clew.testing.machine import machine_settings
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import PostgresMachine, shared_schema

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class PostgresContract(DurableStorageContract):
    statement_cache_size: int | None = None
    schema: str

    @pytest.fixture(autouse=True)
    def _schema(self) -> Iterator[None]:
        with shared_schema() as self.schema:
            yield

    def make_storage(self, tmp_path: Path) -> Storage:
        return PgStorage(shared_postgres(), schema=self.schema, statement_cache_size=self.statement_cache_size)


class TestPgStorage(PostgresContract):
    pass


class TestPgStorageWithoutPreparedStatements(PostgresContract):
    """`test_postgres_pgbouncer.py` runs the whole contract like this, through a real PgBouncer."""

    kind = "unprepared"
    statement_cache_size = 0
    paths = ("warm", "batched")


TestPostgresMachine = PostgresMachine.TestCase
TestPostgresMachine.settings = machine_settings(25)
