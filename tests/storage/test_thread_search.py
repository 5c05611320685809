"""Thread search: every storage finds threads by any part of their text and id, like the memory storage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clew.errors import ClewError
from clew.model.commit import Commit
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.model.queries import ThreadQuery
from clew.storage.memory import MemoryStorage
from clew.storage.postgres import PgStorage
from clew.storage.postgres import schema as postgres_schema
from clew.storage.sqlite import SQLiteStorage, queries, thread_index
from clew.testing import DrivenStorage, run_inline
from clew.testing.build import checkpoint, commit, deletion, fields, fork_of, later, message
from clew.testing.contract.search import SearchContract
from clew.testing.contract.threads import ThreadContract
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import opened, own_schema, shared_schema
from tests.storage.test_postgres import explained
from tests.storage.test_postgres import fill as fill_postgres

IDS = ["thread-1", "thread-2", "Straße", "İd", "e\u0301", "a%b_c", "x\"y'z\\", "AND (NEAR)", "🧵", "very long", "t"]
OWNERS = [None, "ann", "Bob's\\"]
PARTS = [
    "Lisbon", "lis", "ß", "SS", "İ", "i\u0307", "e\u0301", "é", "ﬁ", "Σ", "ς", "東京", "京都", "🧵🧶",
    "\0", "\x01", "\x02", "\ud800", "\ud7ff", "%", "_", "'", "''", '"', "\\", "*", ":*", "&", "|", "(", ")",
    " AND ", "NEAR", " ", "\n", "-", "^", "owner ", "very long",
    "aaaa", "abcabc", "x",
]  # fmt: skip

texts = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=6).map("".join)
names = st.sampled_from(IDS)
steps = st.one_of(
    st.tuples(st.just("describe"), names, texts, st.sampled_from(OWNERS)),
    st.tuples(st.just("save"), names, st.none(), st.none()),
    st.tuples(st.just("delete"), names, st.none(), st.none()),
    st.tuples(st.just("fork"), names, names, st.none()),
)


def committed(number: int, kind: str, name: str, other: Any, owner: str | None) -> Commit:
    at = later(number // 2)
    if kind == "describe":
        # Both storages apply the same rules, so both refuse the same commits.
        return commit(name, commit_id=f"k{number}", user=ANY_USER, at=at, thread=fields(other, user_id=owner))
    if kind == "delete":
        return deletion(name, user=ANY_USER)
    if kind == "fork":
        return commit(name, commit_id=f"k{number}", user=ANY_USER, at=at, fork=fork_of(other))
    return commit(name, commit_id=f"k{number}", user=ANY_USER, at=at, checkpoint=checkpoint(f"k{number}"))


def compare(store: DrivenStorage, done: list[tuple[Any, ...]], needles: list[str]) -> None:
    """Do the steps on both storages, and search for texts, for parts of them, and for texts that are not there."""
    reference = DrivenStorage(MemoryStorage)
    try:
        for number, step in enumerate(done):
            made = committed(number, *step)
            outcomes = [each.outcomes(made)[0] for each in (reference, store)]
            assert isinstance(outcomes[0], ClewError) == isinstance(outcomes[1], ClewError), outcomes
        said = [record.text for record in reference.threads()] + [
            folded(each.thread_id) for each in reference.threads()
        ]
        parts = [text[at : at + size] for text in said for size in (1, 2, 4, 5, 9) for at in (0, 1, len(text) - size)]
        for needle in dict.fromkeys([*map(folded, needles), *said, *parts]):
            for query in ({"user": ANY_USER}, {"user": "ann", "limit": 2}, {"user": None, "offset": 1, "limit": 1}):
                found = store.thread_ids(search=needle, **query)
                assert found == reference.thread_ids(search=needle, **query), (needle, query)
        for name in reference.thread_ids():
            store.apply(deletion(name, user=ANY_USER))
        assert store.thread_ids() == []
    finally:
        reference.close()


@pytest.fixture(params=["at once", "some later", "no index"])
def sqlite(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DrivenStorage]:
    waiting, reach = {"at once": (0, 1_000), "some later": (3, 1), "no index": (1_000, 1)}[request.param]
    monkeypatch.setattr(thread_index, "WAITING", waiting)
    monkeypatch.setattr(thread_index, "AT_ONCE", 2)
    monkeypatch.setattr(thread_index, "REACH", reach)
    store = DrivenStorage(lambda: SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL"))
    yield store
    store.close()


@pytest.fixture(params=[0, 2])
def postgres(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[DrivenStorage]:
    monkeypatch.setattr(postgres_schema, "NEWEST_THREADS", request.param)
    with shared_schema() as schema, opened(schema) as store:
        yield store


# One store for all examples. Each leaves it empty, and the next must not find what it left in an index.
SHARED = {"suppress_health_check": [HealthCheck.function_scoped_fixture], "deadline": None}


@settings(max_examples=40, **SHARED)  # type: ignore[arg-type]
@given(done=st.lists(steps, max_size=25), needles=st.lists(texts, max_size=5))
def test_sqlite_finds_what_the_reference_finds(sqlite, done, needles):
    compare(sqlite, done, needles)


# Without shrinking, because every step is a round trip.
@settings(max_examples=15, phases=[Phase.explicit, Phase.generate], **SHARED)  # type: ignore[arg-type]
@given(done=st.lists(steps, max_size=15), needles=st.lists(texts, max_size=3))
def test_postgres_finds_what_the_reference_finds(postgres, done, needles):
    compare(postgres, done, needles)


class TestSQLiteThroughTheIndex(SearchContract, ThreadContract):
    @pytest.fixture(autouse=True)
    def _index(self, monkeypatch):
        monkeypatch.setattr(thread_index, "WAITING", 0)

    def make_storage(self, tmp_path):
        return SQLiteStorage(tmp_path / "clew.db")


class TestPgThroughTheIndex(SearchContract, ThreadContract):
    @pytest.fixture(autouse=True)
    def _index(self, monkeypatch):
        monkeypatch.setattr(postgres_schema, "NEWEST_THREADS", 0)
        with shared_schema() as self.schema:
            yield

    def make_storage(self, tmp_path):
        return PgStorage(shared_postgres(), schema=self.schema)


# SQLite's index


def fill(path: Path, count: int, first: int = 0) -> None:
    """Write many threads directly into the file. Its triggers keep the index up to date."""
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(
            "INSERT INTO threads (thread_id, user_id, log_no, incarnation, epoch, next_value, sequence, next_message,"
            " message_count, indexed_messages, checkpoint_count, size, created_at, updated_at, text, data)"
            " VALUES (?, ?, 0, 'i', 0, 0, 1, 0, 0, 0, 0, 0, ?, ?, ?, x'')",
            (
                (
                    f"thread-{number:06d}",
                    "ann" if number % 2 else "bob",
                    number,
                    number,
                    f"trip {number % 100}".encode(),
                )
                for number in range(first, first + count)
            ),
        )
    connection.close()


def ask(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path)
    rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clew.db"


@pytest.fixture
def store(path: Path) -> Iterator[DrivenStorage]:
    driven = DrivenStorage(lambda: SQLiteStorage(path, synchronous="NORMAL"))
    yield driven
    driven.close()


def index_all(connection: sqlite3.Connection) -> None:
    index = thread_index.ThreadIndex(connection)
    while index.waiting():
        index.advance(4_096)


def work(path: Path, **query: Any) -> int:
    """How many steps SQLite's virtual machine takes for a search."""
    connection = sqlite3.connect(path)
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(count, 1)
    queries.threads(connection, ThreadQuery(**query))
    connection.close()
    return steps


