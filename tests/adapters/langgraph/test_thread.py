"""A graph's thread is an ordinary Clew thread."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import clew
from clew.adapters.langgraph import ClewSaver
from clew.codec.registry import Registry
from clew.codec.state import StateCodec
from tests.adapters.langgraph.support import chat, config, say, texts


@pytest.fixture
def talked(checkpointer):
    """A thread of two turns."""
    graph = chat(ClewSaver(checkpointer))
    graph.invoke(say("one"), config())
    graph.invoke(say("two"), config())
    return checkpointer


def test_it_is_listed_with_its_checkpoints(talked):
    (thread,) = talked.list_threads({})
    assert (thread.thread_id, thread.checkpoint_count, thread.message_count) == ("t", 6, 4)
    steps = [(each.step, each.metadata["source"]) for each in talked.list_checkpoints("t")]
    assert steps == [(4, "loop"), (3, "loop"), (2, "input"), (1, "loop"), (0, "loop"), (-1, "input")]
    assert [each.step for each in talked.list_checkpoints("t", where={"source": "input"})] == [2, -1]


def test_its_state_has_the_channels_as_fields(talked):
    state = talked.get_state("t")
    assert texts(state) == ["one", "answer to one", "two", "answer to two"]
    assert isinstance(state["messages"][0], HumanMessage)


def test_readers_without_langchain_get_records(talked):
    plain = StateCodec(Registry(), max_state_bytes=1 << 20)
    message = plain.unpack(talked._engine.codec.pack(talked.get_state("t")["messages"][0], name="message"))
    assert isinstance(message, clew.Record)
    assert (message.type_name, message["content"]) == ("langchain.HumanMessage", "one")


def test_differences_name_what_changed(talked):
    newest, _, _, before, *_ = talked.list_checkpoints("t")
    places = {change.place for change in talked.diff(before.config, newest.config).changes}
    assert "messages[2..3]" in places


def test_messages_are_in_the_record_and_found_by_searching(talked):
    said = talked.list_messages("t")
    assert [(each.role, each.content) for each in said] == [
        ("user", "one"),
        ("assistant", "answer to one"),
        ("user", "two"),
        ("assistant", "answer to two"),
    ]
    assert [each.message_id for each in talked.list_messages("t", search="ANSWER TO TWO")] == ["answer-3"]


def test_messages_come_with_the_checkpoint_that_first_has_them(talked):
    forked = talked.fork(talked.list_checkpoints("t", where={"step": 1})[0].config)
    assert [each.content for each in talked.list_messages(forked)] == ["one", "answer to one"]


def test_tools_and_blocks_are_in_the_record_too(checkpointer):
    graph = chat(ClewSaver(checkpointer))
    call = {"name": "look", "args": {"at": "sky"}, "id": "c1", "type": "tool_call"}
    blocks: list[Any] = [{"type": "text", "text": "a picture"}, {"type": "image", "url": "x"}]
    graph.update_state(
        config(),
        {
            "messages": [
                HumanMessage(blocks, id="1"),
                AIMessage("", tool_calls=[call], id="2"),
                ToolMessage("blue", tool_call_id="c1", name="look", id="3"),
            ]
        },
    )
    first, second, third = checkpointer.list_messages("t")
    assert first.text() == "a picture"
    assert second.tool_calls == (call,)
    assert (third.role, third.metadata["tool_call_id"], third.metadata["name"]) == ("tool", "c1", "look")


def test_the_record_can_be_left_out_or_taken_from_another_channel(checkpointer):
    chat(ClewSaver(checkpointer, messages=None)).invoke(say("one"), config())
    assert checkpointer.list_messages("t") == []
    assert texts(checkpointer.get_state("t")) == ["one", "answer to one"]


def test_a_message_is_written_to_the_record_once(store):
    from tests.checkpointer.support import SpyStorage

    spies: list[SpyStorage] = []

    def spy(storage: Any) -> Any:
        spies.append(SpyStorage(storage))
        return spies[-1]

    graph = chat(ClewSaver(store.open(spy)))
    for text in ("one", "two", "three"):
        graph.invoke(say(text), config())
    written = [message.message_id for commit in spies[0].commits for message in commit.messages]
    assert written == ["said-one", "answer-1", "said-two", "answer-3", "said-three", "answer-5"]


def test_a_graph_goes_on_in_a_fork_and_leaves_the_source_alone(talked):
    middle = talked.list_checkpoints("t", where={"step": 1})[0]
    fork = talked.fork(middle.config, "fork")
    graph = chat(ClewSaver(talked))
    assert texts(graph.get_state(config("fork")).values) == ["one", "answer to one"]
    state = graph.invoke(say("elsewhere"), config("fork"))
    assert texts(state) == ["one", "answer to one", "elsewhere", "answer to elsewhere"]
    assert texts(talked.get_state("t")) == ["one", "answer to one", "two", "answer to two"]
    assert len(talked.list_messages(fork)) == 4
    history = [each.config["configurable"] for each in graph.get_state_history(config("fork"))]
    assert all(bytes.fromhex(each["checkpoint_id"].replace("-", "")) for each in history)
    assert graph.get_state({"configurable": history[-1]}).values["messages"][0].content == "one"


def test_retention_takes_old_checkpoints_and_the_graph_goes_on(talked):
    talked.cleanup(clew.RetentionPolicy(max_history=1))
    assert talked.size("t") == 1
    graph = chat(ClewSaver(talked))
    assert texts(graph.invoke(say("three"), config()))[-2:] == ["three", "answer to three"]
    assert talked.verify().ok


def test_a_cleanup_between_two_steps_of_a_run_does_not_disturb_it(checkpointer):
    saver = ClewSaver(checkpointer)
    graph = chat(saver)
    graph.invoke(say("one"), config())
    for _ in graph.stream(say("two"), config(), durability="sync"):
        checkpointer.cleanup(clew.RetentionPolicy(max_age=timedelta(0), max_history=1))
    assert texts(checkpointer.get_state("t")) == ["one", "answer to one", "two", "answer to two"]


def test_the_user_of_the_config_owns_the_thread(checkpointer):
    graph = chat(ClewSaver(checkpointer))
    graph.invoke(say("one"), config(user_id="alice"))
    assert [each.user_id for each in checkpointer.list_threads({"user_id": "alice"})] == ["alice"]
    for others in (config(user_id="bob"), config()):
        with pytest.raises(clew.PermissionDeniedError):
            graph.get_state(others)
    with pytest.raises(clew.PermissionDeniedError):
        graph.invoke(say("mine now"), config(user_id="bob"))
    assert texts(graph.get_state(config(user_id="alice")).values) == ["one", "answer to one"]


def test_runs_are_noted(checkpointer):
    graph = chat(ClewSaver(checkpointer))
    graph.invoke(say("one"), {**config(), "metadata": {"run_id": "r1", "tenant": "x"}})
    infos = checkpointer.list_checkpoints("t", run_id="r1", where={"tenant": "x"})
    assert [each.run_id for each in infos] == ["r1"] * 3


def test_a_run_in_a_thread_that_is_deleted_meanwhile_does_not_revive_it(checkpointer):
    saver = ClewSaver(checkpointer)
    graph = chat(saver)
    graph.invoke(say("one"), config())

    def run() -> None:
        for at, _ in enumerate(graph.stream(say("two"), config(), durability="sync", stream_mode="checkpoints")):
            if at == 0:
                saver.delete_thread("t")

    with pytest.raises(clew.ThreadDeletedError):
        run()
    assert checkpointer.get_thread("t") is None
    assert texts(graph.invoke(say("anew"), config())) == ["anew", "answer to anew"]


@pytest.mark.parametrize("first", [say("before"), None], ids=["an old thread", "a new thread"])
def test_of_two_runs_from_one_checkpoint_the_later_is_rejected_if_that_is_chosen(store, first):
    async def race(on_conflict: Any) -> tuple[list[Any], clew.BaseCheckpointer]:
        arrived = 0
        both = asyncio.Event()

        class Meeting(ClewSaver):
            async def aget_tuple(self, *args: Any) -> Any:
                nonlocal arrived
                found = await super().aget_tuple(*args)
                arrived += 1
                if arrived == 2:
                    both.set()
                await both.wait()
                return found

        checkpointer = store.open()
        thread = config(f"t-{on_conflict}")
        if first:
            await chat(ClewSaver(checkpointer)).ainvoke(first, thread)
        graph = chat(Meeting(checkpointer, on_conflict=on_conflict))
        runs = [graph.ainvoke(say(text), thread, durability="sync") for text in ("one", "two")]
        return await asyncio.gather(*runs, return_exceptions=True), checkpointer

    outcomes, checkpointer = asyncio.run(race("reject"))
    (lost,) = [each for each in outcomes if isinstance(each, Exception)]
    assert isinstance(lost, clew.ConflictError)
    (won,) = [each for each in outcomes if not isinstance(each, Exception)]
    assert texts(checkpointer.get_state("t-reject")) == texts(won)
    outcomes, checkpointer = asyncio.run(race("branch"))
    assert not any(isinstance(each, Exception) for each in outcomes)
    assert checkpointer.size("t-branch") == (9 if first else 6), "both are there"


def test_going_back_by_id_is_no_conflict(checkpointer):
    graph = chat(ClewSaver(checkpointer, on_conflict="reject"))
    graph.invoke(say("one"), config())
    graph.invoke(say("two"), config())
    old = next(each for each in graph.get_state_history(config()) if texts(each.values) == ["one", "answer to one"])
    state = graph.invoke(say("another"), old.config)
    assert texts(state) == ["one", "answer to one", "another", "answer to another"]
    assert texts(graph.invoke(say("on"), config()))[-2:] == ["on", "answer to on"]
    graph.update_state(old.config, say("a third way"))
    assert texts(graph.get_state(config()).values) == ["one", "answer to one", "a third way"]
    # A snapshot of the head contains its id, so starting there counts as going back by id.
    assert graph.invoke(None, graph.get_state(config()).config)["messages"]


def test_a_url_is_opened_and_closed(tmp_path):
    with ClewSaver(f"sqlite:///{tmp_path}/agent.db") as saver:
        chat(saver).invoke(say("one"), config())
    with pytest.raises(clew.StorageError, match="released"):
        saver.get_tuple(config())


def test_a_checkpointer_that_is_given_stays_open(tmp_path):
    with clew.connect(f"sqlite:///{tmp_path}/agent.db") as checkpointer:
        with ClewSaver(checkpointer) as saver:
            chat(saver).invoke(say("one"), config())
        assert checkpointer.size("t") == 3


def test_wrong_choices_are_refused(checkpointer):
    with pytest.raises(clew.ConfigError):
        ClewSaver(checkpointer, on_conflict="merge")  # type: ignore[arg-type]
    with pytest.raises(clew.ConfigError):
        ClewSaver(checkpointer).prune(["t"], strategy="some")
