"""Concurrent runs on one thread: no run overwrites what another saved after it started."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest

import clew
from clew.adapters.agentflow import ClewCheckpointer
from clew.adapters.agentflow.framework import AgentState
from tests.adapters.agentflow.support import exceptions, hello, line, said, talking, texts
from tests.checkpointer.support import run

CONFIG = {"thread_id": "trip", "user_id": "ann"}
RUNS = 5


class Meeting(ClewCheckpointer):
    """Makes runs wait for each other after reading, so that all start from the same state."""

    meet: asyncio.Barrier | None = None

    async def aget_state(self, config):
        state = await super().aget_state(config)
        return await self._met(config, state)

    async def aget_state_cache(self, config):
        state = await super().aget_state_cache(config)
        return state if state is None else await self._met(config, state)

    async def _met(self, config, state):
        if self.meet is not None and not config.get("has met"):
            config["has met"] = True
            await self.meet.wait()
        return state


async def at_once(adapters, *, seen=None, stream=False, **config):
    """Run once with each of `adapters`, all from the same state. Returns each result or error."""
    meet = asyncio.Barrier(len(adapters))

    async def one(at, adapter):
        app = line(*talking("one", "two", seen=seen)).compile(checkpointer=adapter)
        adapter.meet = meet
        question = hello(f"question {at}")
        if not stream:
            return await app.ainvoke(question, {**CONFIG, **config})
        return [chunk async for chunk in app.astream(question, {**CONFIG, **config})]

    results = await asyncio.gather(*(one(at, each) for at, each in enumerate(adapters)), return_exceptions=True)
    for each in adapters:
        each.meet = None
    return results


def winner(results) -> int:
    """The number of the only run that succeeded. The others got Agentflow's own error."""
    (won,) = [at for at, each in enumerate(results) if not isinstance(each, BaseException)]
    for refused in results[:won] + results[won + 1 :]:
        assert isinstance(refused, exceptions.StaleStateError)
        assert isinstance(refused, clew.ConflictError)
        # Agentflow's REST server reads these and answers with 409.
        assert (refused.context["thread_id"], refused.error_code) == ("trip", "STORAGE_CONFLICT_000")
    return won


@pytest.mark.parametrize("processes", ["one process", "several"])
@pytest.mark.parametrize("begun", [False, True])
def test_only_one_of_several_runs_from_the_same_state_succeeds(store, processes, begun):
    async def go():
        shared = Meeting(store.open())
        adapters = [shared if processes == "one process" else Meeting(store.open()) for _ in range(RUNS)]
        expected = []
        if begun:
            await line(*talking("one", "two")).compile(checkpointer=adapters[0]).ainvoke(hello("before"), CONFIG)
            expected = ["before", "one", "two"]
        seen: list[str] = []
        expected += [f"question {winner(await at_once(adapters, seen=seen))}", "one", "two"]
        # The others were refused before their first node.
        assert seen == ["one", "two"]
        reader = ClewCheckpointer(store.open())
        state = await reader.aget_state(dict(CONFIG))
        assert state is not None
        assert texts(state.context) == texts(await reader.alist_messages(CONFIG)) == expected
        for adapter in (shared, ClewCheckpointer(store.open())):
            await line(*talking("one", "two")).compile(checkpointer=adapter).ainvoke(hello("after"), CONFIG)
            expected += ["after", "one", "two"]
        assert texts(await reader.alist_messages(CONFIG)) == expected

    run(go())


def test_only_one_of_several_streams_from_the_same_state_succeeds(store):
    async def go():
        adapters = [Meeting(store.open()) for _ in range(3)]
        # A failing stream reports it in its last chunk, or raises.
        await at_once(adapters, stream=True)
        state = await adapters[0].aget_state(dict(CONFIG))
        assert state is not None
        (question, *rest) = texts(state.context)
        assert question.startswith("question")
        assert rest == ["one", "two"]
        assert texts(await adapters[0].alist_messages(CONFIG)) == [question, *rest]

    run(go())


def test_runs_that_save_only_their_end_are_refused_there(store):
    async def go():
        adapters = [Meeting(store.open()) for _ in range(3)]
        results = await at_once(adapters, durable_checkpoint_every_step=False)
        expected = [f"question {winner(results)}", "one", "two"]
        assert texts(await adapters[0].alist_messages(CONFIG)) == expected

    run(go())


def test_both_are_kept_if_that_is_chosen(store):
    async def go():
        memory = store.open()
        adapters = [Meeting(memory, on_conflict="branch") for _ in range(RUNS)]
        results = await at_once(adapters)
        assert not [each for each in results if isinstance(each, BaseException)]
        ends = await memory.aget_history(CONFIG, limit=None, where={"status": "completed"})
        questions = {each.state["context"][0]["content"][0]["text"] for each in ends}
        assert questions == {f"question {at}" for at in range(RUNS)}
        assert all(len(each.state["context"]) == 3 for each in ends)

    run(go())
    with pytest.raises(clew.ConfigError, match="on_conflict"):
        ClewCheckpointer(clew.connect("memory://"), on_conflict="ignore")  # type: ignore[arg-type]


