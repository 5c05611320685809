"""Real graphs on every storage, and what they leave in the store."""

from __future__ import annotations

import asyncio
import enum
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

import clew
from clew.adapters.agentflow import ClewCheckpointer, IsolatedStateGraph
from clew.adapters.agentflow.framework import AgentState, StateGraph
from tests.adapters.agentflow.support import (
    END,
    START,
    NodeError,
    ToolResult,
    agent,
    calls,
    hello,
    interrupt,
    line,
    said,
    talking,
    texts,
)
from tests.checkpointer.support import SpyStorage, run

CONFIG = {"thread_id": "trip", "user_id": "ann"}


@pytest.mark.parametrize("kind", [StateGraph, IsolatedStateGraph])
def test_a_run_is_an_ordinary_thread(store, kind):
    memory = store.open()
    app = line(*talking("one", "two"), kind=kind).compile(checkpointer=ClewCheckpointer(memory))

    async def go():
        answer = await app.ainvoke(hello("Where is the café?"), CONFIG)
        assert texts(answer["messages"]) == ["Where is the café?", "one", "two"]

        (thread,) = await memory.alist_threads({"user_id": "ann"})
        assert (thread.thread_id, thread.message_count) == ("trip", 3)
        history = await memory.alist_checkpoints(CONFIG, limit=None)
        assert [(each.node_name, each.metadata["saved"]) for each in reversed(history)] == [
            (START, "before"),
            (START, "after"),
            ("one", "before"),
            ("one", "after"),
            ("two", "before"),
            ("two", "after"),
            ("two", "after"),
        ]
        assert history[0].metadata["status"] == "completed"
        assert {each.run_id for each in history} == {history[0].run_id} != {None}
        assert [each.text() for each in await memory.alist_messages(CONFIG, search="CAFÉ")] == ["Where is the café?"]
        differences = await memory.adiff({**CONFIG, "checkpoint_id": history[3].checkpoint_id}, CONFIG)
        assert any("context" in str(change) and "two" in str(change) for change in differences.changes)
        assert [each["role"] for each in (await memory.aget_state(CONFIG))["context"]] == [
            "user",
            "assistant",
            "assistant",
        ]
        assert (await memory.averify()).damage == ()

    run(go())


def test_messages_that_the_graph_sends_again_are_there_once(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)
    app = line(*talking("one", "two")).compile(checkpointer=adapter)

    async def go():
        for turn in range(3):
            await app.ainvoke(hello(f"turn {turn}"), CONFIG)
        expected = [text for turn in range(3) for text in (f"turn {turn}", "one", "two")]
        assert texts(await adapter.alist_messages(CONFIG)) == expected
        state = await adapter.aget_state(CONFIG)
        assert state is not None
        assert texts(state.context) == expected

    run(go())


def test_all_that_came_in_is_recorded_and_not_only_the_last_question(store):
    adapter = ClewCheckpointer(store.open())
    app = line(*talking("one")).compile(checkpointer=adapter)
    come_in = [said("be brief", "system"), said("first"), said("answered", "assistant"), said("second")]

    async def go():
        await app.ainvoke({"messages": come_in}, CONFIG)
        return texts(await adapter.alist_messages(CONFIG))

    assert run(go()) == ["be brief", "first", "answered", "second", "one"]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_message_of_an_earlier_turn_that_a_node_edits_is_recorded_as_it_is_then(store, in_place):
    async def redact(state, config):
        for at, message in enumerate(state.context):
            if "1234" in message.text():
                edited = said("[redacted]", message_id=message.message_id)
                if in_place:
                    message.content = edited.content
                else:
                    state.context[at] = edited
        return state

    async def go():
        memory = store.open()
        await (
            line(*talking("one"))
            .compile(checkpointer=ClewCheckpointer(memory))
            .ainvoke(hello("my pin is 1234"), CONFIG)
        )
        assert len(await memory.alist_messages(CONFIG, search="1234")) == 1
        app = line(redact, *talking("two")).compile(checkpointer=ClewCheckpointer(memory))
        for text in ("next", "it was 1234", "last"):
            await app.ainvoke(hello(text), CONFIG)
            assert await memory.alist_messages(CONFIG, search="1234") == []
        expected = ["[redacted]", "one", "next", "two", "[redacted]", "two", "last", "two"]
        assert [each.text() for each in await memory.alist_messages(CONFIG)] == expected

    run(go())


