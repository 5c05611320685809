"""Graphs work with owned threads like with any other: the configs that LangGraph hands back name
the owner.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import ClewSaver
from tests.adapters.langgraph.support import chat, config, say, texts

MINE = config(user_id="ana")


class Count(TypedDict):
    x: int


def nested(saver: Any) -> Any:
    """A graph that waits in a subgraph."""

    def ask(state: Count) -> dict[str, int]:
        return {"x": state["x"] + interrupt("how many?")}

    inner: Any = StateGraph(Count)
    inner.add_node("ask", ask).add_edge(START, "ask")
    outer: Any = StateGraph(Count)
    outer.add_node("one", lambda state: {"x": state["x"] + 1}).add_node("inner", inner.compile())
    return outer.add_edge(START, "one").add_edge("one", "inner").compile(checkpointer=saver)


def walk(saver: Any) -> dict[str, Any]:
    """Everything that a graph does with the configs that it gets."""
    graph = nested(saver)
    graph.invoke({"x": 1}, MINE)
    history = list(graph.get_state_history(MINE))
    state = graph.get_state(MINE)
    inner = state.tasks[0].state
    seen: dict[str, Any] = {
        "history": len(history),
        "old": [graph.get_state(each.config).values for each in history],
        "parent": graph.get_state(state.parent_config).values,
        "inside": graph.get_state(MINE, subgraphs=True).tasks[0].state.values,
        "inside next": graph.get_state(MINE, subgraphs=True).tasks[0].state.next,
        "by its own config": graph.get_state(inner).values,
        "its history": [each.values for each in graph.get_state_history(inner)],
        "inside of old": graph.get_state(graph.get_state(inner).config).values,
    }
    seen["answered"] = graph.invoke(Command(resume=5), MINE)
    seen["travelled"] = graph.invoke(None, history[-1].config)["x"]
    seen["changed"] = graph.get_state(graph.update_state(history[1].config, {"x": 100}, as_node="one")).values
    seen["and on"] = graph.invoke(None, graph.update_state(MINE, {"x": 50}, as_node="one"))["x"]
    seen["all"] = len(list(graph.get_state_history(MINE)))
    return seen


async def awalk(saver: Any) -> dict[str, Any]:
    graph = nested(saver)
    await graph.ainvoke({"x": 1}, MINE)
    history = [each async for each in graph.aget_state_history(MINE)]
    state = await graph.aget_state(MINE, subgraphs=True)
    inner = (await graph.aget_state(MINE)).tasks[0].state
    return {
        "inside": state.tasks[0].state.values,
        "its history": [each.values async for each in graph.aget_state_history(inner)],
        "travelled": (await graph.ainvoke(None, history[-1].config))["x"],
        "changed": await graph.aupdate_state(history[1].config, {"x": 100}, as_node="one") and True,
    }


def test_a_graph_finds_in_an_owned_thread_all_that_it_finds_in_another(saver):
    assert walk(saver) == walk(InMemorySaver())


def test_a_graph_that_awaits_finds_it_too(saver):
    assert asyncio.run(awalk(saver)) == asyncio.run(awalk(InMemorySaver()))


class Deltas(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]


def talk(saver: Any) -> list[list[str]]:
    def answer(state: Deltas) -> dict[str, Any]:
        said = len(state["messages"])
        return {"messages": [AIMessage(f"r{said}", id=f"a{said}")]}

    builder: Any = StateGraph(Deltas)
    graph = builder.add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)
    for turn in range(3):
        graph.invoke({"messages": [HumanMessage(f"q{turn}", id=f"h{turn}")]}, MINE)
    seen = [texts(graph.get_state(MINE).values)]
    for turn in range(5):
        graph.update_state(MINE, {"messages": [HumanMessage(f"note {turn}", id=f"n{turn}")]}, as_node="answer")
    seen.append(texts(graph.get_state(MINE).values))
    return [*seen, texts(graph.invoke({"messages": [HumanMessage("next", id="x")]}, MINE))]


def test_delta_channels_of_an_owned_thread_are_rebuilt(saver):
    assert talk(saver) == talk(InMemorySaver())


def test_the_owner_is_returned_as_the_caller_wrote_it(saver):
    for owner in ("ana", 7, UUID(int=7)):
        graph = chat(saver)
        thread = config(f"of {owner}", user_id=owner)
        graph.invoke(say("one"), thread)
        found = graph.get_state(thread)
        assert found.config["configurable"]["user_id"] == owner
        assert found.parent_config["configurable"]["user_id"] == owner
        assert texts(graph.get_state(found.config).values) == ["one", "answer to one"]
    assert {each.user_id for each in saver.checkpointer.list_threads({"user_id": clew.ANY_USER})} == {
        "ana",
        "7",
        str(UUID(int=7)),
    }


def test_the_config_of_a_thread_without_an_owner_names_none(saver):
    graph = chat(saver)
    graph.invoke(say("one"), config())
    assert set(graph.get_state(config()).config["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert type(graph.get_state(config()).config["configurable"]["thread_id"]) is str


def test_listing_all_threads_names_their_owners(saver):
    chat(saver).invoke(say("one"), config("a", user_id="ana"))
    chat(saver).invoke(say("one"), config("b"))
    listed = list(saver.list(None))
    assert len(listed) == 6
    assert all(saver.get_tuple(each.config).checkpoint == each.checkpoint for each in listed)


def test_an_id_that_knows_its_owner_is_text_like_any_other(saver):
    graph = chat(saver)
    graph.invoke(say("one"), MINE)
    thread_id = graph.get_state(MINE).config["configurable"]["thread_id"]
    assert (thread_id, hash(thread_id), f"{thread_id}", repr(thread_id)) == ("t", hash("t"), "t", "'t'")
    # A caller who names another user is trusted.
    with pytest.raises(clew.PermissionDeniedError):
        graph.get_state(config(thread_id, user_id="bob"))
    assert saver.checkpointer.get_state({"thread_id": thread_id, "user_id": "ana"}) is not None


@pytest.mark.parametrize("taken", [lambda it: it, str, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_an_id_that_is_taken_out_of_a_loaded_config_has_no_rights(saver, taken):
    graph = chat(saver)
    graph.invoke(say("one"), MINE)
    loaded = graph.get_state(MINE).config["configurable"]
    thread_id = taken(loaded["thread_id"])
    for asked in (config(thread_id), config(thread_id, checkpoint_id=loaded["checkpoint_id"])):
        with pytest.raises(clew.PermissionDeniedError):
            graph.get_state(asked)
        with pytest.raises(clew.PermissionDeniedError):
            graph.invoke(say("two"), asked)
        with pytest.raises(clew.PermissionDeniedError):
            saver.fork(asked, "mine")
    assert texts(graph.get_state(MINE).values) == ["one", "answer to one"]


def test_another_configurable_may_name_the_owner_or_none(checkpointer):
    asked: Any = config("a", user_id="a role, say", tenant="acme")
    graph = chat(ClewSaver(checkpointer, owner_key="tenant"))
    graph.invoke(say("one"), asked)
    assert checkpointer.get_thread({"thread_id": "a", "user_id": "acme"}).user_id == "acme"
    old = list(graph.get_state_history(asked))[1]
    assert "user_id" not in old.config["configurable"]
    assert texts(graph.invoke(None, old.config)) == ["one", "answer to one"]

    graph = chat(ClewSaver(checkpointer, owner_key=None))
    graph.invoke(say("one"), config("b", user_id="ana"))
    graph.invoke(say("two"), config("b", user_id="bob"))
    assert checkpointer.get_thread("b").user_id is None
    assert len(graph.get_state(config("b")).values["messages"]) == 4


@pytest.mark.parametrize("key", ["user_id", None])
def test_a_refusal_says_where_the_owners_name_comes_from(checkpointer, key):
    chat(ClewSaver(checkpointer)).invoke(say("one"), MINE)
    saver = ClewSaver(checkpointer, owner_key=key)
    with pytest.raises(clew.PermissionDeniedError, match="owner_key") as refused:
        chat(saver).invoke(say("mine now"), config(user_id="bob"))
    assert refused.value.thread_id == "t"
    with pytest.raises(clew.PermissionDeniedError, match="owner_key"):
        saver.put_writes(config(checkpoint_id="1f000000-0000-6000-8000-000000000000"), [("a", 1)], "task")


@pytest.mark.parametrize("others", [config(), config(user_id="bob")], ids=["nobody", "bob"])
@pytest.mark.parametrize("key", ["user_id", None])
def test_a_thread_of_somebody_else_s_does_not_look_empty_to_whoever_reads_it(checkpointer, key, others):
    chat(ClewSaver(checkpointer)).invoke(say("one"), MINE)
    saver = ClewSaver(checkpointer, owner_key=key)
    graph, ran = chat(saver), list[Any]()
    child = config(checkpoint_ns="child", **others["configurable"])
    old = config(checkpoint_id="1f000000-0000-6000-8000-000000000000", **others["configurable"])
    reads: list[Any] = [
        saver.get_tuple,
        lambda asked: asyncio.run(saver.aget_tuple(asked)),
        lambda asked: list(saver.list(asked, filter={"source": "none"}, limit=1)),
        lambda asked: saver.get_delta_channel_history(config=asked, channels=["messages"]),
        lambda asked: saver.fork(asked, "mine"),
    ]
    for asked, read in itertools.product((others, child, old), reads):
        with pytest.raises(clew.PermissionDeniedError, match="owner_key"):
            read(asked)
    for asked, read in itertools.product(
        (others, old), (graph.get_state, lambda it: list(graph.get_state_history(it)))
    ):
        with pytest.raises(clew.PermissionDeniedError, match="owner_key"):
            read(asked)
    graph.get_state(config("nobody's"))
    builder: Any = StateGraph(Count)
    builder.add_node("run", ran.append).add_edge(START, "run")
    with pytest.raises(clew.PermissionDeniedError, match="owner_key"):
        builder.compile(checkpointer=saver).invoke({"x": 1}, others)
    assert ran == [], "it is told before anything is done"
    assert checkpointer.list_threads({"user_id": "bob"}) == []


def test_every_user_can_read_threads_without_an_owner_and_missing_ones(saver):
    graph = chat(saver)
    graph.invoke(say("one"), config())
    for user in ({}, {"user_id": "bob"}, {"user_id": clew.ANY_USER}):
        assert graph.get_state(config("new", **user)).values == {}
        assert list(saver.list(config("new", **user))) == []
    graph.invoke(say("one"), config("hers", user_id="ana"))
    assert texts(graph.get_state(config("hers", user_id=clew.ANY_USER)).values) == ["one", "answer to one"]
    assert list(saver.list(config("hers", user_id="ana"), filter={"source": "none"})) == []


def test_an_owner_key_that_can_t_be_one_is_refused(checkpointer):
    for wrong in ("", 7):
        with pytest.raises(clew.ConfigError, match="owner_key"):
            ClewSaver(checkpointer, owner_key=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"id": 1}, ["ana"], b"ana", True, 1.5])
def test_an_owner_that_is_no_name_is_refused(checkpointer, wrong):
    graph = chat(ClewSaver(checkpointer))
    with pytest.raises(clew.ConfigError, match=f"not {type(wrong).__name__}; to use another"):
        graph.invoke(say("one"), config("t", user_id=wrong))
    assert checkpointer.list_threads({"user_id": clew.ANY_USER}) == []
