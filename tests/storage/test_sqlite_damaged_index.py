"""A damaged substring index only costs time: searches work, no commit is refused, and the index is rebuilt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.storage.sqlite import SQLiteStorage, message_index, thread_index
from clew.testing import DrivenStorage, run_inline
from clew.testing.build import commit, deletion, fields, message

DAMAGES = {
    "structure": "UPDATE {index}_data SET block = zeroblob(8) WHERE id = 10",
    "totals": "UPDATE {index}_data SET block = x'ffffffffffff' WHERE id = 1",
    "blocks": "UPDATE {index}_data SET block = x'00' WHERE id > 10",
    "gone": "DELETE FROM {index}_data WHERE id > 10",
}
damages = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
noticed = pytest.mark.parametrize("damage", [DAMAGES["blocks"], DAMAGES["gone"]], ids=["blocks", "gone"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clew.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DrivenStorage]:
    monkeypatch.setattr(thread_index, "WAITING", 0)
    monkeypatch.setattr(message_index, "INDEX_FROM", 10)
    monkeypatch.setattr(message_index, "INDEX_STEP", 8)
    opened = DrivenStorage(lambda: SQLiteStorage(path))
    opened.apply_all(*(commit(f"t{number}", thread=fields(f"name {number}")) for number in range(20)))
    opened.apply(commit(messages=[message(f"m{number}", f"number {number}") for number in range(30)]))
    yield opened
    opened.close()


def ask(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path)
    with connection:
        rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def break_index(store: DrivenStorage, path: Path, damage: str, index: str) -> None:
    ask(path, damage.format(index=index))
    store.reopen()


@noticed
def test_threads_are_found_without_the_index(store, path, damage):
    break_index(store, path, damage, "thread_index")
    assert store.thread_ids(search="me 1", limit=3) == ["t19", "t18", "t17"]


@noticed
def test_messages_are_found_without_the_index(store, path, damage):
    break_index(store, path, damage, "message_index")
    assert store.message_ids(search="number 2", limit=3) == ["m2", "m20", "m21"]


def test_a_search_that_meets_the_damage_on_its_way_names_each_message_once(store, path):
    store.apply(commit("long", messages=[message(f"m{number}", f"number {number}") for number in range(9_000)]))
    blocks = [block for (block,) in ask(path, "SELECT id FROM message_index_data WHERE id > 10 ORDER BY id")]
    for block in blocks[::7]:
        ask(path, f"UPDATE message_index_data SET block = x'00' WHERE id = {block}")
        store.reopen()
        assert store.message_ids("long", search="number 8", limit=None) == [
            f"m{number}" for number in range(9_000) if str(number).startswith("8")
        ]


@damages
def test_no_commit_is_refused_and_the_index_of_threads_is_rebuilt(store, path, damage):
    break_index(store, path, damage, "thread_index")
    for number in range(20):
        store.apply(commit(f"t{number}", thread=fields(f"other {number}")))
        if number % 2:
            store.apply(deletion(f"t{number}"))
    run_inline(store.storage.reclaim())
    store.apply(commit("last", thread=fields("other")))
    assert ask(path, "SELECT count(*) FROM threads_to_index") == [(0,)]
    assert set(ask(path, "SELECT doc FROM thread_grams")) == set(ask(path, "SELECT thread_no FROM threads"))
    assert len(store.thread_ids(search="other")) == 11


@damages
def test_no_commit_is_refused_and_the_index_of_messages_is_rebuilt(store, path, damage):
    break_index(store, path, damage, "message_index")
    for number in range(30):
        store.apply(commit(messages=[message(f"m{number}", f"other {number}")]))
    run_inline(store.storage.reclaim())
    for number in range(30):
        store.apply(commit(messages=[message(f"n{number}", f"other {number}")]))
    assert store.message_ids(search="other 7") == ["m7", "n7"]
    assert ask(path, "SELECT indexed_messages FROM threads WHERE thread_id = 't'") == [(60,)]
    (found,) = ask(path, "SELECT count(*) FROM message_index WHERE message_index MATCH '\"r 7\"'")
    assert found == (2,)


def test_a_batch_that_meets_the_damage_is_applied_whole(store, path, caplog):
    break_index(store, path, DAMAGES["structure"], "message_index")
    store.apply_all(*(commit(messages=[message(f"n{number}", "new")]) for number in range(5)))
    assert store.message_ids(search="new") == [f"n{number}" for number in range(5)]
    assert "damaged search index" in caplog.text
