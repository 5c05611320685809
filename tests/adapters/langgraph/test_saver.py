"""Requirements of LangGraph on savers that its conformance suite does not test."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.checkpoint.sqlite import SqliteSaver

import clew
from clew.adapters.langgraph import ClewSaver, loader
from tests.adapters.langgraph.support import SyncSaver, chat, config, delta_graph, say
from tests.adapters.langgraph.test_values import put
from tests.checkpointer.support import SpyStorage, python


def test_every_method_of_a_saver_is_there_sync_and_async(saver):
    inherited = {"get", "aget", "with_allowlist", "config_specs", "serde"}
    asked = {name for name in vars(BaseCheckpointSaver) if not name.startswith("_")} - inherited
    assert {name for name in asked if getattr(ClewSaver, name) is getattr(BaseCheckpointSaver, name)} == set()
    for name in asked - {"get_next_version"}:
        ours, theirs = (inspect.signature(getattr(each, name)) for each in (saver, BaseCheckpointSaver))
        assert ["self", *ours.parameters] == list(theirs.parameters), name


def test_without_langgraph_the_error_names_the_extra():
    script = """
import sys
import clew, clew.cli.app
assert not [name for name in sys.modules if name.startswith(("langgraph", "langchain"))]
sys.modules["langgraph.checkpoint.base"] = None
try:
    import clew.adapters.langgraph
except clew.MissingExtraError as error:
    print(error)
