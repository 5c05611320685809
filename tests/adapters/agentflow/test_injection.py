"""Two graphs with two stores in one process: each node gets the checkpointer of its own graph."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from injectq import Inject, InjectQ

import clew
from clew.adapters.agentflow import ClewCheckpointer, IsolatedStateGraph
from clew.adapters.agentflow.framework import StateGraph
from clew.adapters.agentflow.isolation import _asking
from clew.adapters.injection import active, resolved
from tests.adapters.agentflow.support import (
    AgentflowCheckpointer,
    InMemoryCheckpointer,
    agent,
    hello,
    line,
    said,
    talking,
    texts,
)
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
    """A sync node, which Agentflow runs in another thread."""
    checkpointer.put_messages({"thread_id": "notes"}, [said(f"noted for {config['thread_id']}")])
    return said("noted", "assistant")


def notes(memory: clew.BaseCheckpointer) -> Any:
    return memory.alist_messages({"thread_id": "notes", "user_id": "anonymous"})


@pytest.fixture
def pair(store, tmp_path):
    """Two stores of the same kind."""
    (tmp_path / "second").mkdir()
    second = type(store)(tmp_path / "second")
    yield store.open(), second.open()
    for checkpointer in second.opened:
        checkpointer.__exit__(None, None, None)


@pytest.mark.parametrize("node", [note, note_in_a_thread])
@pytest.mark.parametrize("at_once", [False, True])
def test_each_graph_gets_its_own_checkpointer(pair, node, at_once):
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


def test_tools_get_the_checkpointer_of_their_graph(pair):
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
    """The container that is active in this thread, and the one in a new thread."""
    with ThreadPoolExecutor(1) as pool:
        return InjectQ.get_instance(), pool.submit(InjectQ.get_instance).result()


async def stopped(app: Any, config: Any) -> None:
    """Start a run and cancel it in its node."""
    work = asyncio.create_task(app.ainvoke(hello(), config))
    for _ in range(20):
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def broken_off(app: Any, config: Any) -> None:
    """Start a stream and stop reading it early."""
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
    run(plain(second).ainvoke(hello(), {**CONFIG, "thread_id": "plain"}))
    for memory, expected in (first, {"a", "b"}), (second, {"plain"}):
        assert {each.thread_id for each in memory.list_threads({"user_id": "ann"})} == expected


def test_defaults_of_an_overriding_node_are_looked_up_too(pair):
    async def other(state: Any, config: Any) -> Any:
        return said("other", "assistant")

    apps = [line(other).compile(checkpointer=ClewCheckpointer(each)).override_node("other", note) for each in pair]

    async def go():
        for app in apps:
            await app.ainvoke(hello(), CONFIG)
        assert [len(await notes(memory)) for memory in pair] == [1, 1]

    run(go())


def plain(memory: Any, *nodes: Any) -> Any:
    """A compiled graph of Agentflow's own class, in the process's container."""
    return line(*nodes or talking("one"), kind=StateGraph).compile(checkpointer=ClewCheckpointer(memory))


async def threads(memory: clew.BaseCheckpointer) -> set[str]:
    return {each.thread_id for each in await memory.alist_threads({"user_id": "ann"})}


@pytest.mark.parametrize("way", ["in turns", "at once", "streamed", "in turns of a stream"])
def test_plain_graphs_with_two_stores_keep_apart(pair, way):
    apps = [plain(each) for each in pair]
    configs = [{**CONFIG, "thread_id": name} for name in "ab"]
    runs = list(zip(apps, configs, strict=True))

    async def go():
        if way == "in turns":
            for app, config in runs:
                await app.ainvoke(hello(), config)
        elif way == "at once":
            await asyncio.gather(*(app.ainvoke(hello(), config) for app, config in runs))
        elif way == "streamed":
            for app, config in runs:
                assert [chunk async for chunk in app.astream(hello(), config)]
        else:
            streams = [app.astream(hello(), config) for app, config in runs]
            while streams:
                for stream in list(streams):
                    if await anext(stream, None) is None:
                        streams.remove(stream)
        assert [await threads(each) for each in pair] == [{"a"}, {"b"}]
        for app, config in runs:
            assert await app.astop(config) == {"ok": True, "running": False, "reason": "not-running"}

    run(go())


def test_a_plain_graph_that_is_compiled_during_a_run_leaves_the_run_alone(pair):
    async def go():
        async def compile_another(state: Any, config: Any) -> Any:
            await plain(pair[1]).ainvoke(hello(), {**CONFIG, "thread_id": "b"})
            return said("done", "assistant")

        await plain(pair[0], compile_another, *talking("one")).ainvoke(hello(), {**CONFIG, "thread_id": "a"})
        assert [await threads(each) for each in pair] == [{"a"}, {"b"}]

    run(go())


@pytest.mark.parametrize("first", [True, False])
def test_a_plain_graph_with_agentflows_own_store_keeps_apart_too(store, first):
    memory, own = store.open(), InMemoryCheckpointer()

    async def go():
        def build():
            return line(*talking("one"), kind=StateGraph).compile(checkpointer=own)

        other = build() if first else None
        app = plain(memory)
        other = other or build()
        for _ in range(2):
            await app.ainvoke(hello(), {**CONFIG, "thread_id": "a"})
            await other.ainvoke(hello(), {**CONFIG, "thread_id": "b"})
        assert await threads(memory) == {"a"}
        assert await own.aget_state({**CONFIG, "thread_id": "a"}) is None
        assert len((await own.aget_state({**CONFIG, "thread_id": "b"})).context) == 4

    run(go())


def test_with_one_store_the_container_is_as_agentflow_makes_it(store):
    adapter = ClewCheckpointer(store.open())
    for _ in range(2):
        app = line(*talking("one"), kind=StateGraph).compile(checkpointer=adapter)
        run(app.ainvoke(hello(), CONFIG))
    container = InjectQ.get_instance()
    assert container.get(AgentflowCheckpointer) is adapter
    assert container not in _asking


def test_outside_of_runs_the_last_compiled_graph_has_its_checkpointer_in_the_container(pair):
    apps = [plain(each) for each in (*pair, pair[0])]
    assert InjectQ.get_instance().get(AgentflowCheckpointer) is apps[-1]._checkpointer
    run(apps[0].ainvoke(hello(), CONFIG))
    assert InjectQ.get_instance().get(AgentflowCheckpointer) is apps[-1]._checkpointer


def test_inject_in_a_node_of_a_plain_graph_keeps_what_it_found_first(pair):
    """The reason for `IsolatedStateGraph`. If this fails, injectq has changed."""

    def where(state: Any, config: Any, checkpointer: Any = Inject[AgentflowCheckpointer]) -> Any:
        checkpointer.put_messages({"thread_id": "notes"}, [said(f"noted for {config['thread_id']}")])
        return said("noted", "assistant")

    async def go():
        for memory, name in zip(pair, "ab", strict=True):
            await plain(memory, where).ainvoke(hello(), {**CONFIG, "thread_id": name})
        assert [await threads(each) for each in pair] == [{"a"}, {"b"}]
        return [len(await notes(memory)) for memory in pair]

    assert run(go()) != [1, 1]
