"""Damaged numbers: every integer that a storage keeps may be any integer. No call for the whole store stops at one."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import redis

import clew
from clew.storage.postgres.schema import TABLES
from clew.storage.redis.header import MOST, Header
from clew.testing.servers import shared_postgres, shared_redis
from tests.checkpointer.support import PostgresStore, RedisStore, at
from tests.rings import rounds

EXTREMES = (0, -1, 1 << 31, 1 << 62, (1 << 63) - 1, -(1 << 63))
DAMAGED = [f"t{number}" for number in range(len(EXTREMES))]
"""Threads, each with another of the EXTREMES in the same column."""
SAID = clew.Message(role="user", content="x")
EVERYBODY: dict[str, Any] = {"user_id": clew.ANY_USER}


def fill(checkpointer: clew.BaseCheckpointer) -> None:
    """Write records of all kinds: a thread for each of the extremes, a fork of each, and another thread."""
    for name in [*DAMAGED, "other"]:
        made = [
            checkpointer.put_checkpoint(
                name,
                {"n": number, "m": [f"{name} {number} {each} " + "x" * 200 for each in range(4)]},
                step=number,
                messages=[clew.Message(message_id=f"{name}{number}", role="user", content=f"message {number}")],
            )
            for number in range(3)
        ]
        checkpointer.put_attachments(at(made[-1]), {"a": 1})
        checkpointer.put_thread(name, clew.ThreadInfo(thread_id=name, thread_name=f"name of {name}"))
        if name != "other":
            checkpointer.fork(name, f"fork of {name}")
    for name in DAMAGED:
        take_turn(checkpointer, name)


def take_turn(checkpointer: clew.BaseCheckpointer, thread_id: str) -> None:
    with checkpointer.lease(thread_id, 60):
        pass


def only_named(call: Callable[[], object], thread_id: str) -> None:
    """A call for one thread works, or its error names the thread."""
    named = thread_id
    try:
        call()
    except clew.CorruptRecordError as error:
        named = error.thread_id
    except (clew.ConflictError, clew.LeaseError):
        # A checkpoint that is no longer at its place.
        pass
    assert named == thread_id


def check(checkpointer: clew.BaseCheckpointer) -> list[str]:
    """Call everything, and return the threads that `verify` names."""
    count = 2 * len(DAMAGED) + 1
    assert len(checkpointer.list_threads(EVERYBODY, limit=None)) == count
    assert [each.thread_id for each in checkpointer.list_threads(EVERYBODY, search="of other")] == ["other"]
    report = checkpointer.verify()
    assert report.threads == count
    named = sorted({damage.thread_id for damage in report.damage})
    assert "other" not in named
    checkpointer.stats()
    policy = clew.RetentionPolicy(max_history=1)
    checkpointer.cleanup(policy, dry_run=True)
    checkpointer.cleanup(policy)
    assert len(checkpointer.list_checkpoints("other")) == 1
    checkpointer.compact()
    checkpointer.verify()
    assert checkpointer.get_state("other")["n"] == 2
    for name in DAMAGED:
        for read in ("get_thread", "get_state", "list_checkpoints", "get_history", "list_messages", "list_attachments"):
            only_named(lambda read=read, name=name: getattr(checkpointer, read)(name), name)  # type: ignore[misc]
        only_named(lambda name=name: checkpointer.put_state(name, {"n": 1}), name)  # type: ignore[misc]
        only_named(lambda name=name: checkpointer.update_state(name, set={"k": 1}), name)  # type: ignore[misc]
        only_named(lambda name=name: checkpointer.put_messages(name, [SAID]), name)  # type: ignore[misc]
        only_named(lambda name=name: checkpointer.fork(name, f"another of {name}"), name)  # type: ignore[misc]
        only_named(lambda name=name: take_turn(checkpointer, name), name)  # type: ignore[misc]
    checkpointer.delete_runs(["r"])
    checkpointer.clear_all()
    assert checkpointer.list_threads(EVERYBODY) == []
    return named


QUICK = {
    ("threads", "sequence"),
    ("threads", "epoch"),
    ("threads", "size"),
    ("messages", "size"),
    ("value_rows", "first"),
}
"""Columns that `make test` damages, too. `make test-all` damages every one."""


def some_of(columns: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [each for each in columns if rounds(0, 1) or (each[0], each[1]) in QUICK]


COUNTERS = {
    "threads": ("epoch", "next_value", "sequence", "next_message", "message_count", "checkpoint_count", "size"),
    "checkpoints": ("sequence",),
    "messages": ("sequence",),
}
"""Columns of which negative and huge numbers are always named."""


def check_column(checkpointer: clew.BaseCheckpointer, table: str, column: str) -> None:
    named = check(checkpointer)
    if column in COUNTERS.get(table, ()):
        out_of_range = {name for name, value in zip(DAMAGED, EXTREMES, strict=True) if not 0 <= value < 1 << 53}
        assert out_of_range <= set(named)
    checkpointer.release()


# SQLite


def sqlite_columns(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each integer column, with the condition for the rows of a thread."""
    with sqlite3.connect(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%STRICT%'")
        for (table,) in tables.fetchall():
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            names = {column[1] for column in columns}
            if "thread_id" in names:
                where = "thread_id = ?"
            elif "thread_no" in names:
                where = "thread_no = (SELECT thread_no FROM threads WHERE thread_id = ?)"
            else:
                where = "log_no = (SELECT log_no FROM threads WHERE thread_id = ?)" if "log_no" in names else "?"
            for column in columns:
                if column[2] == "INTEGER":
                    yield table, column[1], where
    connection.close()


def test_no_number_in_sqlite_stops_a_call_for_the_whole_store(tmp_path):
    source, path = tmp_path / "source.db", tmp_path / "clew.db"
    with clew.connect(f"sqlite:///{source}") as checkpointer:
        fill(checkpointer)
    columns = list(sqlite_columns(source))
    assert len(columns) > 30
    for table, column, where in some_of(columns):
        for ending in ("", "-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
        shutil.copyfile(source, path)
        with sqlite3.connect(path) as connection:
            for name, value in zip(DAMAGED, EXTREMES, strict=True):
                try:
                    connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {where}", (value, name))
                except sqlite3.IntegrityError:
                    continue
        connection.close()
        check_column(clew.connect(f"sqlite:///{path}"), table, column)


# PostgreSQL


async def postgres_statements(statements: list[str]) -> list[Any]:
    connection = await asyncpg.connect(shared_postgres())
    found = []
    try:
        for statement in statements:
            try:
                found = await connection.fetch(statement)
            except asyncpg.UniqueViolationError:
                continue
    finally:
        await connection.close()
    return found


def test_no_number_in_postgres_stops_a_call_for_the_whole_store(tmp_path):
    store = PostgresStore(tmp_path)
    schema = f'"{store.schema}"'
    try:
        checkpointer = store.open()
        fill(checkpointer)
        checkpointer.release()
        asked = (
            "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = "
            f"'{store.schema}' AND table_name IN (SELECT table_name FROM information_schema.columns "
            f"WHERE table_schema = '{store.schema}' AND column_name = 'thread_id') AND is_identity = 'NO' "
            "AND data_type IN ('bigint', 'integer') ORDER BY 1, 2"
        )
        columns = asyncio.run(postgres_statements([asked]))
        assert len(columns) > 25
        kept = f'"{store.schema} kept"'
        asyncio.run(
            postgres_statements(
                [
                    f"CREATE SCHEMA {kept}",
                    *(f"CREATE TABLE {kept}.{each} AS SELECT * FROM {schema}.{each}" for each in TABLES),
                ]
            )
        )
        for table, column, kind in some_of(map(tuple, columns)):
            most = (1 << 31 if kind == "integer" else 1 << 63) - 1
            damage = [
                f"UPDATE {schema}.{table} SET {column} = '{max(~most, min(value, most))}' WHERE ctid = "
                f"(SELECT max(ctid) FROM {schema}.{table} WHERE thread_id = '{name}')"
                for name, value in zip(DAMAGED, EXTREMES, strict=True)
            ]
            restore = [
                f"INSERT INTO {schema}.{each} OVERRIDING SYSTEM VALUE SELECT * FROM {kept}.{each}" for each in TABLES
            ]
            truncate = "TRUNCATE " + ", ".join(f"{schema}.{each}" for each in TABLES)
            asyncio.run(postgres_statements([truncate, *restore, *damage]))
            check_column(store.open(retry_for=0), table, column if kind == "bigint" else "")
    finally:
        asyncio.run(postgres_statements([f'DROP SCHEMA IF EXISTS "{store.schema} kept" CASCADE']))
        store.close()


# Redis


def redis_numbers(member: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield each number of a member: its name, its place and its width."""
    if member.startswith(b"H"):
        place = 22
        widths = dict(
            zip(Header._fields[2:16], (4, 4, 8, 8, 4, 4, 4, 4, 8, 8, 8, 8, 4, 1), strict=True),
        )
        for name, width in widths.items():
            yield name, place, width
            place += width
    elif member[:1] in (b"C", b"M", b"V", b"J"):
        yield f"{member[:1].decode()} first", 1, 4
        yield f"{member[:1].decode()} second", 5, 4
        yield f"{member[:1].decode()} third", 9, 4
    elif member[:1] == b"R":
        yield "receipt", 1, 4


def test_no_number_in_redis_stops_a_call_for_the_whole_store(tmp_path):
    store = RedisStore(tmp_path)
    server: Any = redis.Redis.from_url(shared_redis())
    try:
        checkpointer = store.open()
        fill(checkpointer)
        checkpointer.release()
        kept = {key: server.dump(key) for key in server.scan_iter(f"{store.prefix}*", count=1000)}

        def members(name: str) -> list[tuple[bytes, bytes, float]]:
            (key,) = [key for key in kept if f"{{{name}}}".encode() in key and server.type(key) == b"zset"]
            return [(key, *each) for each in server.zrange(key, 0, -1, withscores=True)]

        numbers = list(
            dict.fromkeys((member[:1], *each) for _, member, _ in members("t0") for each in redis_numbers(member))
        )
        assert len(numbers) > 20
        quick = {"sequence", "next_value", "spaces", "messages", "state_size", "C first"}
        for letter, number_name, place, width in numbers:
            if not (rounds(0, 1) or number_name in quick):
                continue
            for key, stored in kept.items():
                server.restore(key, 0, stored, replace=True)
            for name, value in zip(DAMAGED, EXTREMES, strict=True):
                key, member, score = [each for each in members(name) if each[1].startswith(letter)][-1]
                server.zrem(key, member)
                number = (value % (1 << 64)).to_bytes(8, "big")[8 - width :] if value >= 0 else b"\xff" * width
                server.zadd(key, {member[:place] + number + member[place + width :]: score})
            opened = store.open(retry_for=0.5)
            named = check(opened)
            opened.release()
            if number_name in MOST:
                assert {"t1", "t4"} <= set(named), number_name
    finally:
        store.close()
        server.close()