NEEDLES = {"thread-000123": 4_000, "000123": 4_000, "zq": 4_000, "rip 7": 12_000, "thread": 12_000, "0": 12_000}
"""What is searched for, and how many steps it may take."""


def test_the_work_of_a_search_does_not_grow_with_the_threads(tmp_path):
    for count in (1_000, 12_000):
        path = tmp_path / f"{count}.db"
        run_inline(SQLiteStorage(path).setup())
        fill(path, count)
        connection = sqlite3.connect(path, isolation_level=None)
        index_all(connection)
        connection.close()
        assert ask(path, "SELECT count(*) FROM indexed_threads") == [(count,)]
        for (needle, most), user in product(NEEDLES.items(), ("ann", ANY_USER)):
            assert work(path, user=user, search=needle, limit=20) < most, (count, needle, user)


def test_a_rare_name_is_found_among_common_ones_and_the_other_way_round(store, path):
    store.apply(commit("first", thread=fields("needle")))
    fill(path, 3_000)
    store.apply(commit("last", thread=fields("thread-"), at=later(-1)))
    connection = sqlite3.connect(path, isolation_level=None)
    index_all(connection)
    connection.close()
    assert store.thread_ids(search="needle", limit=2) == ["first"]
    # All its grams are common, and it is not among the newest.
    assert store.thread_ids(search="thread-00000", user="bob", limit=20) == [
        f"thread-{number:06d}" for number in (8, 6, 4, 2, 0)
    ]
    assert store.thread_ids(search="trip 7", user="ann", limit=1, offset=179) == ["thread-000007"]


def test_a_save_in_a_known_thread_touches_no_index(store, path, monkeypatch):
    monkeypatch.setattr(thread_index, "WAITING", 0)
    store.apply(commit(user="ann", thread=fields("name", user_id="ann"), checkpoint=checkpoint("c0")))
    monkeypatch.setattr(thread_index, "WAITING", 64)
    store.apply(commit(user="ann", checkpoint=checkpoint("c1"), messages=[message("m1")]))
    store.apply(commit(user="ann", thread=fields("name", data=b"other", user_id="ann")))
    assert ask(path, "SELECT count(*) FROM threads_to_index") == [(0,)]
    store.apply(commit(user="ann", thread=fields("names", user_id="ann")))
    assert ask(path, "SELECT count(*) FROM threads_to_index") == [(1,)]


