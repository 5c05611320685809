"""Damaged threads: they stop no call for other threads, are named, and can be deleted by those who may."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import clew

BROKEN = "CAST(x'ff' || substr(CAST({column} AS BLOB), 2) AS TEXT)"


def config(thread_id: str, user: Any = "u") -> dict[str, Any]:
    return {"thread_id": thread_id, "user_id": user}


def anybody(thread_id: str) -> dict[str, Any]:
    return config(thread_id, clew.ANY_USER)


def fill(memory: clew.BaseCheckpointer) -> None:
    for name in ("t1", "t2", "t3"):
        said = clew.Message(message_id="m", role="user", content="hello")
        memory.put_checkpoint(config(name), {"n": name, "text": "x" * 5000}, messages=[said])
    memory.put_state(config("other", "v"), {"n": 1})


def change(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def damage_text(path: Path, table: str, column: str, where: str) -> None:
    """Make text undecodable."""
    change(path, f"UPDATE {table} SET {column} = {BROKEN.format(column=column)} WHERE {where}")


def of_everybody(memory: clew.BaseCheckpointer) -> set[str]:
    return {each.thread_id for each in memory.list_threads({"user_id": clew.ANY_USER})}


def rows_left(path: Path) -> Any:
    connection = sqlite3.connect(path)
    tables = ("threads", "checkpoints", "messages", "value_rows", "logs", "leases")
    left = sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)
    connection.close()
    return left


PLACES = [("threads", "incarnation", "thread_id = 't2'"), ("checkpoints", "checkpoint_id", "thread_no = 2")]


@pytest.mark.parametrize(("table", "column", "where"), PLACES)
def test_a_damaged_thread_of_a_user_is_erased_with_the_others(sqlite, table, column, where):
    with sqlite.open() as memory:
        fill(memory)
    damage_text(sqlite.path, table, column, where)
    memory = sqlite.open()
    assert memory.erase_user("u") == 3
    assert of_everybody(memory) == {"other"}


@pytest.mark.parametrize("whose", ["u", clew.ANY_USER])
@pytest.mark.parametrize(("table", "column", "where"), PLACES)
def test_a_damaged_thread_is_deleted_by_those_who_may(sqlite, table, column, where, whose):
    with sqlite.open() as memory:
        fill(memory)
    damage_text(sqlite.path, table, column, where)
    memory = sqlite.open()
    with pytest.raises((clew.PermissionDeniedError, clew.CorruptRecordError)):
        memory.delete_thread(config("t2", "v"))
    memory.delete_thread(config("t2", whose))
    assert of_everybody(memory) == {"t1", "t3", "other"}
    memory.put_state(config("t2", "v"), {"n": 2})
    assert memory.get_state(config("t2", "v")) == {"n": 2}


def test_a_thread_with_a_damaged_owner_is_deleted_by_any_user_only(sqlite):
    with sqlite.open() as memory:
        fill(memory)
    damage_text(sqlite.path, "threads", "user_id", "thread_id = 't2'")
    memory = sqlite.open()
    for whose in ("u", "v", "\ufffd", "", None):
        with pytest.raises((clew.CorruptRecordError, clew.ConfigError)):
            memory.delete_thread(config("t2", whose))
    assert of_everybody(memory) == {"t1", "t2", "t3", "other"}
    assert memory.erase_user("u") == 2
    memory.delete_thread(anybody("t2"))
    assert of_everybody(memory) == {"other"}


@pytest.mark.parametrize("column", ["incarnation", "user_id", "chain", "run_id", "forked_thread"])
def test_a_store_with_a_damaged_thread_is_cleared(sqlite, column):
    with sqlite.open() as memory:
        fill(memory)
    change(sqlite.path, f"UPDATE threads SET {column} = CAST(x'ff75' AS TEXT) WHERE thread_id = 't2'")
    memory = sqlite.open()
    assert memory.clear_all() == 4
    assert of_everybody(memory) == set()
    assert rows_left(sqlite.path) == 0


def test_a_damaged_head_blocks_no_save(sqlite):
    with sqlite.open() as memory:
        fill(memory)
        memory.put_state(config("t2"), {"n": 2})
    damage_text(sqlite.path, "checkpoints", "checkpoint_id", "thread_no = 2 AND sequence = 2")
    memory = sqlite.open()
    with pytest.raises(clew.CorruptRecordError):
        memory.get_state(config("t2"))
    memory.put_state(config("t2"), {"n": 3})
    assert memory.get_state(config("t2")) == {"n": 3}
    assert len(memory.list_checkpoints(config("t2"))) == 3


def test_a_thread_that_cannot_be_deleted_stops_no_other_and_is_named(sqlite, monkeypatch):
    memory = sqlite.open()
    fill(memory)
    commit = memory._sweeper.commit

    async def failing(record, **content):
        if record.thread_id in ("t1", "t2"):
            raise clew.CorruptRecordError("it is damaged")
        return await commit(record, **content)

    monkeypatch.setattr(memory._sweeper, "commit", failing)
    with pytest.raises(clew.CorruptRecordError, match=r"'t2': it is damaged.*1 others were deleted") as caught:
        memory.erase_user("u")
    assert set(caught.value.thread_ids) == {"t1", "t2"}
    assert of_everybody(memory) == {"t1", "t2", "other"}


def test_a_damaged_lease_blocks_no_write(sqlite):
    with sqlite.open() as memory:
        fill(memory)
        with memory.lease(config("t1"), 60):
            pass
    damage_text(sqlite.path, "leases", "holder", "1")
    memory = sqlite.open()
    with memory.lease(config("t1"), 60):
        memory.put_state(config("t1"), {"n": 2})
    assert memory.get_state(config("t1")) == {"n": 2}


def test_warming_skips_a_damaged_thread_and_logs_it(sqlite, caplog):
    with sqlite.open() as memory:
        fill(memory)
    damage_text(sqlite.path, "threads", "incarnation", "thread_id = 't3'")
    change(sqlite.path, "UPDATE checkpoints SET body = x'00' WHERE thread_no = 2")
    assert sqlite.open().warm("u") == 1
    assert "damaged thread skipped: 't3'" in caplog.text
    assert "damaged thread skipped: 't2'" in caplog.text


@pytest.mark.parametrize("token", [None, -5, 0, (1 << 63) - 1])
def test_a_damaged_counter_of_tokens_blocks_no_lease_and_tokens_grow(sqlite, token):
    with sqlite.open() as memory:
        tokens = []
        for _ in range(3):
            with memory.lease("t", 60) as lease:
                tokens.append(lease.token)
    change(sqlite.path, "DELETE FROM last_token" if token is None else f"UPDATE last_token SET token = {token}")
    memory = sqlite.open()
    for thread in ("t", "t", "other", "t"):
        with memory.lease(thread, 60) as lease:
            tokens.append(lease.token)
            memory.put_state(thread, {"n": 1})
    assert tokens == sorted(set(tokens))
