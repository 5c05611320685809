"""A damaged row makes nothing else in a session unreadable."""

from __future__ import annotations

import logging
import sqlite3
from typing import Any

import pytest

import clew
from clew.adapters.openai_agents import ClewSession
from tests.adapters.openai.support import said, texts
from tests.checkpointer.support import SQLiteStore, run, text

WORDS = [text(number) for number in range(12)]


@pytest.fixture
def sqlite(tmp_path):
    opened = SQLiteStore(tmp_path)
    yield opened
    opened.close()


def damage(sqlite: SQLiteStore, table: str, column: str, row: int) -> None:
    connection = sqlite3.connect(sqlite.path)
    (rowid, data) = connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid").fetchall()[row]
    middle = len(data) // 2
    broken = bytes(data[:middle]) + bytes([data[middle] ^ 0x55]) + bytes(data[middle + 1 :])
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (broken, rowid))
    connection.commit()
    connection.close()


def filled(sqlite: SQLiteStore, **options: Any) -> None:
    async def go():
        checkpointer = clew.connect(f"sqlite:///{sqlite.path}")
        session = ClewSession("s", checkpointer, **options)
        for word in WORDS:
            await session.add_items(said(word))
        await checkpointer.arelease()

    run(go())


@pytest.mark.parametrize(("table", "column"), [("value_rows", "data"), ("checkpoints", "body")])
@pytest.mark.parametrize("row", [-1, 2, 0])
def test_a_damaged_state_is_read_from_the_record_and_made_whole(sqlite, caplog, table, column, row):
    filled(sqlite)
    damage(sqlite, table, column, row)

    async def go():
        session = ClewSession("s", sqlite.open())
        with caplog.at_level(logging.WARNING):
            assert texts(await session.get_items()) == WORDS
            assert texts(await session.get_items(2)) == WORDS[-2:]
        if table == "value_rows" or row == -1:
            assert "damaged" in caplog.text
        await session.add_items(said("one more"))
        assert texts(await session.get_items()) == [*WORDS, "one more"]
        assert texts([await session.pop_item()]) == ["one more"]
        assert texts([await session.pop_item()]) == WORDS[-1:]
        assert texts(await session.get_items()) == WORDS[:-1]
        elsewhere = await sqlite.open().aget_state("s")
        assert texts(elsewhere["items"]) == WORDS[:-1]

    run(go())


def test_a_damaged_message_hides_no_item(sqlite):
    filled(sqlite)
    damage(sqlite, "messages", "data", 3)

    async def go():
        session = ClewSession("s", sqlite.open())
        assert texts(await session.get_items()) == WORDS
        assert len(await session.checkpointer.alist_messages("s")) == len(WORDS)

    run(go())


def test_with_a_damaged_state_and_message_the_rest_is_readable(sqlite):
    filled(sqlite)
    damage(sqlite, "value_rows", "data", 0)
    damage(sqlite, "messages", "data", 3)

    async def go():
        session = ClewSession("s", sqlite.open())
        assert texts(await session.get_items()) == WORDS[:3] + WORDS[4:]

    run(go())


def test_without_a_record_damage_is_reported(sqlite):
    filled(sqlite, record_messages=False)
    damage(sqlite, "value_rows", "data", 0)

    async def go():
        session = ClewSession("s", sqlite.open(), record_messages=False)
        with pytest.raises(clew.CorruptRecordError):
            await session.get_items()
        with pytest.raises(clew.CorruptRecordError):
            await session.pop_item()

    run(go())
