"""Pruning keeps exactly what a graph needs to continue."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import clew
from clew.adapters.langgraph import ClewSaver
from clew.model.config import ANY_USER
from tests.adapters.langgraph.support import Log, chat, config, delta_graph, say, texts


def nested(saver: Any, *, asks: bool = False, memory: bool | None = None) -> Any:
    """A graph whose node calls a subgraph, which calls another one."""

    def step(state: Log) -> Any:
        return {"log": [f"they said {interrupt('really?')}" if asks else "in"]}

    def around(node: Any, **options: Any) -> Any:
        builder: Any = StateGraph(Log)
        builder.add_node("step", node)
        builder.add_edge(START, "step")
        return builder.compile(**options)

    innermost = around(step)
    return around(around(innermost, checkpointer=memory), checkpointer=saver)


def namespaces(checkpointer: Any) -> Counter[str]:
    infos = checkpointer.list_checkpoints("t", limit=None, namespaces="all")
    return Counter(each.namespace for each in infos)


def test_a_plain_thread_keeps_its_latest_checkpoint_which_has_no_parent(saver):
    graph = chat(saver)
    for number in range(10):
        graph.invoke(say(str(number)), config())
    before = graph.get_state(config())
    saver.prune(["t"])
    (left,) = graph.get_state_history(config())
    assert left.values == before.values
    assert left.parent_config is None
    assert graph.get_state(config()).parent_config is None
    assert before.parent_config is not None
    assert saver.get_tuple(before.parent_config) is None
    assert len(texts(graph.invoke(say("more"), config()))) == 22
    newest = graph.get_state(config())
    assert newest.parent_config is not None
    assert saver.checkpointer.verify().ok


def test_calls_of_subgraphs_go_with_the_checkpoints_that_they_were_called_from(saver):
    graph = nested(saver)
    for _ in range(5):
        graph.invoke({"log": ["out"]}, config())
    assert len(namespaces(saver.checkpointer)) == 11
    saver.prune(["t"])
    assert namespaces(saver.checkpointer) == {"": 1}
    saver.prune(["t"])
    assert namespaces(saver.checkpointer) == {"": 1}
    log = graph.invoke({"log": ["out"]}, config())["log"]
    assert log == graph.get_state(config()).values["log"]
    assert log.count("out") >= 6


def test_a_subgraph_that_waits_keeps_what_it_waits_with(saver):
    graph = nested(saver, asks=True)
    graph.invoke({"log": ["first"]}, config())
    graph.invoke(Command(resume="yes"), config())
    graph.invoke({"log": ["second"]}, config())
    before = namespaces(saver.checkpointer)
    saver.prune(["t"])
    left = namespaces(saver.checkpointer)
    assert set(left.values()) == {1}
    assert len(left) == 3 < len(before)
    assert graph.invoke(Command(resume="no"), config())["log"][-1] == "they said no"


def test_a_subgraph_with_a_memory_of_its_own_keeps_its_latest(saver):
    graph = nested(saver, memory=True)
    for _ in range(3):
        graph.invoke({"log": ["out"]}, config())
    remembered = graph.get_state(config(checkpoint_ns="step")).values
    saver.prune(["t"])
    assert namespaces(saver.checkpointer)["step"] == 1
    assert graph.get_state(config(checkpoint_ns="step")).values == remembered


def test_delta_channels_are_rebuilt_from_what_is_left(saver):
    graph = delta_graph(saver)
    for number in range(12):
        graph.invoke({"log": [number]}, config())
    before = graph.get_state(config()).values
    saver.prune(["t"])
    assert len(namespaces(saver.checkpointer)) == 1
    assert saver.checkpointer.size("t") <= 6 * 3
    assert delta_graph(ClewSaver(saver.checkpointer)).get_state(config()).values == before


def test_pruning_does_not_bring_threads_to_the_top_of_their_owners_lists(saver):
    for thread_id in ("old", "new"):
        for text in ("one", "two"):
            chat(saver).invoke(say(text), config(thread_id))
    at = saver.checkpointer.get_thread("old").updated_at
    saver.prune(["old"])
    assert saver.checkpointer.get_thread("old").updated_at == at
    assert [each.thread_id for each in saver.checkpointer.list_threads({"user_id": ANY_USER})] == ["new", "old"]


def test_pruning_a_thread_that_is_not_there_makes_none(saver):
    saver.prune(["nobody"])
    assert saver.checkpointer.get_thread("nobody") is None


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
def test_one_id_is_not_taken_for_its_letters(saver, strategy):
    for thread_id in ("a", "b"):
        for text in ("one", "two"):
            chat(saver).invoke(say(text), config(thread_id))
    for call in (saver.prune, lambda ids, **more: asyncio.run(saver.aprune(ids, **more))):
        with pytest.raises(clew.ConfigError, match=r"a list of ids, not one: \['ab'\]"):
            call("ab", strategy=strategy)
    with pytest.raises(clew.ConfigError, match=r"a list of ids, not one: \['ab'\]"):
        saver.delete_for_runs("ab")
    assert saver.checkpointer.size("a") == saver.checkpointer.size("b") == 6
    saver.prune((each for each in ("a", "b")), strategy=strategy)
    assert saver.checkpointer.size("a") == saver.checkpointer.size("b") == (1 if strategy == "keep_latest" else 0)