def test_threads_enter_the_index_many_at_a_time(store, path):
    for number in range(thread_index.WAITING):
        store.apply(commit(f"t{number}", messages=[message("m")]))
    assert ask(path, "SELECT name FROM sqlite_schema WHERE name = 'thread_index'") == []
    store.apply(commit("one more", messages=[message("m")]))
    assert ask(path, "SELECT count(*) FROM indexed_threads") == [(thread_index.WAITING + 1,)]
    assert ask(path, "SELECT count(*) FROM threads_to_index") == [(0,)]


def test_reclaiming_erases_deleted_threads_from_the_index(store, path):
    for number in range(200):
        text = "confidential zebra" if number % 2 else "nothing of note"
        store.apply(commit(f"t{number}", thread=fields(f"{text} {number}")))
    for number in range(1, 200, 2):
        store.apply(deletion(f"t{number}"))
    run_inline(store.storage.reclaim())
    blocks = b"".join(block for (block,) in ask(path, "SELECT block FROM thread_index_data"))
    assert b"note".hex().encode() in blocks
    assert b"zebr".hex().encode() not in blocks
    assert ask(path, "SELECT count(*), sum(instr(text, 'zebra')) FROM indexed_threads") == [(100, 0)]
    assert len(store.thread_ids(search="of note")) == 100


def test_triggers_keep_the_index_right_when_others_write_to_the_file(store, path, monkeypatch):
    monkeypatch.setattr(thread_index, "WAITING", 0)
    store.apply_all(*(commit(name, thread=fields(f"named {name}")) for name in ("a", "b", "c")))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE threads SET text = CAST('renamed' AS BLOB) WHERE thread_id = 'a'")
        connection.execute("DELETE FROM threads WHERE thread_id = 'c'")
    connection.close()
    fill(path, 1)
    assert store.thread_ids(search="named") == ["b", "a"]
    assert store.thread_ids(search="renamed") == ["a"]
    assert store.thread_ids(search="thread-0") == ["thread-000000"]
    store.apply(commit("b", thread=fields("b")))
    assert ask(path, "SELECT count(*) FROM threads_to_index") == [(0,)]
    assert store.thread_ids(search="named") == ["a"]


def test_threads_are_found_where_sqlite_has_no_fts5(store, path, monkeypatch):
    monkeypatch.setattr(thread_index, "WAITING", 0)
    monkeypatch.setattr(thread_index, "REACH", 2)
    monkeypatch.setattr(thread_index, "has_fts5", lambda connection: False)
    store.apply_all(*(commit(f"t{number}", thread=fields(f"name {number}")) for number in range(20)))
    assert store.thread_ids(search="me 1", limit=3) == ["t19", "t18", "t17"]
    # The index was created by an SQLite with FTS5, and is read by one without.
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    made = "CREATE VIRTUAL TABLE thread_grams USING nowhere(thread_index, instance)"
    with connection:
        connection.execute("INSERT INTO sqlite_schema VALUES ('table', 'thread_grams', 'thread_grams', 0, ?)", (made,))
    connection.close()
    store.reopen()
    assert store.thread_ids(search="me 1", limit=3) == ["t19", "t18", "t17"]


# PostgreSQL's index


def test_a_search_in_postgresql_asks_the_index_of_words_whatever_the_plan(tmp_path):
    with own_schema(tmp_path) as schema, opened(schema) as store:
        store.threads()
        fill_postgres(store, 5_000)
        statements = store.storage._statements  # type: ignore[attr-defined]
        for user in ("u1", None, ANY_USER):
            for needle in ("name", "f123", "x", "100% 'sure' \\ & (no)"):
                question = statements.threads(ThreadQuery(user=user, search=needle))
                for mode in ("force_generic_plan", "force_custom_plan"):
                    plan = explained(store, question, mode=mode)
                    assert "threads_by_words" in plan, (user, needle, mode)
                    assert "Seq Scan" not in plan, (user, needle, mode)


@pytest.mark.parametrize("user_id_type", ["int", "bigint"])
def test_threads_of_numbered_users_are_found(tmp_path, monkeypatch, user_id_type):
    monkeypatch.setattr(postgres_schema, "NEWEST_THREADS", 0)
    with own_schema(tmp_path) as schema, opened(schema, user_id_type=user_id_type) as store:
        for owner in ("7", "8", None):
            store.apply(commit(f"of {owner}", user=owner, thread=fields("a plan", user_id=owner)))
        for owner in ("7", "8", None):
            assert store.thread_ids(search="plan", user=owner) == [f"of {owner}"]
        assert len(store.thread_ids(search="plan")) == 3


def test_names_too_long_for_a_list_of_words_are_found(monkeypatch):
    monkeypatch.setattr(postgres_schema, "NEWEST_THREADS", 0)
    with shared_schema() as schema, opened(schema) as store:
        long = "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(150_000))
        store.apply(commit("long", user="u" * 3_000, thread=fields(long, user_id="u" * 3_000)))
        for needle in (long[:2], long[70_000:70_020], long):
            assert store.thread_ids(search=needle, user="u" * 3_000) == ["long"]
        assert store.thread_ids(search="nowhere") == []
