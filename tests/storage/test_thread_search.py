"""Threads are found by any part of their text and id, as the reference finds them, whichever way a storage takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clew.errors import ClewError
from clew.model.commit import Commit
from clew.model.config import ANY_USER
from clew.model.message import folded
from clew.storage.memory import MemoryStorage
from clew.storage.postgres import PgStorage
from clew.storage.postgres import schema as postgres_schema
from clew.storage.sqlite import SQLiteStorage, thread_index, thread_search
from clew.testing import DrivenStorage
from clew.testing.build import checkpoint, commit, deletion, fields, fork_of, later, message
from clew.testing.contract.search import SearchContract
from clew.testing.contract.threads import ThreadContract
from clew.testing.servers import shared_postgres
from tests.storage.test_contract_postgres import drop, schema_of

IDS = ["thread-1", "thread-2", "Straße", "İd", "e\u0301", "a%b_c", "x\"y'z\\", "AND (NEAR)", "🧵", "very long", "t"]
OWNERS = [None, "ann", "Bob's\\"]
PARTS = [
    "Lisbon", "lis", "ß", "SS", "İ", "i\u0307", "e\u0301", "é", "ﬁ", "Σ", "ς", "東京", "京都", "🧵🧶", "\0", "\x01", "\x02", "\ud800", "\ud7ff",
    "%", "_", "'", "''", '"', "\\", "*", ":*", "&", "|", "(", ")", " AND ", "NEAR", " ", "\n", "-", "^", "owner ", "very long",
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
        # With the storage's own rules on who may: both refuse the same.
        return commit(name, commit_id=f"k{number}", user=ANY_USER, at=at, thread=fields(other, user_id=owner))
    if kind == "delete":
        return deletion(name, user=ANY_USER)
    if kind == "fork":
        return commit(name, commit_id=f"k{number}", user=ANY_USER, at=at, fork=fork_of(other))
    return commit(name, commit_id=f"k{number}", user=ANY_USER, at=at, checkpoint=checkpoint(f"k{number}"))


def compare(store: DrivenStorage, done: list[tuple[Any, ...]], needles: list[str]) -> None:
    """Do it beside the reference, and search for what was said, for parts of it, and for what was not."""
    reference = DrivenStorage(MemoryStorage)
    try:
        for number, step in enumerate(done):
            made = committed(number, *step)
            outcomes = [each.outcomes(made)[0] for each in (reference, store)]
            assert isinstance(outcomes[0], ClewError) == isinstance(outcomes[1], ClewError), outcomes
        said = [record.text for record in reference.threads()] + [folded(each.thread_id) for each in reference.threads()]
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
    monkeypatch.setattr(thread_search, "REACH", reach)
    store = DrivenStorage(lambda: SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL"))
    yield store
    store.close()


@pytest.fixture(params=[0, 2])
def postgres(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DrivenStorage]:
    monkeypatch.setattr(postgres_schema, "NEWEST_THREADS", request.param)
    store = DrivenStorage(lambda: PgStorage(shared_postgres(), schema=schema_of(tmp_path)))
    yield store
    store.close()
    drop(tmp_path)


# One store for all examples: each leaves it empty, and what it left in an index must not be found by the next.
SHARED = {"suppress_health_check": [HealthCheck.function_scoped_fixture], "deadline": None}


@settings(max_examples=60, **SHARED)  # type: ignore[arg-type]
@given(done=st.lists(steps, max_size=25), needles=st.lists(texts, max_size=5))
def test_sqlite_finds_what_the_reference_finds(sqlite, done, needles):
    compare(sqlite, done, needles)


# Without shrinking where every step is a round trip.
@settings(max_examples=25, phases=[Phase.explicit, Phase.generate], **SHARED)  # type: ignore[arg-type]
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
    def _index(self, tmp_path, monkeypatch):
        monkeypatch.setattr(postgres_schema, "NEWEST_THREADS", 0)
        yield
        drop(tmp_path)

    def make_storage(self, tmp_path):
        return PgStorage(shared_postgres(), schema=schema_of(tmp_path))
