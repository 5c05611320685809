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
from clew.testing.contract.base import ContractPart
from clew.testing.machine import machine_settings
from tests.storage.postgres_support import PostgresMachine, shared_schema, warm_pool

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class OnPostgres(ContractPart):
    """Makes storages in an empty schema of the shared server, over connections that are open already."""

    statement_cache_size: int | None = None
    schema: str

    @pytest.fixture(autouse=True)
    def _schema(self) -> Iterator[None]:
        self.runner = warm_pool(self.statement_cache_size).runner
        with shared_schema() as self.schema:
            yield

    def make_storage(self, tmp_path: Path) -> Storage:
        return PgStorage(pool=warm_pool(self.statement_cache_size).pool, schema=self.schema)


class PostgresContract(OnPostgres, DurableStorageContract):
    pass


class TestPgStorage(PostgresContract):
    pass


class TestPgStorageWithoutPreparedStatements(PostgresContract):
    """`test_postgres_pgbouncer.py` runs the whole contract like this, through a real PgBouncer."""

    kind = "unprepared"
    statement_cache_size = 0
    paths = ("warm", "batched")


TestPostgresMachine = PostgresMachine.TestCase
TestPostgresMachine.settings = machine_settings(25)
