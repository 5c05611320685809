"""Places of stores: folders, and servers that start on first use, with counts of the bytes written."""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from clew.testing.servers import PostgresServer, RedisServer

STORAGES = ("memory", "sqlite", "postgres", "redis")
TITLES = {
    "memory": "memory",
    "sqlite": "SQLite, WAL and synchronous=FULL",
    "postgres": "PostgreSQL, fsync on",
    "redis": "Redis, appendfsync everysec",
}
PACE = {"postgres": 0.02}
"""Seconds per turn while stored bytes are counted, so that autovacuum
has time to run (see `UPKEEP`)."""
UPKEEP = {"autovacuum_naptime": 1}
"""Autovacuum runs every minute by default. A turn of 20 ms here corresponds to one of
about a second in production."""


class Place(ABC):
    """The store of one target."""

    url: str

    async def stored(self) -> int | None:
        """Return the current size of the store in bytes."""
        return None

    async def written(self) -> int | None:
        """Return the bytes written so far, including logs."""
        return None

    async def settle(self) -> None:  # noqa: B027 - most have nothing to finish
        """Let the store finish deferred work."""


class Memory(Place):
    url = "memory://"


class File(Place):
    """A SQLite database. Written bytes are those of the process, including the WAL:
    measure one target at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    async def stored(self) -> int | None:
        with closing(sqlite3.connect(self.path)) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
        return int(pages * size)

    async def written(self) -> int | None:
        return _written_by_this_process()


def _written_by_this_process() -> int | None:
    counters = Path("/proc/self/io")
    if not counters.exists():
        return None
    return int(dict(line.split(": ") for line in counters.read_text().splitlines())["wchar"])


class Database(Place):
    """A separate database on the run's PostgreSQL server."""

    def __init__(self, url: str, connection: Any) -> None:
        self.url = url
        self._connection = connection

    async def stored(self) -> int | None:
        size: int = await self._connection.fetchval("SELECT pg_database_size($1)", self.url.rpartition("/")[2])
        return size

    async def written(self) -> int | None:
        return int(await self._connection.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"))

    async def settle(self) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.url)
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
        await connection.close()


class Server(Place):
    """A separate Redis server, because it only counts its bytes as a whole."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.url = server.url

    async def stored(self) -> int | None:
        # Summed over the keys, because the server's totals vary by more than a conversation.
        size, cursor = 0, b"0"
        while True:
            cursor, keys = self._server.call("SCAN", cursor, "COUNT", 1000)
            size += sum(self._server.call("MEMORY", "USAGE", key, "SAMPLES", 0) or 0 for key in keys)
            if int(cursor) == 0:
                return size

    async def written(self) -> int | None:
        return int(self._info("persistence")["aof_current_size"])

    def _info(self, section: str) -> dict[str, str]:
        text = self._server.call("INFO", section)
        lines = text.decode() if isinstance(text, bytes) else text
        if isinstance(lines, dict):
            return lines
        return dict(line.split(":", 1) for line in str(lines).splitlines() if ":" in line)


class Ground:
    """The places of one run. Servers start on first use and stop with it;
    `postgres` can name a running server."""

    def __init__(self, folder: Path, *, upkeep: bool = False, postgres: str | None = None) -> None:
        self._folder = folder
        self._settings = UPKEEP if upkeep else {}
        self._url = postgres
        self._postgres: PostgresServer | None = None
        self._connection: Any = None
        self._redis: list[RedisServer] = []
        self._count = 0
        self.versions: dict[str, str] = {}

    async def place(self, storage: str) -> Place:
        """Return a new, empty store."""
        self._count += 1
        if storage == "memory":
            return Memory()
        if storage == "sqlite":
            return File(self._folder / f"bench-{self._count}.db")
        if storage == "postgres":
            return await self._database(f"bench_{uuid4().hex}")
        settings = {"appendonly": "yes", "appendfsync": "everysec", "auto-aof-rewrite-percentage": 0}
        server = await asyncio.to_thread(RedisServer, settings)
        self._redis.append(server)
        place = Server(server)
        self.versions["Redis"] = place._info("server")["redis_version"]
        return place

    async def _database(self, name: str) -> Database:
        import asyncpg

        if self._url is None:
            self._postgres = await asyncio.to_thread(lambda: PostgresServer(self._settings, durable=True))
            self._url = self._postgres.url
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url)
            version = await self._connection.fetchval("SHOW server_version")
            self.versions["PostgreSQL"] = version.split()[0]
        await self._connection.execute(f"CREATE DATABASE {name}")
        return Database(self._url.rpartition("/")[0] + f"/{name}", self._connection)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        for server in (self._postgres, *self._redis):
            if server is not None:
                await asyncio.to_thread(server.close)
