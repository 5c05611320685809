"""Two graphs with two stores in one process: each node gets the checkpointer of the graph that it runs in."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from injectq import Inject, InjectQ

import clew
from clew.adapters.agentflow import ClewCheckpointer, IsolatedStateGraph
from clew.adapters.agentflow.framework import StateGraph
from clew.adapters.injection import active, resolved
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
        with active(container):
            graph = line(resolved(note_in_a_thread), kind=StateGraph)
            apps.append(graph.compile(checkpointer=ClewCheckpointer(memory)))

    async def go(number):
        with active(containers[number]):
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


def elsewhere() -> Any:
    """What code of this thread, and of a new one, finds active."""
    with ThreadPoolExecutor(1) as pool:
        return InjectQ.get_instance(), pool.submit(InjectQ.get_instance).result()


async def stopped(app: Any, config: Any) -> None:
    """A run that is cancelled in its node."""
    work = asyncio.create_task(app.ainvoke(hello(), config))
    for _ in range(20):
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def broken_off(app: Any, config: Any) -> None:
    """A stream that is not read to its end."""
    stream = app.astream(hello(), config)
    await anext(stream)
    await stream.aclose()


@pytest.mark.parametrize("how", ["gathered", "streamed", "stopped", "broken off", "nested"])
def test_nothing_of_an_isolated_run_stays_active(pair, how):
    own = InjectQ.get_instance()
    adapters = [ClewCheckpointer(each) for each in pair]
    apps = [line(note, kind=IsolatedStateGraph).compile(checkpointer=each) for each in adapters]
    assert elsewhere() == (own, own)
    configs = [{**CONFIG, "thread_id": name} for name in "ab"]

    async def go():
        assert elsewhere() == (own, own)
        if how == "gathered":
            await asyncio.gather(*(app.ainvoke(hello(), config) for app, config in zip(apps, configs, strict=True)))
        elif how == "streamed":
            streams = [app.astream(hello(), config) for app, config in zip(apps, configs, strict=True)]
            for _ in range(3):
                for stream in streams:
                    await anext(stream, None)
                    assert InjectQ.get_instance() is own
            for stream in streams:
                await stream.aclose()
        elif how == "nested":

            async def build(state: Any, config: Any) -> Any:
                inner = line(note, kind=IsolatedStateGraph).compile(checkpointer=adapters[1])
                await inner.ainvoke(hello(), {**CONFIG, "thread_id": "b"})
                return said("done", "assistant")

            await line(build).compile(checkpointer=ClewCheckpointer(pair[0])).ainvoke(hello(), configs[0])
        else:
            end = stopped if how == "stopped" else broken_off
            await asyncio.gather(*(end(app, config) for app, config in zip(apps, configs, strict=True)))
        assert elsewhere() == (own, own)
        assert await asyncio.to_thread(InjectQ.get_instance) is own

    run(go())
    assert elsewhere() == (own, own)


def test_a_plain_graph_after_isolated_ones_runs_on_its_own_store(pair):
    first, second = pair

    async def go():
        isolated = [line(note).compile(checkpointer=ClewCheckpointer(first)) for _ in range(2)]
        await asyncio.gather(
            *(app.ainvoke(hello(), {**CONFIG, "thread_id": n}) for app, n in zip(isolated, "ab", strict=True))
        )

    run(go())
    plain = line(note_in_a_thread, kind=StateGraph).compile(checkpointer=ClewCheckpointer(second))
    run(plain.ainvoke(hello(), {**CONFIG, "thread_id": "plain"}))
    for memory, expected in (first, {"a", "b"}), (second, {"plain"}):
        assert {each.thread_id for each in memory.list_threads({"user_id": "ann"})} == expected


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
