"""The index for searches across threads, on stores that are large by their own measure."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.model.commit import Removal
from clew.model.config import ANY_USER
from clew.storage import search_plan
from clew.storage.postgres import PgStorage
from clew.storage.search_filter import CELLS, CHUNK, CHUNKS, DamagedFilterError, Table, cells_of, chunks_in
from clew.storage.sqlite import SQLiteStorage
from clew.testing.build import commit, deletion, later, message
from clew.testing.contract.cross_search import CrossSearchContract
from clew.testing.driver import DrivenStorage, InlineStorage
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import shared_schema


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every store large enough for the index, and fill it with every search."""
    monkeypatch.setattr(search_plan, "DIRECT", -1)
    monkeypatch.setattr(search_plan, "WORTH", 1)


class TestIndexedSQLite(CrossSearchContract):
    def make_storage(self, tmp_path: Path) -> SQLiteStorage:
        return SQLiteStorage(tmp_path / "clew.db")


class TestIndexedPostgres(CrossSearchContract):
    schema: str

    @pytest.fixture(autouse=True)
    def _schema(self) -> Iterator[None]:
        with shared_schema() as self.schema:
            yield

    def make_storage(self, tmp_path: Path) -> PgStorage:
        return PgStorage(shared_postgres(), schema=self.schema)


@pytest.fixture
def store(tmp_path: Path):
    store = InlineStorage(lambda: SQLiteStorage(tmp_path / "clew.db"))
    yield store
    store.close()


def fill(store: DrivenStorage, count: int = 1_000, *, thread: str = "t", start: int = 0) -> None:
    said = [message(f"m{number}", f"word {number} zebra{number % 97}", created_at=later(number))
            for number in range(start, start + count)]  # fmt: skip
    store.apply(commit(thread, messages=said))


def sql(store: DrivenStorage, statement: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(store.storage.path) as connection:  # type: ignore[attr-defined]
        found = connection.execute(statement).fetchall()
    connection.close()
    return found


def index_all(store: DrivenStorage) -> None:
    store.hits("create the index")
    store.run(store.storage.reclaim())


def expected(needle: str, count: int = 1_000) -> list[str]:
    return [f"t/m{n}" for n in range(count - 1, -1, -1) if needle in f"word {n} zebra{n % 97}"]


def test_a_search_creates_the_index_and_fills_it(store):
    fill(store)
    assert store.hits("zebra13 ") == []
    assert sql(store, "SELECT count(*) FROM search_waiting") == [(0,)]
    assert sql(store, "SELECT chunks FROM search_segments") == [(1000 // CHUNK + 1,)]
    assert store.hits("zebra13") == expected("zebra13")


def test_a_small_store_gets_no_index(store, monkeypatch):
    monkeypatch.setattr(search_plan, "DIRECT", 1_000)
    fill(store)
    assert store.hits("zebra13") == expected("zebra13")
    assert sql(store, "SELECT name FROM sqlite_schema WHERE name LIKE 'search%'") == []


def test_segments_are_filled_up_before_others_begin(store):
    index_all(store)
    fill(store, 6_000)
    index_all(store)
    fill(store, 500, start=6_000)
    index_all(store)
    assert sql(store, "SELECT segment_no, chunks FROM search_segments")[0] == (0, CHUNKS)
    for needle in ("zebra13", "word 61", "6499", "o", "word"):
        assert store.hits(needle) == expected(needle, 6_500)
        assert store.hits(needle, limit=5) == expected(needle, 6_500)[:5]
    page = store.search("zebra1", limit=100)
    assert store.hits("zebra1", limit=100, before=page[-1].place) == expected("zebra1", 6_500)[100:200]


DAMAGE = [
    "UPDATE search_cells SET cells = zeroblob(length(cells))",
    "UPDATE search_cells SET cells = x''",
    "UPDATE search_chunks SET members = zeroblob(length(members))",
    "UPDATE search_chunks SET members = x''",
    "UPDATE search_segments SET newest = 0, oldest = 0",
    "UPDATE search_segments SET chunks = 1",
    "DELETE FROM search_cells",
    "DELETE FROM search_chunks",
    "DROP TABLE search_cells",
    "DROP TABLE search_segments",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_hides_nothing_and_is_made_anew(store, damage):
    fill(store)
    index_all(store)
    sql(store, damage)
    for _ in range(3):
        assert store.hits("zebra13") == expected("zebra13")
    fill(store, 100, start=1_000)
    index_all(store)
    assert store.hits("zebra13") == expected("zebra13", 1_100)
    assert sql(store, "SELECT count(*) FROM search_waiting") == [(0,)]


def test_writes_go_on_after_the_index_is_damaged(store):
    fill(store)
    index_all(store)
    sql(store, "DROP TABLE search_waiting")
    store.hits("zebra13")
    fill(store, 10, start=1_000)
    assert store.hits("word 1009") == ["t/m1009"]


def test_a_message_number_that_is_used_again_leads_to_the_new_message(store):
    fill(store)
    index_all(store)
    store.apply(deletion("t"))
    store.apply(commit("other", user="ann", messages=[message("m", "word zebra13")]))
    assert store.hits("zebra13") == ["other/m"]
    assert store.hits("zebra13", user=None) == []
    index_all(store)
    assert store.hits("zebra13", user="ann") == ["other/m"]


def test_another_process_without_the_index_in_mind_keeps_it_right(store, tmp_path):
    fill(store)
    index_all(store)
    other = InlineStorage(lambda: SQLiteStorage(tmp_path / "clew.db"))
    other.apply(commit(messages=[message("m5", "quagga", created_at=later(-5))], remove=Removal(messages=("m6",))))
    other.close()
    assert store.hits("quagga") == ["t/m5"]
    assert store.hits("word 5 ") == store.hits("word 6 ") == []
    index_all(store)
    assert store.hits("quagga") == ["t/m5"]


def test_a_text_that_is_common_among_others_and_rare_here_is_found(store, monkeypatch):
    monkeypatch.setattr(search_plan, "ENOUGH", 2_000)
    monkeypatch.setattr(search_plan, "_CHUNKS_AT_ONCE", 8)
    fill(store, 6_000)
    store.apply(commit("mine", user="ann", messages=[message("m", "word", created_at=later(-9))]))
    index_all(store)
    assert store.hits("word", user="ann", limit=1) == ["mine/m"]
    assert store.hits("zebra", user="ann") == []
    assert store.hits("word 17 ", user=ANY_USER) == ["t/m17"]


@pytest.mark.parametrize("needle", ["lisb", "Grüße", "東京", "a\0b!", "xx" * 50])
def test_a_filter_lets_through_every_chunk_with_the_text(needle):
    table = Table()
    texts = [[f"text {chunk} {each}".encode() for each in range(CHUNK)] for chunk in range(CHUNKS)]
    for chunk in (0, 7, 63):
        texts[chunk][-1] += b" " + needle.encode()
    for chunk, some in enumerate(texts):
        table.add(chunk, some)
    parts = dict(Table(table.parts()).parts())
    found = chunks_in(parts, cells_of(needle.encode()), CHUNKS)
    assert {0, 7, 63} <= set(found)
    assert len(found) < 10
    assert chunks_in(parts, cells_of(needle.encode()), 7) == [0]


def test_a_damaged_part_is_noticed():
    parts = dict(Table().parts())
    assert len(parts) == -(-CELLS // 128)
    (part, _), *_ = cells_of(b"word")
    parts[part] = parts[part][:-1] + b"\x01"
    with pytest.raises(DamagedFilterError):
        chunks_in(parts, cells_of(b"word"), CHUNKS)
