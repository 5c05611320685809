"""Descriptions of threads: changed field by field, filtered by, and listed in pages."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from clew import ANY_USER, ConfigError, PermissionDeniedError, RetentionPolicy, ThreadInfo
from clew.checkpointer import thread_pages

ANA = {"thread_id": "t", "user_id": "ana"}


def names(threads):
    return [each.thread_id for each in threads]


def test_only_the_given_fields_change(checkpointer):
    checkpointer.put_thread(ANA, thread_name="Trip", tags=["a", "b"], metadata={"x": 1, "y": 2}, run_id="r1")
    policy = RetentionPolicy(max_history=3)
    checkpointer.put_retention(ANA, policy)
    changes: list[dict[str, Any]] = [
        {"thread_name": "New"},
        {"tags": ["c"]},
        {"ttl": 60},
        {"metadata": {"y": 3}},
        {"run_id": "r2"},
    ]
    for change in changes:
        before = checkpointer.get_thread(ANA)
        checkpointer.put_thread(ANA, **change)
        expected = {**change, "tags": tuple(change["tags"])} if "tags" in change else dict(change)
        if "metadata" in change:
            expected["metadata"] = {"x": 1, "y": 3}
        now = checkpointer.get_thread(ANA)
        assert now == replace(before, **expected, updated_at=now.updated_at)
        assert now.retention == policy


def test_a_mapping_changes_what_it_has(checkpointer):
    checkpointer.put_thread(ANA, {"thread_name": "Trip", "tags": ["a"], "metadata": {"x": 1}})
    checkpointer.put_thread(ANA, {"thread_name": "New"})
    found = checkpointer.get_thread(ANA)
    assert (found.thread_name, found.tags, found.metadata) == ("New", ("a",), {"x": 1})
    checkpointer.put_thread(ANA, {"thread_name": "Mapping"}, thread_name="Keyword")
    assert checkpointer.get_thread(ANA).thread_name == "Keyword"


def test_a_field_is_emptied_on_request_only(checkpointer):
    checkpointer.put_thread(ANA, thread_name="Trip", tags=["a"], metadata={"x": 1, "y": 2}, ttl=60)
    checkpointer.put_thread(ANA, metadata={"x": None})
    assert checkpointer.get_thread(ANA).metadata == {"y": 2}
    checkpointer.put_thread(ANA, thread_name=None, tags=[], metadata=None, ttl=None)
    found = checkpointer.get_thread(ANA)
    assert (found.thread_name, found.tags, found.metadata, found.ttl) == (None, (), {}, None)
    assert checkpointer.list_threads({"user_id": "ana"}, tags=["a"]) == []


def test_metadata_is_replaced_as_a_whole_on_request(checkpointer):
    checkpointer.put_thread(ANA, thread_name="Trip", metadata={"x": 1, "y": 2})
    checkpointer.put_thread(ANA, metadata={"x": 3, "z": None}, existing_metadata="replace")
    found = checkpointer.get_thread(ANA)
    assert (found.thread_name, found.metadata) == ("Trip", {"x": 3})
    assert names(checkpointer.list_threads({"user_id": "ana"}, metadata={"y": 2})) == []
    checkpointer.put_thread(ANA, thread_name="New", existing_metadata="replace")
    assert checkpointer.get_thread(ANA).metadata == {"x": 3}
    checkpointer.put_thread(ANA, metadata={}, existing_metadata="replace")
    assert checkpointer.get_thread(ANA).metadata == {}


def test_concurrent_replacements_of_the_metadata_are_never_mixed(store):
    one, other = store.open(), store.open()
    whole: list[dict[str, Any]] = [{"a": 1, "b": 1}, {"b": 2, "c": 2}]
    for _ in range(10):
        threads = [
            threading.Thread(
                target=memory.put_thread, args=(ANA, {"metadata": each}), kwargs={"existing_metadata": "replace"}
            )
            for memory, each in zip((one, other), whole, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one.get_thread(ANA).metadata in whole


@pytest.mark.parametrize("wrong", ["keep", None, True, 1])
def test_how_metadata_is_changed_is_checked(local, wrong):
    with pytest.raises(ConfigError, match="existing_metadata"):
        local.open().put_thread(ANA, metadata={}, existing_metadata=wrong)


def test_a_thread_info_that_only_names_a_thread_removes_nothing(checkpointer):
    checkpointer.put_thread(ANA, tags=["a"], metadata={"x": 1}, ttl=60)
    checkpointer.put_thread(ANA, ThreadInfo(thread_id="t", thread_name="Trip"))
    found = checkpointer.get_thread(ANA)
    assert (found.thread_name, found.tags, found.metadata, found.ttl) == ("Trip", ("a",), {"x": 1}, 60)
    checkpointer.put_thread(ANA, replace(found, tags=("b",), ttl=30))
    assert (checkpointer.get_thread(ANA).tags, checkpointer.get_thread(ANA).ttl) == (("b",), 30)


def test_concurrent_changes_of_different_fields_all_count(store):
    first, second = store.open(), store.open()
    first.put_thread(ANA, thread_name="Trip")

    def change(checkpointer, prefix):
        for number in range(10):
            checkpointer.put_thread(ANA, metadata={f"{prefix}{number}": number})

    workers = [threading.Thread(target=change, args=pair) for pair in ((first, "a"), (second, "b"))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert len(first.get_thread(ANA).metadata) == 20
    assert first.get_thread(ANA).thread_name == "Trip"


def test_a_thread_that_another_creates_meanwhile_keeps_its_fields(store, monkeypatch):
    first, second = store.open(), store.open()
    engine = first._engine
    apply = engine.apply

    async def late(commit):
        monkeypatch.undo()
        await second.aput_thread(ANA, tags=["theirs"], metadata={"k": 1})
        return await apply(commit)

    monkeypatch.setattr(engine, "apply", late)
    first.put_thread(ANA, thread_name="Mine")
    found = first.get_thread(ANA)
    assert (found.thread_name, found.tags, found.metadata) == ("Mine", ("theirs",), {"k": 1})


def test_fields_that_nothing_understands_are_refused(checkpointer):
    for wrong in (
        {"nmae": "x"},
        {"thread_name": 3},
        {"tags": "a"},
        {"tags": [1]},
        {"metadata": 1},
        {"ttl": 0},
        {"ttl": -1},
        {"ttl": "x"},
        {"retention": 3},
        {"thread_id": "other"},
    ):
        with pytest.raises(ConfigError):
            checkpointer.put_thread(ANA, **wrong)
    with pytest.raises(ConfigError):
        checkpointer.put_thread(ANA, 3)
    assert checkpointer.get_thread(ANA) is None


def test_another_user_neither_changes_nor_finds_a_thread(checkpointer):
    checkpointer.put_thread(ANA, thread_name="Trip", tags=["a"], metadata={"x": 1})
    eve = {"thread_id": "t", "user_id": "eve"}
    for whose in (eve, {"thread_id": "t"}):
        with pytest.raises(PermissionDeniedError):
            checkpointer.put_thread(whose, tags=["stolen"])
    mine = checkpointer.list_threads({"user_id": "ana"})[0]
    for user in ("eve", None):
        asked = {"user_id": user}
        assert checkpointer.list_threads(asked, tags=["a"]) == checkpointer.list_threads(asked, metadata={"x": 1}) == []
        assert checkpointer.list_threads(asked, before=mine) == []
    assert names(checkpointer.list_threads({"user_id": ANY_USER}, tags=["a"])) == ["t"]


def test_threads_are_filtered_by_tags_and_metadata(checkpointer):
    user = {"user_id": "ana"}
    described = {
        "a": {"tags": ["work", "urgent"], "metadata": {"project": "x", "n": 1, "deep": {"b": [1, 2.0], "a": None}}},
        "b": {"tags": ["work"], "metadata": {"project": "x", "n": 2}},
        "c": {"tags": ["home"], "metadata": {"project": "y", "done": True}},
    }
    for name, fields in described.items():
        checkpointer.put_thread({"thread_id": name, **user}, **fields)
    for filters, expected in (
        ({"tags": ["work"]}, ["b", "a"]),
        ({"tags": ["work", "urgent"]}, ["a"]),
        ({"tags": ["Work"]}, []),
        ({"tags": []}, ["c", "b", "a"]),
        ({"metadata": {"project": "x"}}, ["b", "a"]),
        ({"metadata": {"project": "x", "n": 2}}, ["b"]),
        ({"metadata": {"n": 1.0}}, ["a"]),
        ({"metadata": {"n": True}}, []),
        ({"metadata": {"done": True}}, ["c"]),
        ({"metadata": {"deep": {"a": None, "b": (1, 2)}}}, ["a"]),
        ({"metadata": {"project": "x"}, "tags": ["home"]}, []),
        ({"metadata": {"project": "x"}, "search": "URGENT"}, ["a"]),
        ({"tags": ["work"], "limit": 1}, ["b"]),
        ({"tags": ["work"], "offset": 1}, ["a"]),
    ):
        assert names(checkpointer.list_threads(user, **filters)) == expected, filters
    for wrong in (
        {"tags": "work"},
        {"tags": [3]},
        {"metadata": 3},
        {"metadata": {"x": None}},
        {"metadata": {"x": {1}}},
    ):
        with pytest.raises(ConfigError):
            checkpointer.list_threads(user, **wrong)


def test_a_fork_has_the_tags_of_its_source(checkpointer):
    checkpointer.put_thread(ANA, tags=["a"], ttl=60)
    checkpointer.put_state(ANA, {"n": 1})
    made = checkpointer.fork(ANA, "copy")
    assert names(checkpointer.list_threads({"user_id": "ana"}, tags=["a"])) == ["copy", "t"]
    assert checkpointer.get_thread({**ANA, "thread_id": made["thread_id"]}).ttl == 60


def test_pages_go_on_where_the_last_one_ended(checkpointer):
    user = {"user_id": "ana"}
    for number in range(7):
        checkpointer.put_thread({"thread_id": f"t{number}", **user}, tags=["a"])
    first = checkpointer.list_threads(user, limit=3)
    assert names(first) == ["t6", "t5", "t4"]
    # Others write meanwhile.
    checkpointer.put_thread({"thread_id": "new", **user}, tags=["a"])
    checkpointer.put_thread({"thread_id": "t5", **user}, thread_name="moved")
    assert names(checkpointer.list_threads(user, limit=2, before=first[-1])) == ["t3", "t2"]
    assert names(checkpointer.list_threads(user, before=first[-1].position, tags=["a"])) == ["t3", "t2", "t1", "t0"]
    for wrong in ("t4", "2026 t", 3, ThreadInfo(thread_id="t")):
        with pytest.raises(ConfigError):
            checkpointer.list_threads(user, before=wrong)


def test_without_a_limit_all_threads_are_listed_page_by_page(local, monkeypatch):
    monkeypatch.setattr(thread_pages, "FIRST_PAGE", 3)
    monkeypatch.setattr(thread_pages.thread_pages, "__defaults__", (3,))
    checkpointer = local.open()
    for number in range(40):
        checkpointer.put_thread(f"t{number:02}", tags=["a"] if number % 2 else [])
    expected = [f"t{number:02}" for number in reversed(range(40))]
    assert names(checkpointer.list_threads({})) == expected
    assert names(checkpointer.list_threads({}, limit=17)) == expected[:17]
    assert names(checkpointer.list_threads({}, offset=5)) == expected[5:]
    assert names(checkpointer.list_threads({}, tags=["a"])) == expected[::2]


def test_a_thread_that_moves_to_the_front_during_a_list_is_in_it(local, monkeypatch):
    monkeypatch.setattr(thread_pages, "FIRST_PAGE", 3)
    monkeypatch.setattr(thread_pages.thread_pages, "__defaults__", (3,))
    checkpointer, other = local.open(), local.open()
    for number in range(20):
        checkpointer.put_thread(f"t{number:02}", tags=["a"])
    engine, read = checkpointer._engine, []
    threads = engine.threads

    async def reading(query):
        page = await threads(query)
        read.append(query)
        if len(read) == 2:
            other.put_thread("t01", thread_name="moved")
        return page

    monkeypatch.setattr(engine, "threads", reading)
    found = names(checkpointer.list_threads({}))
    assert sorted(found) == [f"t{number:02}" for number in range(20)]
    assert found[0] == "t01"
    assert all(query.limit is not None for query in read)


def test_a_ttl_may_be_a_timedelta(checkpointer):
    checkpointer.put_thread("t", ttl=timedelta(hours=1))
    found = checkpointer.get_thread("t")
    assert found.ttl == 3600
    assert found.expires_at == found.updated_at + timedelta(hours=1)