def test_messages_that_stay_as_they_were_are_not_written_again(store):
    async def go():
        for turn in range(4):
            # Like another process each time, with nothing in memory.
            memory = store.open(SpyStorage)
            app = line(*talking("one")).compile(checkpointer=ClewCheckpointer(memory))
            await app.ainvoke(hello(f"turn {turn}"), CONFIG)
            written = {each.message_id for commit in memory.storage.commits for each in commit.messages}
            assert len(written) == 2

    run(go())


# Agentflow's own dump of such a state warns, with any checkpointer.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
def test_a_thread_id_may_be_a_number(store):
    config = {"thread_id": 5, "user_id": "ann"}

    async def go():
        adapter = ClewCheckpointer(store.open())
        app = line(*talking("one", "two")).compile(checkpointer=adapter)
        for turn in range(2):
            await app.ainvoke(hello(f"turn {turn}"), config)
        expected = ["turn 0", "one", "two", "turn 1", "one", "two"]
        assert texts(await adapter.alist_messages(config)) == expected
        state = await adapter.aget_state({**config, "thread_id": "5"})
        assert state is not None
        assert texts(state.context) == expected

    run(go())


def test_half_an_emoji_does_not_end_a_run(store):
    half = json.loads('"\\ud83d"')

    def look_up() -> str:
        return f"cut {half}"

    async def go():
        memory = store.open()
        app = agent(look_up).compile(checkpointer=ClewCheckpointer(memory))
        await app.ainvoke(hello(f"hi {half}"), CONFIG)
        recorded = [each.text() for each in await memory.alist_messages(CONFIG)]
        assert recorded == ["hi ?", "", "cut ?", "cut ?"]
        assert (await app.ainvoke(hello("more"), CONFIG))["messages"]

    run(go())


def test_messages_can_be_left_out_of_the_record(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory, record_messages=False)
    app = line(*talking("one")).compile(checkpointer=adapter)

    async def go():
        await app.ainvoke(hello(), CONFIG)
        assert await memory.alist_messages(CONFIG) == []
        state = await adapter.aget_state(CONFIG)
        assert state is not None
        assert texts(state.context) == ["hello", "one"]

    run(go())


def test_a_run_pauses_before_a_node_and_goes_on_in_another_process(store):
    seen: list[str] = []

    def app():
        # Another object on the same store, like another process.
        nodes = talking("one", "two", seen=seen)
        return line(*nodes).compile(checkpointer=ClewCheckpointer(store.open()), interrupt_before=["two"])

    async def go():
        await app().ainvoke(hello(), CONFIG)
        assert seen == ["one"]
        state = await ClewCheckpointer(store.open()).aget_state(CONFIG)
        assert state is not None
        assert state.is_interrupted()
        answer = await app().ainvoke({}, CONFIG)
        assert seen == ["one", "two"]
        assert texts(answer["messages"])[-1] == "two"

    run(go())


def test_a_node_asks_and_goes_on_with_the_answer(store):
    async def ask(state, config):
        return said(f"you said {interrupt({'question': 'go on?'})}", "assistant")

    def app():
        return line(ask).compile(checkpointer=ClewCheckpointer(store.open()))

    async def go():
        await app().ainvoke(hello(), CONFIG)
        with pytest.raises(ValueError, match="paused at interrupt"):
            await app().ainvoke({}, CONFIG)
        answer = await app().ainvoke({"resume": "yes"}, CONFIG)
        assert texts(answer["messages"])[-1] == "you said yes"

    run(go())


class Colour(enum.Enum):
    RED = "red"


class Stop(BaseModel):
    name: str
    at: datetime


class Trip(AgentState):
    colour: Colour = Colour.RED
    stops: list[Stop] = Field(default_factory=list)
    bag: Any = None
    price: Decimal = Decimal("1.10")