def test_a_run_that_another_one_took_over_is_refused(store):
    async def go():
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def wait(state, config):
            if state.context[-1].text() == "slow":
                begun.set()
                await go_on.wait()
            return said(f"re {state.context[-1].text()}", "assistant")

        def app():
            return line(wait).compile(checkpointer=ClewCheckpointer(store.open()))

        slow = asyncio.create_task(app().ainvoke(hello("slow"), CONFIG))
        await asyncio.wait_for(begun.wait(), 120)
        await app().ainvoke(hello("quick"), CONFIG)
        go_on.set()
        with pytest.raises(exceptions.StaleStateError):
            await asyncio.wait_for(slow, 120)
        reader = ClewCheckpointer(store.open())
        assert texts(await reader.alist_messages(CONFIG)) == ["slow", "quick", "re quick"]

    run(go())


def test_a_state_that_was_read_and_changed_is_refused_if_another_was_saved_meanwhile(store):
    adapter, other = ClewCheckpointer(store.open()), ClewCheckpointer(store.open())

    async def go():
        mine, theirs = dict(CONFIG), dict(CONFIG)
        await adapter.aput_state(mine, AgentState(context_summary="first"))
        assert await other.aget_state(theirs) is not None
        await adapter.aput_state(mine, AgentState(context_summary="second"))
        for put in (other.aput_state, other.aput_checkpoint):
            with pytest.raises(exceptions.StaleStateError):
                await put(theirs, AgentState(context_summary="lost", context=[said("lost")]))
        state = await other.aget_state(theirs)
        assert state is not None
        assert state.context_summary == "second"
        assert await other.alist_messages(theirs) == []
        await other.aput_state(theirs, AgentState(context_summary="third"))
        # A state that was not read first replaces the present one.
        await adapter.aput_state(dict(CONFIG), AgentState(context_summary="fourth"))
        await adapter.aclear_state(theirs)
        with pytest.raises(exceptions.StaleStateError):
            await adapter.aput_state(mine, AgentState(context_summary="lost"))

    run(go())


def test_a_thread_that_began_meanwhile_is_not_overwritten(store):
    adapter, other = ClewCheckpointer(store.open()), ClewCheckpointer(store.open())

    async def go():
        mine = dict(CONFIG)
        assert await adapter.aget_state(mine) is None
        await other.aput_state(dict(CONFIG), AgentState(context_summary="first"))
        with pytest.raises(exceptions.StaleStateError):
            await adapter.aput_state(mine, AgentState(context_summary="lost"))

    run(go())


def test_a_config_serves_other_threads_and_other_checkpointers(store):
    one, other = ClewCheckpointer(store.open()), ClewCheckpointer(clew.connect("memory://"))

    async def go():
        config: dict[str, Any] = dict(CONFIG)
        await one.aput_state(config, AgentState(context_summary="here"))
        await other.aput_state(config, AgentState(context_summary="elsewhere"))
        config["thread_id"] = "another"
        await one.aput_state(config, AgentState(context_summary="another"))
        app = line(*talking("one")).compile(checkpointer=one)
        state = await one.aget_state(config)
        assert state is not None
        for _ in range(2):
            # A run starts from what it reads, not from an earlier read with the same config.
            await app.ainvoke(hello(), config)
        assert copy.deepcopy(config) == config
        with pytest.raises(exceptions.StaleStateError):
            await one.aput_state(config, state)

    run(go())


def test_a_caller_who_reads_again_goes_on_from_what_it_read_last(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        config = dict(CONFIG)
        # The same holds outside of runs.
        await adapter.aclear_stop_request(config)
        assert await adapter.aget_state(config) is None
        await adapter.aput_state(dict(CONFIG), AgentState(context_summary="first"))
        with pytest.raises(exceptions.StaleStateError):
            await adapter.aput_state(config, AgentState(context_summary="lost"))
        assert await adapter.aget_state(config) is not None
        await adapter.aput_state(config, AgentState(context_summary="second"))
        await adapter.aclean_thread(dict(CONFIG))
        with pytest.raises(clew.ThreadDeletedError, match="read it again"):
            await adapter.aput_state(config, AgentState(context_summary="lost"))
        assert await adapter.aget_state(config) is None
        await adapter.aput_state(config, AgentState(context_summary="third"))

    run(go())


def test_a_state_that_was_cached_at_an_older_head_is_not_read(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        late = dict(CONFIG)
        await adapter.aput_state(late, AgentState(context_summary="old"))
        await adapter.aput_state(dict(CONFIG), AgentState(context_summary="new"))
        # Like a run that saved, and caches the same state after another run has saved.
        old = AgentState(context_summary="old")
        old.execution_meta.stop_current_execution = "stop_requested"
        await adapter.aput_state_cache(late, old)
        assert await adapter.aget_state_cache(dict(CONFIG)) is None
        await line(*talking("one")).compile(checkpointer=adapter).ainvoke(hello(), dict(CONFIG))
        state = await adapter.aget_state(dict(CONFIG))
        assert state is not None
        assert state.context_summary == "new"

    run(go())


def test_a_refusal_can_be_pickled_and_shown(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        config, late = dict(CONFIG), dict(CONFIG)
        assert await adapter.aget_state(late) is None
        await adapter.aput_state(config, AgentState())
        with pytest.raises(exceptions.StaleStateError, match="saved by another run") as refused:
            await adapter.aput_state(late, AgentState())
        again = pickle.loads(pickle.dumps(refused.value))
        assert (type(again), str(again), again.context) == (
            type(refused.value),
            str(refused.value),
            refused.value.context,
        )
        assert refused.value.to_dict()["error_code"] == "STORAGE_CONFLICT_000"

    run(go())
