"""Real graphs on every storage."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.support import Log, asking, chat, config, say, texts


def test_a_conversation_goes_on_where_it_was_left(store):
    chat(ClewSaver(store.open())).invoke(say("one"), config())
    state = chat(ClewSaver(store.open())).invoke(say("two"), config())
    assert texts(state) == ["one", "answer to one", "two", "answer to two"]
    assert isinstance(state["messages"][0], HumanMessage)
    assert isinstance(state["messages"][1], AIMessage)


def test_a_conversation_with_await(store):
    async def converse() -> Any:
        graph = chat(ClewSaver(store.open()))
        await graph.ainvoke(say("one"), config())
        assert (await graph.aget_state(config())).next == ()
        return await graph.ainvoke(say("two"), config())

    assert texts(asyncio.run(converse())) == ["one", "answer to one", "two", "answer to two"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_keeps_the_state(saver, durability):
    graph = chat(saver)
    for text in ("one", "two"):
        graph.invoke(say(text), config(), durability=durability)
    assert texts(graph.get_state(config()).values) == ["one", "answer to one", "two", "answer to two"]
    count = len(list(graph.get_state_history(config())))
    assert count == (2 if durability == "exit" else 6)


def test_streaming_saves_as_it_goes(saver):
    graph = chat(saver)
    seen = list(graph.stream(say("one"), config(), stream_mode=["values", "updates", "checkpoints"]))
    assert {mode for mode, _ in seen} == {"values", "updates", "checkpoints"}
    assert texts(graph.get_state(config()).values) == ["one", "answer to one"]


def test_a_run_can_start_again_from_any_checkpoint_and_both_branches_stay(saver):
    graph = chat(saver)
    graph.invoke(say("one"), config())
    graph.invoke(say("two"), config())
    old = next(each for each in graph.get_state_history(config()) if texts(each.values) == ["one", "answer to one"])
    branch = graph.invoke(say("another"), old.config)
    assert texts(branch) == ["one", "answer to one", "another", "answer to another"]
    assert texts(graph.get_state(config()).values) == texts(branch), "the branch is the head now"
    histories = [texts(each.values) for each in graph.get_state_history(config())]
    assert ["one", "answer to one", "two", "answer to two"] in histories
    assert graph.get_state(old.config).values == old.values


def test_a_replay_from_a_checkpoint_runs_what_came_after_it(saver):
    ran: list[str] = []

    def node(state: Log) -> dict[str, Any]:
        ran.append("node")
        return {"log": [f"ran {len(ran)}"]}

    builder: Any = StateGraph(Log)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, config())
    before = next(each for each in graph.get_state_history(config()) if each.next == ("node",))
    assert graph.invoke(None, before.config)["log"] == ["in", "ran 2"]


def test_an_interrupt_waits_for_its_answer_in_another_process_s_saver(store):
    first = asking(ClewSaver(store.open()))
    found = first.invoke({"log": ["in"]}, config())
    assert found["__interrupt__"][0].value == {"question": "really?"}
    second = asking(ClewSaver(store.open()))
    waiting = second.get_state(config())
    assert waiting.next == ("ask",)
    assert waiting.tasks[0].interrupts[0].value == {"question": "really?"}
    assert second.invoke(Command(resume="yes"), config())["log"] == ["in", "they said yes"]
    assert second.get_state(config()).next == ()


def test_update_state_makes_a_checkpoint_of_its_own(saver):
    graph = chat(saver)
    graph.invoke(say("one"), config())
    made = graph.update_state(config(), {"messages": [HumanMessage("corrected", id="said-one")]})
    found = graph.get_state(config())
    assert texts(found.values) == ["corrected", "answer to one"]
    assert found.config["configurable"]["checkpoint_id"] == made["configurable"]["checkpoint_id"]
    assert found.metadata["source"] == "update"


def test_messages_can_be_removed_and_changed_in_the_middle(saver):
    graph = chat(saver)
    for text in ("one", "two", "three"):
        graph.invoke(say(text), config())
    graph.update_state(config(), {"messages": [RemoveMessage(id="said-two"), HumanMessage("1", id="said-one")]})
    expected = ["1", "answer to one", "answer to two", "three", "answer to three"]
    assert texts(graph.get_state(config()).values) == expected
    assert texts(graph.invoke(say("four"), config())) == [*expected, "four", "answer to four"]


def test_a_message_that_a_node_changes_in_place_is_saved_as_it_is_then(store):
    def redact(state: MessagesState) -> dict[str, Any]:
        state["messages"][0].content = "[redacted]"
        return {"messages": [AIMessage("done", id="done")]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("redact", redact)
    builder.add_edge(START, "redact")
    builder.compile(checkpointer=ClewSaver(store.open())).invoke(say("secret"), config())
    assert texts(chat(ClewSaver(store.open())).get_state(config()).values) == ["[redacted]", "done"]


def test_parallel_nodes_and_sends_come_together_in_order(saver):
    def fan_out(state: Log) -> list[Send]:
        return [Send("work", {"log": [str(number)]}) for number in range(8)]

    def work(state: Log) -> dict[str, Any]:
        return {"log": [f"did {state['log'][0]}"]}

    builder: Any = StateGraph(Log)
    builder.add_node("start", lambda state: {"log": ["start"]})
    builder.add_node("beside", lambda state: {"log": ["beside"]})
    builder.add_node("work", work)
    builder.add_edge(START, "start")
    builder.add_edge(START, "beside")
    builder.add_conditional_edges("start", fan_out, ["work"])
    graph = builder.compile(checkpointer=saver)
    state = graph.invoke({"log": []}, config())
    assert state["log"] == ["beside", "start", *(f"did {number}" for number in range(8))]
    assert graph.get_state(config()).values == state


def test_parallel_tasks_that_succeeded_do_not_run_again_after_a_failure(store):
    ran: list[str] = []

    async def run(*, fails: bool, given: Any) -> Any:
        saved = asyncio.Event()

        class Watched(ClewSaver):
            async def aput_writes(self, *args: Any) -> None:
                await super().aput_writes(*args)
                saved.set()

        async def steady(state: Log) -> dict[str, Any]:
            ran.append("steady")
            return {"log": ["steady"]}

        async def shaky(state: Log) -> dict[str, Any]:
            if fails:
                await saved.wait()
                raise RuntimeError("out of order")
            return {"log": ["shaky"]}

        builder: Any = StateGraph(Log)
        builder.add_node("steady", steady)
        builder.add_node("shaky", shaky)
        builder.add_edge(START, "steady")
        builder.add_edge(START, "shaky")
        return await builder.compile(checkpointer=Watched(store.open())).ainvoke(given, config())

    with pytest.raises(RuntimeError, match="out of order"):
        asyncio.run(run(fails=True, given={"log": ["in"]}))
    assert asyncio.run(run(fails=False, given=None))["log"] == ["in", "shaky", "steady"]
    assert ran == ["steady"]


def test_a_subgraph_keeps_its_own_checkpoints_and_can_be_asked(saver):
    def ask(state: Log) -> dict[str, Any]:
        return {"log": [f"inside {interrupt('go on?')}"]}

    inner: Any = StateGraph(Log)
    inner.add_node("before", lambda state: {"log": ["before"]})
    inner.add_node("ask", ask)
    inner.add_edge(START, "before")
    inner.add_edge("before", "ask")
    outer: Any = StateGraph(Log)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, config())
    state = graph.get_state(config(), subgraphs=True)
    assert state.tasks[0].state.values["log"] == ["in", "before"]
    spaces = {each.config["configurable"]["checkpoint_ns"] for each in saver.list(config())}
    assert "" in spaces
    assert len(spaces) == 2, "without a namespace, all of them are listed"
    assert graph.invoke(Command(resume="yes"), config())["log"] == ["in", "in", "before", "inside yes"]


def test_a_graph_that_loops_until_it_is_done_keeps_each_step(saver):
    builder: Any = StateGraph(Log)
    builder.add_node("again", lambda state: {"log": [str(len(state["log"]))]})
    builder.add_edge(START, "again")
    builder.add_conditional_edges("again", lambda state: END if len(state["log"]) > 5 else "again")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": []}, config())
    lengths = [len(each.values.get("log", [])) for each in graph.get_state_history(config())]
    assert lengths == [6, 5, 4, 3, 2, 1, 0, 0]


def test_a_state_that_clew_saved_is_where_a_graph_goes_on(checkpointer):
    checkpointer.put_state("t", {"messages": [HumanMessage("from elsewhere", id="1")]})
    graph = chat(ClewSaver(checkpointer))
    assert texts(graph.invoke(say("one"), config())) == ["from elsewhere", "one", "answer to one"]


@pytest.mark.parametrize("state", [["a list"], {1: "numbers"}, 7, None])
def test_a_state_that_has_no_channels_is_an_empty_one(checkpointer, state):
    checkpointer.put_state("t", state)
    saver = ClewSaver(checkpointer)
    assert [each.checkpoint["channel_values"] for each in saver.list(None)] == [{}]
    assert texts(chat(saver).invoke(say("one"), config())) == ["one", "answer to one"]
    saver.prune(["t"])
    assert checkpointer.size("t") == 1


def test_many_threads_at_once_do_not_meet(store):
    async def converse() -> list[Any]:
        graph = chat(ClewSaver(store.open()))
        runs = [graph.ainvoke(say(str(number)), config(f"t{number}")) for number in range(20)]
        return await asyncio.gather(*runs)

    assert [texts(state)[0] for state in asyncio.run(converse())] == [str(number) for number in range(20)]


def test_a_sync_method_works_inside_a_running_loop_where_the_storage_does_not_suspend(saver):
    async def inside() -> Any:
        return chat(saver).invoke(say("one"), config())

    if not saver.checkpointer.storage.capabilities.suspends:
        assert texts(asyncio.run(inside())) == ["one", "answer to one"]