def test_fields_of_the_users_state_class_come_back_as_they_were(store):
    at = datetime(2026, 2, 3, 4, 5, tzinfo=UTC)
    bag = {1: (2, 3), "raw": b"\xff\0", "when": at, "odd": {4, 5}, "not": [float("inf"), "\0"], "long": timedelta(1)}

    async def pack(state, config):
        state.bag, state.stops = bag, [Stop(name="Wien", at=at)]
        return state

    def adapter():
        return ClewCheckpointer(store.open())

    async def go():
        await line(pack, state=Trip()).compile(checkpointer=adapter()).ainvoke(hello(), CONFIG)
        other = adapter()
        other.bind_state_type(Trip)
        state = await other.aget_state(CONFIG)
        assert (state.colour, state.stops, state.price) == (Colour.RED, [Stop(name="Wien", at=at)], Decimal("1.10"))
        assert state.bag == bag
        assert type(state.bag[1]) is tuple

    run(go())


def test_what_can_not_be_saved_is_named_with_its_place(store):
    async def spoil(state, config):
        state.bag = {"socket": object()}
        return state

    app = line(spoil, state=Trip()).compile(checkpointer=ClewCheckpointer(store.open()))
    with pytest.raises(clew.UnsupportedTypeError, match=r"state\.bag"):
        run(app.ainvoke(hello(), CONFIG))


def test_a_node_that_fails_leaves_its_error_in_the_thread(store):
    async def fail(state, config):
        raise LookupError("no such town")

    adapter = ClewCheckpointer(store.open())
    app = line(*talking("one"), fail).compile(checkpointer=adapter)

    async def go():
        with pytest.raises(NodeError, match="no such town"):
            await app.ainvoke(hello(), CONFIG)
        state = await adapter.aget_state(CONFIG)
        assert state is not None
        assert state.execution_meta.status == "error"
        assert texts(state.context) == ["hello", "one"]

    run(go())


def test_tools_run_once_though_their_node_runs_twice(store):
    ran: list[str] = []

    def charge() -> str:
        ran.append("charge")
        return "charged"

    def approve() -> str:
        ran.append("approve")
        return f"approved by {interrupt('who?')}"

    def app():
        return agent(charge, approve).compile(checkpointer=ClewCheckpointer(store.open()))

    async def go():
        await app().ainvoke(hello(), CONFIG)
        assert sorted(ran) == ["approve", "charge"]
        answer = await app().ainvoke({"resume": "Bo"}, CONFIG)
        assert sorted(ran) == ["approve", "approve", "charge"]
        assert texts(answer["messages"])[-1] == "approved by Bo and charged"
        found = await ClewCheckpointer(store.open()).alist_messages(CONFIG, search="CHARGED")
        assert [each.role for each in found] == ["tool", "assistant"]

    run(go())


def test_a_tool_that_changes_the_state_runs_once_and_changes_it_on_replay(store):
    ran: list[str] = []

    def pay() -> Any:
        ran.append("pay")
        return ToolResult(message="paid", state={"price": Decimal("7.50")})

    def sign() -> str:
        return f"signed by {interrupt('who?')}"

    def app():
        graph = agent(pay, sign, state=Trip())
        return graph.compile(checkpointer=ClewCheckpointer(store.open()))

    async def go():
        await app().ainvoke(hello(), CONFIG)
        await app().ainvoke({"resume": "Bo"}, CONFIG)
        assert ran == ["pay"]
        adapter = ClewCheckpointer[Trip](store.open())
        adapter.bind_state_type(Trip)
        state = await adapter.aget_state(CONFIG)
        assert state is not None
        assert state.price == Decimal("7.50")
        assert "paid" in texts(await adapter.alist_messages(CONFIG))

    run(go())


def test_a_crash_between_the_tools_and_the_next_node_does_not_end_the_thread(store):
    ran: list[str] = []

    def charge() -> str:
        ran.append("charge")
        return "charged"

    class DyingCheckpointer(ClewCheckpointer):
        """Crashes after the tools' step was saved, before the next node is named."""

        async def aput_state_cache(self, config, state):
            if ran and state.execution_meta.current_node == "model":
                raise ConnectionError("the process is gone")
            return await super().aput_state_cache(config, state)

        async def aput_checkpoint(self, config, state, messages=None, metadata=None):
            if state.execution_meta.status == "error":
                raise ConnectionError("the process is gone")
            return await super().aput_checkpoint(config, state, messages, metadata)

    async def go():
        with pytest.raises(ConnectionError):
            await agent(charge).compile(checkpointer=DyingCheckpointer(store.open())).ainvoke(hello(), CONFIG)
        answer = await agent(charge).compile(checkpointer=ClewCheckpointer(store.open())).ainvoke({}, CONFIG)
        assert texts(answer["messages"])[-1] == "charged"
        assert ran == ["charge"]

    run(go())