"""
    assert "pip install 'clew[langgraph]'" in python(script)


def test_the_sync_bridge_covers_every_async_method_that_the_suite_calls():
    bridged = {name for name in vars(SyncSaver) if name.startswith("a")}
    asked = {
        name
        for name in vars(ClewSaver)
        if name.startswith("a") and name in vars(BaseCheckpointSaver) and name != "aget_delta_channel_history"
    }
    assert bridged == asked


def test_writes_come_in_the_order_of_path_task_and_place(saver):
    at = put(saver, {"x": 1})
    saver.put_writes(at, [("a", 1), ("b", 2)], "task-z", "path-1")
    saver.put_writes(at, [("c", 3)], "task-a", "path-2")
    saver.put_writes(at, [(str(number), number) for number in range(12)], "task-m", "path-0")
    saver.put_writes(at, [("input", 0)], "task-n")
    expected = [("task-n", "input", 0), *[("task-m", str(number), number) for number in range(12)]]
    expected += [("task-z", "a", 1), ("task-z", "b", 2), ("task-a", "c", 3)]
    assert saver.get_tuple(at).pending_writes == expected
    assert next(saver.list(config())).pending_writes == expected


def test_a_write_that_comes_again_changes_nothing_but_a_special_one_is_replaced(saver):
    at = put(saver, {"x": 1})
    saver.put_writes(at, [("a", "first")], "task")
    saver.put_writes(at, [("a", "again")], "task")
    saver.put_writes(at, [(ERROR, "first"), (INTERRUPT, "first")], "task")
    saver.put_writes(at, [(ERROR, "again"), (INTERRUPT, "again")], "task")
    assert [(channel, value) for _, channel, value in saver.get_tuple(at).pending_writes] == [
        (INTERRUPT, "again"),
        (ERROR, "again"),
        ("a", "first"),
    ]


def test_writes_may_come_before_their_checkpoint(saver):
    first = put(saver, {"x": 1})
    later = {"configurable": {**first["configurable"], "checkpoint_id": "1f000002-0000-6000-8000-000000000000"}}
    saver.put_writes(later, [("a", 1)], "task")
    put(saver, {"x": 2}, first, 2)
    assert saver.get_tuple(later).pending_writes == [("task", "a", 1)]


def test_a_checkpoint_that_is_put_again_is_replaced_in_its_place(saver):
    first = put(saver, {"x": 1})
    second = put(saver, {"x": 2}, first, 2)
    put(saver, {"x": "changed"}, None, 1)
    assert saver.get_tuple(first).checkpoint["channel_values"] == {"x": "changed"}
    assert saver.get_tuple(config()).config["configurable"] == second["configurable"]
    assert saver.checkpointer.size("t") == 2


def test_lists_by_thread_namespace_id_and_position(saver):
    for thread in ("a", "b"):
        for space in ("", "child"):
            parent = None
            for number in range(1, 4):
                at = parent or config(thread, checkpoint_ns=space)
                parent = put(saver, {"x": number}, at, number)

    def listed(asked: Any, **options: Any) -> list[tuple[str, str, int]]:
        return [
            (
                each.config["configurable"]["thread_id"],
                each.config["configurable"]["checkpoint_ns"],
                each.metadata["step"],
            )
            for each in saver.list(asked, **options)
        ]

    assert listed(config("a", checkpoint_ns="child")) == [("a", "child", 3), ("a", "child", 2), ("a", "child", 1)]
    assert len(listed(config("a"))) == 6
    assert len(listed(None)) == 12
    assert len(listed(None, limit=7)) == 7
    assert listed(None, filter={"step": 2}, limit=3)[0][2] == 2
    assert listed(config("a", checkpoint_ns=""), limit=0) == []
    one = config("a", checkpoint_ns="", checkpoint_id="1f000002-0000-6000-8000-000000000000")
    assert listed(one) == [("a", "", 2)]
    assert listed(config("a", checkpoint_ns=""), before=one) == [("a", "", 1)]
    gone = config("a", checkpoint_ns="", checkpoint_id="1f000002-9999-6000-8000-000000000000")
    assert listed(config("a", checkpoint_ns=""), before=gone) == [("a", "", 2), ("a", "", 1)]
    assert len(listed(None, before=gone)) == 8


def test_the_newest_of_all_threads_come_first_and_no_others_are_read(store, tmp_path):
    spies: list[SpyStorage] = []

    def spy(storage: Any) -> Any:
        spies.append(SpyStorage(storage))
        return spies[-1]

    def listed(saver: Any, **options: Any) -> list[tuple[str, int]]:
        return [
            (each.config["configurable"]["thread_id"], each.metadata["step"]) for each in saver.list(None, **options)
        ]

    ours = ClewSaver(store.open(spy))
    with SqliteSaver.from_conn_string(f"{tmp_path}/theirs.db") as theirs:
        for text, thread in (("one", "a"), ("one", "b"), ("two", "a"), ("one", "c"), ("two", "b")):
            for saver in (ours, theirs):
                chat(saver).invoke(say(text), config(thread))
        for options in ({}, {"limit": 1}, {"limit": 7}, {"filter": {"source": "input"}, "limit": 4}):
            assert listed(ours, **options) == listed(theirs, **options)
    for number in range(20):
        chat(ours).invoke(say("one"), config(f"more-{number}"))
    spies[0].reads = 0
    assert {thread for thread, _ in listed(ours, limit=3)} == {"more-19"}
    assert spies[0].reads < 15


def test_a_filter_is_compared_and_never_becomes_part_of_a_query(saver):
    put(saver, {"x": 1})
    for hostile in ("' OR '1'='1", '") OR 1=1 --', "%", "$.step"):
        assert list(saver.list(config(), filter={"source": hostile})) == []
        assert list(saver.list(config(), filter={hostile: "loop"})) == []
    assert len(list(saver.list(config(), filter={"source": "loop"}))) == 1


def test_a_list_goes_on_if_the_checkpoint_where_a_page_ended_is_removed(saver, monkeypatch):
    monkeypatch.setattr(loader, "PAGE", 3)
    graph = chat(saver)
    for number in range(5):
        graph.invoke(say(str(number)), config())
    every = [each.checkpoint["id"] for each in saver.list(config())]
    read = saver.list(config())
    ids = [next(read).checkpoint["id"] for _ in range(3)]
    (removed,) = saver.checkpointer.list_checkpoints("t", limit=3)[2:]
    saver.checkpointer.delete_checkpoint(removed.config)
    assert ids + [each.checkpoint["id"] for each in read] == every


def test_long_histories_are_listed_page_by_page_and_may_be_left_early(saver):
    parent = None
    for number in range(1, 51):
        parent = put(saver, {"x": number}, parent, number)
    assert [each.metadata["step"] for each in saver.list(config())] == list(range(50, 0, -1))
    some = saver.list(config())
    assert next(some).metadata["step"] == 50
    some.close()
    assert [each.metadata["step"] for each in saver.list(config(), filter={"step": 3})] == [3]


def test_versions_grow_whatever_they_were(saver):
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(3, None) == 4
    textual = "00000000000000000000000000000009.0.123"
    assert saver.get_next_version(textual, None) > textual


def test_a_copy_keeps_everything_and_goes_its_own_way(saver):
    graph = chat(saver)
    graph.invoke(say("one"), config(user_id="alice"))
    saver.copy_thread("t", "copy")
    ours, theirs = (list(saver.list(config(name, user_id="alice"))) for name in ("t", "copy"))
    assert [each.checkpoint for each in ours] == [each.checkpoint for each in theirs]
    assert [each.pending_writes for each in ours] == [each.pending_writes for each in theirs]
    assert [each.parent_config and each.parent_config["configurable"]["checkpoint_id"] for each in ours] == [
        each.parent_config and each.parent_config["configurable"]["checkpoint_id"] for each in theirs
    ]
    graph.invoke(say("two"), config("copy", user_id="alice"))
    saver.delete_thread("t")
    assert len(saver.checkpointer.list_messages({"thread_id": "copy", "user_id": "alice"})) == 4
    assert saver.checkpointer.verify().ok


def test_a_copy_into_a_thread_that_exists_is_refused(saver):
    chat(saver).invoke(say("one"), config("a"))
    chat(saver).invoke(say("one"), config("b"))
    with pytest.raises(clew.ConflictError):
        saver.copy_thread("a", "b")


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_delta_channels_are_rebuilt_pruned_and_copied(store, durability):
    graph = delta_graph(ClewSaver(store.open()))
    for number in range(9):
        graph.invoke({"log": [HumanMessage(f"said {number}", id=f"s{number}")]}, config(), durability=durability)
    said = [each.content for each in graph.get_state(config()).values["log"]]
    assert len(said) == 18

    fresh = ClewSaver(store.open())
    again = delta_graph(fresh)
    assert [each.content for each in again.get_state(config()).values["log"]] == said
    fresh.copy_thread("t", "copy")
    before = fresh.checkpointer.size("t")
    fresh.prune(["t"])
    assert fresh.checkpointer.size("t") < before
    for thread in ("t", "copy"):
        assert [each.content for each in again.get_state(config(thread)).values["log"]] == said
        again.invoke({"log": [HumanMessage("more", id="m")]}, config(thread))
        assert len(again.get_state(config(thread)).values["log"]) == 20


def test_setup_may_be_awaited_as_with_langgraph_s_async_savers(store):
    """LangGraph's async savers have an async `setup`, and its docs say `await saver.setup()`."""

    async def main() -> None:
        saver = ClewSaver(store.open())
        await saver.setup()
        saver.setup()
        assert await saver.aget_tuple(config()) is None
        await saver.checkpointer.arelease()

    asyncio.run(main())
    saver = ClewSaver(store.open())
    saver.setup()
    assert saver.get_tuple(config()) is None
