"""Keys, encrypted checkpointers, and dumps of a store as somebody without a key sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import redis

import clew
from clew.factory.encryption import with_encryption
from clew.storage.protocol import Storage
from clew.testing.servers import shared_postgres, shared_redis
from tests.checkpointer.support import MemoryStore, PostgresStore, RedisStore, SQLiteStore, Store

OLD, NEW = bytes(range(32)), bytes(range(100, 132))
ENCRYPTION = clew.Encryption(keys={"old": OLD})
ROTATED = clew.Encryption(keys={"new": NEW, "old": OLD})
ONLY_NEW = clew.Encryption(keys={"new": NEW})


def opened(store: Store, encryption: clew.Encryption | None = ENCRYPTION, **options: Any) -> clew.BaseCheckpointer:
    return store.open(lambda storage: with_encryption(storage, encryption), **options)


def dump(store: Store) -> bytes:
    """Return all stored bytes, in any order."""
    match store:
        case MemoryStore():
            return of_memory(store.storage())
        case SQLiteStore():
            return b"".join(path.read_bytes() for path in store.path.parent.glob(f"{store.path.name}*"))
        case PostgresStore():
            return asyncio.run(of_postgres(store.schema))
        case RedisStore():
            return of_redis(store.prefix)
    raise TypeError(store)


def of_memory(storage: Storage) -> bytes:
    return repr(vars(storage)).encode()


async def of_postgres(schema: str) -> bytes:
    connection = await asyncpg.connect(shared_postgres())
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    rows = [tuple(row) for (table,) in tables for row in await connection.fetch(f'SELECT * FROM "{schema}"."{table}"')]
    await connection.close()
    assert rows
    return repr(rows).encode()


def of_redis(prefix: str) -> bytes:
    found: list[Any] = []
    with redis.Redis.from_url(shared_redis()) as client:
        for key in client.scan_iter(f"{prefix}*", count=10_000):
            readers: dict[bytes, Any] = {
                b"zset": lambda key=key: client.zrange(key, 0, -1, withscores=True),
                b"hash": lambda key=key: client.hgetall(key),
                b"set": lambda key=key: client.smembers(key),
                b"list": lambda key=key: client.lrange(key, 0, -1),
                b"string": lambda key=key: client.get(key),
            }
            found.append((key, readers[client.type(key)]()))
    assert found
    return repr(found).encode()
