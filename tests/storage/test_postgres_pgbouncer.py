"""The contract behind a real PgBouncer in transaction mode, where each transaction may get another
connection."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from clew.storage.postgres import PgStorage
from clew.storage.protocol import Storage
from clew.testing.servers import shared_postgres
from clew.testing.servers.process import HOST, Server
from tests.storage.test_contract_postgres import PGBOUNCER, PostgresContract

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed (apt-get install pgbouncer)")


class PgBouncer(Server):
    """PgBouncer in transaction mode, in front of the shared server, with few connections to it."""

    name = "pgbouncer"

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    @property
    def settings(self) -> Path:
        return self.directory / "pgbouncer.ini"

    def prepare(self) -> None:
        (self.directory / "users.txt").write_text('"postgres" ""\n')
        if owner := self.owner():
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, owner["user"], owner["group"])

    def command(self) -> list[str]:
        assert PGBOUNCER is not None
        target = urlsplit(shared_postgres())
        self.settings.write_text(
            f"[databases]\npostgres = host={target.hostname} port={target.port} dbname=postgres user=postgres\n"
            f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {self.port}\nauth_type = any\n"
            f"auth_file = {self.directory}/users.txt\npool_mode = transaction\ndefault_pool_size = 3\n"
            f"max_client_conn = 200\nunix_socket_dir =\n"
        )
        return [PGBOUNCER, str(self.settings)]

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def owner(self) -> dict[str, Any]:
        if os.geteuid():
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def bouncer():
    with PgBouncer() as bouncer:
        yield bouncer


class TestPgStorageBehindPgBouncer(PostgresContract):
    paths = ("warm", "batched")

    @pytest.fixture(autouse=True)
    def _behind(self, bouncer: PgBouncer) -> None:
        self.bouncer = bouncer

    def make_storage(self, tmp_path: Path) -> Storage:
        return PgStorage(self.bouncer.url, schema=self.schema, statement_cache_size=0)