def test_streaming_saves_each_step_and_gives_the_same_thread(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)
    app = line(*talking("one", "two")).compile(checkpointer=adapter)

    async def go():
        chunks = [chunk async for chunk in app.astream(hello(), CONFIG)]
        assert [chunk.message.text() for chunk in chunks if chunk.message is not None] == ["hello", "one", "two"]
        assert texts(await adapter.alist_messages(CONFIG)) == ["hello", "one", "two"]
        history = await memory.alist_checkpoints(CONFIG, limit=None)
        assert [each.node_name for each in history if each.metadata["saved"] == "before"] == ["two", "one", START]

    run(go())


def test_a_stream_that_breaks_off_goes_on_where_it_was(store):
    seen: list[str] = []
    one, two = talking("one", "two", seen=seen)

    def app(*nodes):
        return line(*nodes).compile(checkpointer=ClewCheckpointer(store.open()))

    async def go():
        begun = asyncio.Event()

        async def hang(state, config):
            begun.set()
            await asyncio.Event().wait()

        hang.__name__ = "two"

        async def listen():
            async for _ in app(one, hang).astream(hello(), CONFIG):
                pass

        listening = asyncio.create_task(listen())
        await asyncio.wait_for(begun.wait(), 120)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        assert texts(await ClewCheckpointer(store.open()).alist_messages(CONFIG)) == ["hello", "one"]
        chunks = [chunk async for chunk in app(one, two).astream({}, CONFIG)]
        assert seen == ["one", "two"]
        assert "two" in [chunk.message.text() for chunk in chunks if chunk.message is not None]

    run(go())


def test_a_stop_from_another_process_reaches_a_node_that_runs(store):
    async def go():
        begun = asyncio.Event()

        async def wait(state, config):
            begun.set()
            await asyncio.Event().wait()

        def app():
            return line(wait).compile(checkpointer=ClewCheckpointer(store.open()))

        running, elsewhere = app(), app()
        work = asyncio.create_task(running.ainvoke(hello(), CONFIG))
        await asyncio.wait_for(begun.wait(), 120)
        stranger = await elsewhere.astop({**CONFIG, "user_id": "bob"})
        assert stranger == {"ok": False, "running": False, "reason": "no-state"}
        assert await elsewhere.astop(CONFIG) == {"ok": True, "running": True}
        await asyncio.wait_for(work, 120)
        state = await ClewCheckpointer(store.open()).aget_state(CONFIG)
        assert state is not None
        assert state.execution_meta.interrupt_reason == "stop_requested"
        assert not await ClewCheckpointer(store.open()).ais_stop_requested(CONFIG)

    run(go())


def test_a_resumed_run_can_be_stopped_from_another_process(store):
    async def go():
        begun = asyncio.Event()

        async def wait(state, config):
            interrupt("go on?")
            begun.set()
            await asyncio.Event().wait()

        def app():
            return line(wait).compile(checkpointer=ClewCheckpointer(store.open()))

        await app().ainvoke(hello(), CONFIG)
        work = asyncio.create_task(app().ainvoke({"resume": "yes"}, CONFIG))
        await asyncio.wait_for(begun.wait(), 120)
        assert await app().astop(CONFIG) == {"ok": True, "running": True}
        await asyncio.wait_for(work, 120)

    run(go())


def test_another_users_thread_is_refused_before_any_node_runs(store):
    seen: list[str] = []
    app = line(*talking("one", seen=seen)).compile(checkpointer=ClewCheckpointer(store.open()))

    async def go():
        await app.ainvoke(hello("mine"), CONFIG)
        seen.clear()
        for stranger in ({"thread_id": "trip"}, {"thread_id": "trip", "user_id": "bob"}):
            with pytest.raises(clew.PermissionDeniedError):
                await app.ainvoke(hello(), stranger)
        assert seen == []

    run(go())


