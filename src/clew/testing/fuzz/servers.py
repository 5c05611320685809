"""Mutations of stores in PostgreSQL and Redis: rows, and members of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from clew.factory import connect
from clew.testing.fuzz.limits import Outcome
from clew.testing.fuzz.mutations import changed_value
from clew.testing.fuzz.stores import MAX_STATE_BYTES, use
from clew.testing.fuzz.templates import fill
from clew.testing.servers import shared_postgres, shared_redis

SERVERS: Final = ("postgres", "redis")
_TABLES: Final = ("threads", "value_rows", "checkpoints", "attachments", "messages", "receipts", "leases")


def server_url(kind: str) -> str:
    """Return the URL of a server that this process and its children share."""
    return shared_postgres() if kind == "postgres" else shared_redis()


def server_case(kind: str, number: int, outcome: Outcome, url: str) -> None:
    """Write, damage and use a store."""
    random = Random(f"{kind} {number}")
    name = f"fuzz_{number}"
    options: dict[str, Any] = {"schema": name} if kind == "postgres" else {"prefix": name}
    with _cleared(kind, url, name):
        checkpointer = connect(url, retry_for=0, max_state_bytes=MAX_STATE_BYTES, **options)
        try:
            fill(checkpointer, Random(f"template {number % 6}"))
            done = [_damage(kind, url, name, random) for _ in range(random.choice((1, 1, 2, 5)))]
            before = len(outcome.findings)
            use(checkpointer, random, outcome)
            outcome.findings[before:] = [f"{each} [{kind}: {', '.join(done)}]" for each in outcome.findings[before:]]
        finally:
            outcome.call("release", checkpointer.release)


def _damage(kind: str, url: str, name: str, random: Random) -> str:
    return asyncio.run(_damage_row(url, name, random)) if kind == "postgres" else _damage_member(url, name, random)


@contextmanager
def _cleared(kind: str, url: str, name: str) -> Iterator[None]:
    try:
        yield
    finally:
        if kind == "postgres":
            asyncio.run(_drop_schema(url, name))
        else:
            import redis

            with redis.Redis.from_url(url) as client:
                for key in list(client.scan_iter(match=f"{name}:*")):
                    client.delete(key)


async def _drop_schema(url: str, name: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
    finally:
        await connection.close()


async def _damage_row(url: str, name: str, random: Random) -> str:
    """Change one cell of one table to another value of its type."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        kinds = await connection.fetch(
            "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = $1 "
            "ORDER BY table_name, column_name",
            name,
        )
        for _ in range(8):
            table, column, kind = random.choice([tuple(each) for each in kinds if each[0] in _TABLES])
            rows = await connection.fetch(f'SELECT ctid, "{column}" FROM "{name}"."{table}" ORDER BY 1')  # noqa: S608
            if not rows:
                continue
            place, value = random.choice(rows)
            try:
                changed = _of_kind(kind, value, random)
                statement = f'UPDATE "{name}"."{table}" SET "{column}" = $1 WHERE ctid = $2'  # noqa: S608
                await connection.execute(statement, changed, place)
            except (asyncpg.PostgresError, asyncpg.DataError, ValueError, OverflowError):
                continue
            return f"{table}.{column}"
        return "nothing"
    finally:
        await connection.close()


def _of_kind(kind: str, value: Any, random: Random) -> Any:
    if kind == "bytea":
        return bytes(changed_value(value or b"", random))
    if kind == "text":
        return random.choice((None, "", "t", "\x01", "\ud7ff", "x" * 300, f"{value}x"))
    if kind == "ARRAY":
        return random.choice(([], [1], [5, 3], [0, 1 << 62], [-5, 7], [0, 1] * 200, [None, 3]))
    return changed_value(value if isinstance(value, int) else None, random)


def _damage_member(url: str, name: str, random: Random) -> str:
    """Change one member of one thread."""
    import redis

    with redis.Redis.from_url(url) as client:
        keys = sorted(key for key in client.scan_iter(match=f"{name}:{{*") if client.type(key) == b"zset")
        key = random.choice(keys)
        member, score = random.choice(client.zrange(key, 0, -1, withscores=True))
        changed = bytes(changed_value(member, random))
        client.zrem(key, member)
        client.zadd(key, {changed: score if random.random() < 0.8 else score + random.choice((1, -1, 0.5, 1e9))})
        return f"{member[:1]!r} of {key!r}"
