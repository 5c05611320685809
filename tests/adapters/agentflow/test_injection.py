"""Two graphs with two stores in one process: each node gets the checkpointer of the graph that it runs in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from injectq import Inject, InjectQ

import clew
from clew.adapters.agentflow import ClewCheckpointer, IsolatedStateGraph
from clew.adapters.agentflow.framework import StateGraph
from clew.adapters.injection import resolved
from tests.adapters.agentflow.support import AgentflowCheckpointer, agent, hello, line, said, texts
from tests.checkpointer.support import run

CONFIG = {"thread_id": "trip", "user_id": "ann"}


async def note(
    state: Any,
    config: Any,
    checkpointer: Any = Inject[AgentflowCheckpointer],
    store: Any = Inject[clew.BaseCheckpointer],
) -> Any:
    """A node function that all graphs of this module share."""
    await checkpointer.aput_messages({"thread_id": "notes"}, [said(f"noted for {config['thread_id']}")])
    await asyncio.sleep(0)
    assert store is checkpointer.store
    return said("noted", "assistant")


def note_in_a_thread(state: Any, config: Any, checkpointer: Any = Inject[AgentflowCheckpointer]) -> Any:
    """Agentflow runs a plain function in a thread of its own."""
    checkpointer.put_messages({"thread_id": "notes"}, [said(f"noted for {config['thread_id']}")])
    return said("noted", "assistant")


def notes(memory: clew.BaseCheckpointer) -> Any:
    return memory.alist_messages({"thread_id": "notes", "user_id": "anonymous"})


@pytest.fixture
def pair(store, tmp_path):
    """Two stores of one kind."""
    (tmp_path / "second").mkdir()
    second = type(store)(tmp_path / "second")
    yield store.open(), second.open()
    for checkpointer in second.opened:
        checkpointer.__exit__(None, None, None)


@pytest.mark.parametrize("node", [note, note_in_a_thread])
@pytest.mark.parametrize("at_once", [False, True])
def test_each_graph_gets_its_own(pair, node, at_once):
    apps = [line(node, kind=IsolatedStateGraph).compile(checkpointer=ClewCheckpointer(each)) for each in pair]
    configs = [{**CONFIG, "thread_id": name} for name in ("a", "b")]

    async def go():
        runs = [app.ainvoke(hello(), config) for app, config in zip(apps, configs, strict=True)]
        if at_once:
            await asyncio.gather(*runs)
        else:
            for each in reversed(runs):
                await each
        for memory, config in zip(pair, configs, strict=True):
            assert texts(await notes(memory)) == [f"noted for {config['thread_id']}"]
            assert [each.thread_id for each in await memory.alist_threads({"user_id": "ann"})] == [config["thread_id"]]

    run(go())


def test_each_graph_gets_its_own_while_their_streams_are_read_in_turns(pair):
    apps = [line(note, kind=IsolatedStateGraph).compile(checkpointer=ClewCheckpointer(each)) for each in pair]

    async def go():
        streams = [app.astream(hello(), {**CONFIG, "thread_id": name}) for app, name in zip(apps, "ab", strict=True)]
        while streams:
            for stream in list(streams):
                if await anext(stream, None) is None:
                    streams.remove(stream)
        for memory, name in zip(pair, "ab", strict=True):
            assert texts(await notes(memory)) == [f"noted for {name}"]
            assert [each.thread_id for each in await memory.alist_threads({"user_id": "ann"})] == [name]

    run(go())


def test_tools_get_that_of_their_graph(pair):
    async def remember(config: Any, checkpointer: Any = Inject[AgentflowCheckpointer]) -> str:
        await checkpointer.aput_messages({"thread_id": "notes"}, [said(f"noted for {config['thread_id']}")])
        return "done"

    apps = [agent(remember).compile(checkpointer=ClewCheckpointer(each)) for each in pair]

    async def go():
        await asyncio.gather(
            *(app.ainvoke(hello(), {**CONFIG, "thread_id": n}) for app, n in zip(apps, "ab", strict=True))
        )
        for memory, name in zip(pair, "ab", strict=True):
            assert texts(await notes(memory)) == [f"noted for {name}"]

    run(go())


def test_a_container_and_its_context_do_the_same_by_hand(pair):
    containers = [InjectQ(), InjectQ()]
    apps = []
    for container, memory in zip(containers, pair, strict=True):
        with container.context():
            graph = line(resolved(note_in_a_thread), kind=StateGraph, container=container)
            apps.append(graph.compile(checkpointer=ClewCheckpointer(memory)))

    async def go(number):
        with containers[number].context():
            await apps[number].ainvoke(hello(), {**CONFIG, "thread_id": "ab"[number]})

    async def both():
        await asyncio.gather(go(0), go(1))
        for memory, name in zip(pair, "ab", strict=True):
            assert texts(await notes(memory)) == [f"noted for {name}"]

    run(both())


def test_building_a_graph_leaves_the_active_container_as_it_was(store):
    container = InjectQ()
    with container.context():
        line(note).compile(checkpointer=ClewCheckpointer(store.open()))
        assert InjectQ.get_instance() is container
    assert InjectQ.get_instance() is not container


def test_a_node_that_is_put_in_anothers_place_is_looked_up_too(pair):
    async def other(state: Any, config: Any) -> Any:
        return said("other", "assistant")

    apps = [line(other).compile(checkpointer=ClewCheckpointer(each)).override_node("other", note) for each in pair]

    async def go():
        for app in apps:
            await app.ainvoke(hello(), CONFIG)
        assert [len(await notes(memory)) for memory in pair] == [1, 1]

    run(go())


def test_without_a_container_of_its_own_the_first_checkpointer_of_the_process_sticks(pair):
    """What this is all about. If this fails, Agentflow has changed, and `IsolatedStateGraph` may not be needed any more."""
    apps = [line(note_in_a_thread, kind=StateGraph).compile(checkpointer=ClewCheckpointer(each)) for each in pair]

    async def go():
        for app in apps:
            await app.ainvoke(hello(), CONFIG)
        return [len(await memory.alist_threads({"user_id": "ann"})) for memory in pair]

    assert run(go()) != [1, 1]