def test_a_run_for_no_user_is_the_anonymous_ones_and_not_open_to_all(store):
    adapter = ClewCheckpointer(store.open())
    app = line(*talking("one")).compile(checkpointer=adapter)

    async def go():
        await app.ainvoke(hello("secret"), {"thread_id": "trip", "user_id": None})
        assert await adapter.aget_thread_owner("trip") == "anonymous"
        assert await adapter.alist_messages({"thread_id": "trip", "user_id": "bob"}) == []
        with pytest.raises(clew.PermissionDeniedError):
            await app.ainvoke(hello(), {"thread_id": "trip", "user_id": "bob"})
        await app.ainvoke(hello("more"), {"thread_id": "trip"})
        assert len(await adapter.alist_messages({"thread_id": "trip"})) == 4

    run(go())


@pytest.mark.parametrize("by", ["another process", "the same object"])
def test_a_run_whose_thread_is_deleted_does_not_bring_it_back(store, by):
    memory, adapter = store.open(), ClewCheckpointer(store.open())

    async def delete(state, config):
        await (memory.adelete_thread(CONFIG) if by == "another process" else adapter.aclean_thread(CONFIG))
        return said("deleted", "assistant")

    async def go():
        with pytest.raises(clew.ThreadDeletedError):
            await line(delete).compile(checkpointer=adapter).ainvoke(hello(), CONFIG)
        assert await memory.aget_thread(CONFIG) is None
        await line(*talking("one")).compile(checkpointer=adapter).ainvoke(hello("anew"), CONFIG)
        assert texts(await adapter.alist_messages(CONFIG)) == ["anew", "one"]

    run(go())


def test_a_fork_goes_on_with_the_node_that_came_next(store):
    memory, seen = store.open(), list[str]()
    adapter = ClewCheckpointer(memory)
    app = line(*talking("one", "two", "three", seen=seen)).compile(checkpointer=adapter)

    async def go():
        await app.ainvoke(hello(), CONFIG)
        seen.clear()
        history = await memory.alist_checkpoints(CONFIG, limit=None)
        (before,) = [each for each in history if each.node_name == "two" and each.metadata["saved"] == "before"]
        fork = await memory.afork({**CONFIG, "checkpoint_id": before.checkpoint_id}, "detour")
        await app.ainvoke({}, fork)
        assert seen == ["two", "three"]
        assert texts(await adapter.alist_messages(fork)) == ["hello", "one", "two", "three"]

    run(go())


def test_fewer_steps_are_saved_if_the_run_says_so(store):
    memory = store.open()
    app = line(*talking("one", "two")).compile(checkpointer=ClewCheckpointer(memory))

    async def go():
        await app.ainvoke(hello(), {**CONFIG, "durable_checkpoint_every_step": False})
        return [each.metadata["status"] for each in await memory.alist_checkpoints(CONFIG)]

    assert run(go()) == ["completed"]


def test_many_runs_at_once_keep_apart(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)
    app = line(*talking("one", "two")).compile(checkpointer=adapter)

    async def go():
        configs = [{"thread_id": f"t{number}", "user_id": f"u{number % 3}"} for number in range(12)]
        await asyncio.gather(*(app.ainvoke(hello(config["thread_id"]), config) for config in configs))
        for config in configs:
            assert texts(await adapter.alist_messages(config)) == [config["thread_id"], "one", "two"]

    run(go())


def test_a_graph_runs_without_a_loop_of_the_callers(store):
    adapter = ClewCheckpointer(store.open())
    app = line(*talking("one")).compile(checkpointer=adapter)
    app.invoke(hello("first"), CONFIG)
    assert [chunk.message.text() for chunk in app.stream(hello("second"), CONFIG) if chunk.message] == ["second", "one"]
    assert texts(adapter.list_messages(CONFIG)) == ["first", "one", "second", "one"]
    assert app.stop(CONFIG) == {"ok": True, "running": False, "reason": "not-running"}


def test_calls_of_the_model_are_counted_as_tool_calls(store):
    memory = store.open()

    def look() -> str:
        return "found"

    app = agent(look, asks=calls("look")).compile(checkpointer=ClewCheckpointer(memory))

    async def go():
        await app.ainvoke(hello(), CONFIG)
        stats = await memory.astats()
        assert END not in (await memory.alist_checkpoints(CONFIG))[0].metadata
        return stats

    assert "tool_calls=1" in str(run(go()))
