"""Baselines: the raw drivers, with prepared statements and open
connections, writing only what is new.

They keep a message log under one integer key (thread and number), the
minimum that can be read by thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from bench.places import File
from bench.targets.protocol import State, Target, Unsupported

POOL = 16
_encode, _decode = msgspec.msgpack.encode, msgspec.msgpack.decode


class Raw(Target):
    """Saves with one write of the new messages, and loads with one read, decoded in one call."""

    name = "raw"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._threads: dict[str, int] = {}
        self._saves: dict[str, int] = {}

    def _next(self, thread: str) -> int:
        """Return the key of the thread's next row."""
        number = self._saves.get(thread, 0)
        self._saves[thread] = number + 1
        return self._base(thread) + number

    def _base(self, thread: str) -> int:
        return self._threads.setdefault(thread, len(self._threads)) << 32

    def again(self) -> Self:
        other = super().again()
        other._threads, other._saves = self._threads, self._saves
        return other


def decoded(rows: Sequence[bytes]) -> dict[str, Any]:
    """Return the messages of all rows as one array."""
    items = [row[_header(row) :] for row in rows]
    count = sum(_count(row) for row in rows)
    return {"messages": _decode(b"\xdd" + count.to_bytes(4, "big") + b"".join(items))}


def _header(row: bytes) -> int:
    return 1 if row[0] & 0xF0 == 0x90 else 3 if row[0] == 0xDC else 5


def _count(row: bytes) -> int:
    return row[0] & 0x0F if row[0] & 0xF0 == 0x90 else int.from_bytes(row[1 : _header(row)], "big")


class RawMemory(Raw):
    """A list in a dict."""

    storages = ("memory",)

    async def open(self) -> None:
        self._rows: dict[str, list[bytes]] = {}

    async def close(self) -> None:
        self._rows.clear()

    @property
    def engine(self) -> object:
        return self._rows

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        self._rows.setdefault(thread, []).append(_encode(new))

    async def load(self, thread: str) -> Any:
        return decoded(self._rows[thread])

    async def list(self, thread: str, limit: int) -> int:
        return len(self._rows[thread][-limit:])


class RawSQLite(Raw):
    """sqlite3 with the same pragmas as Clew."""

    storages = ("sqlite",)

    async def open(self) -> None:
        assert isinstance(self.place, File)
        self._connection = sqlite3.connect(self.place.path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS raw (id INTEGER PRIMARY KEY, data BLOB)")

    async def close(self) -> None:
        self._connection.close()

    @property
    def engine(self) -> object:
        return self._connection

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        self._connection.execute("INSERT INTO raw VALUES (?, ?)", (self._next(thread), _encode(new)))

    async def load(self, thread: str) -> Any:
        base = self._base(thread)
        query = "SELECT data FROM raw WHERE id >= ? AND id < ? ORDER BY id"
        return decoded([row for (row,) in self._connection.execute(query, (base, base + (1 << 32)))])

    async def list(self, thread: str, limit: int) -> int:
        base = self._base(thread)
        query = "SELECT id, length(data) FROM raw WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?"
        return len(self._connection.execute(query, (base, base + (1 << 32), limit)).fetchall())


_INSERT = "INSERT INTO raw VALUES ($1, $2)"
_SELECT = "SELECT data FROM raw WHERE id >= $1 AND id < $2 ORDER BY id"
_LIST = "SELECT id, length(data) FROM raw WHERE id >= $1 AND id < $2 ORDER BY id DESC LIMIT $3"


class RawPostgres(Raw):
    """asyncpg: prepared statements on one connection for one task, a pool of 16 for many."""

    storages = ("postgres",)

    async def open(self) -> None:
        import asyncpg

        self._connection = await asyncpg.connect(self.place.url)
        await self._connection.execute("CREATE TABLE IF NOT EXISTS raw (id bigint PRIMARY KEY, data bytea)")
        await self._connection.execute("ALTER TABLE raw ALTER data SET STORAGE EXTERNAL")
        self._insert = await self._connection.prepare(_INSERT)
        # A prepared statement locks its table until the next protocol message, which
        # would block ALTER and VACUUM.
        await self._connection.execute("SELECT 1")
        self._pool = None
        if self.tasks > 1:
            self._pool = await asyncpg.create_pool(self.place.url, min_size=POOL, max_size=POOL)

    async def close(self) -> None:
        await self._connection.close()
        if self._pool is not None:
            await self._pool.close()

    @property
    def engine(self) -> object:
        return self._pool or self._connection

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        if self._pool is None:
            await self._insert.fetch(self._next(thread), _encode(new))
        else:
            await self._pool.execute(_INSERT, self._next(thread), _encode(new))

    async def load(self, thread: str) -> Any:
        base = self._base(thread)
        rows = await (self._pool or self._connection).fetch(_SELECT, base, base + (1 << 32))
        return decoded([row[0] for row in rows])

    async def list(self, thread: str, limit: int) -> int:
        base = self._base(thread)
        return len(await (self._pool or self._connection).fetch(_LIST, base, base + (1 << 32), limit))


class RawRedis(Raw):
    """redis-py with hiredis: one list per thread, one pipelined write per save."""

    storages = ("redis",)

    async def open(self) -> None:
        from redis.asyncio import BlockingConnectionPool, Redis

        self._client = Redis(connection_pool=BlockingConnectionPool.from_url(self.place.url, max_connections=POOL))
        await self._client.ping()

    async def close(self) -> None:
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    @property
    def engine(self) -> object:
        return self._client

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.rpush(thread, _encode(new))
        await pipeline.execute()

    async def load(self, thread: str) -> Any:
        rows: Any = self._client.lrange(thread, 0, -1)
        return decoded(await rows)

    async def list(self, thread: str, limit: int) -> int:
        rows: Any = self._client.lrange(thread, -limit, -1)
        return len(await rows)


class Encoding(Target):
    """Encodes the whole state with msgspec without storing it: the minimum
    cost of checking a full state."""

    name = "encoding"
    storages = ("memory", "sqlite", "postgres", "redis")

    async def open(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()

    async def close(self) -> None:
        """Nothing to close."""

    @property
    def engine(self) -> object:
        return self._encoder

    async def save(self, thread: str, state: State, new: Sequence[Any]) -> None:
        self._encoder.encode(state)

    async def load(self, thread: str) -> Any:
        raise Unsupported("stores nothing")


RAW = (RawMemory, RawSQLite, RawPostgres, RawRedis)
ENCODING = (Encoding,)
