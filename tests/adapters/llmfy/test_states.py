"""States of real flows: a store keeps everything that llmfy's own memory backend keeps."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest
from llmfy import END, START, FlowEngine, Message, Role
from pydantic import BaseModel

import clew
from clew.adapters.llmfy import ClewCheckpointer
from clew.adapters.llmfy.metadata import LLMFY, fields_of
from tests.adapters.llmfy.support import NEW, append, checkpoint
from tests.checkpointer.support import run

SESSION = "s"


class State(TypedDict):
    payload: Any
    messages: list[Any]


@dataclasses.dataclass
class Stop:
    name: str
    at: datetime


class Voyage(BaseModel):
    town: str
    stops: list[Any]


class Unknown(BaseModel):
    town: str


STOP = Stop("Wien", datetime(2026, 3, 1, tzinfo=UTC))


def flow(checkpointer: Any, payload: Any) -> Any:
    """Two nodes: one that puts `payload` into the state, and one that copies it."""

    async def put(state):
        return {"payload": payload}

    async def keep(state):
        return {"payload": state["payload"]}

    engine = FlowEngine(State, checkpointer=checkpointer)
    engine.add_node("put", put)
    engine.add_node("keep", keep)
    for before, after in (START, "put"), ("put", "keep"), ("keep", END):
        engine.add_edge(before, after)
    return engine.build()


@pytest.mark.parametrize(
    "payload",
    [
        {"__type__": "x", "data": 1},
        {"__type__": "a.b", "data": {"c": [{"__type__": "d.E", "data": {}}]}},
        (1, ("two", [3])),
        {4, 5},
        frozenset({"a"}),
        {1: {"deep": (b"\xff", 1.5, None)}},
        datetime(2026, 3, 1, tzinfo=UTC),
        [Message(role=Role.USER, content="hi", id="m")],
        Voyage(town="Wien", stops=[STOP, (1, 2)]),
        {"trips": [Voyage(town="Graz", stops=[])], "stop": STOP},
    ],
    ids=["tag", "tags", "tuple", "set", "frozenset", "keys", "time", "message", "model", "models"],
)
def test_a_state_comes_back_as_it_was(store, payload):
    async def go():
        def saver():
            return ClewCheckpointer(store.open(), types=[Voyage, Stop])

        await flow(saver(), payload).invoke({"messages": []}, session_id=SESSION)
        found = await saver().load(SESSION)
        assert found is not None
        assert found.state["payload"] == (await saver().list(SESSION))[0].state["payload"] == payload
        assert type(found.state["payload"]) is type(payload)
        if NEW:
            # The engine of 0.9 can't read some of these, even from its own memory backend.
            other = flow(saver(), payload)
            assert (await other.get_state(SESSION))["payload"] == payload
            assert (await other.invoke({}, session_id=SESSION))["payload"] == payload

    run(go())


def test_an_object_of_a_class_that_nobody_named_is_refused_at_save(checkpointer):
    class Local(BaseModel):
        town: str

    async def go():
        with pytest.raises(clew.UnsupportedTypeError, match=r"payload.*register\(Local\)"):
            await flow(ClewCheckpointer(checkpointer), Local(town="Wien")).invoke({}, session_id=SESSION)
        assert "payload" not in (await checkpointer.aget_state(SESSION) or {})

    run(go())


def test_an_object_of_a_class_that_this_process_does_not_know_is_refused_at_load(store):
    async def go():
        stored = {"in": [(1, clew.Record("Gone", {"town": "Wien"}))]}
        await store.open().aput_checkpoint(SESSION, stored, metadata={LLMFY: fields_of(checkpoint(1).metadata)})
        saver = ClewCheckpointer(store.open())
        with pytest.raises(clew.ConfigError, match=r"types=\[Gone\]"):
            await saver.load(SESSION)
        assert (await saver.list(SESSION))[0].state == stored

    run(go())


def tagged(value: Any) -> dict[str, Any]:
    """An object in the form that llmfy 0.11 writes, and that the adapter used to store."""
    cls = type(value)
    data = value.model_dump(mode="json") if isinstance(value, BaseModel) else {"name": value.name, "at": None}
    return {"__type__": f"{cls.__module__}.{cls.__qualname__}", "data": data}


@pytest.mark.skipif(not NEW, reason="llmfy 0.9 writes no tags")
def test_what_was_stored_with_tags_is_read_as_objects(store):
    message, trip = Message(role=Role.USER, content="hi"), Voyage(town="Wien", stops=[1])
    stored = {
        "messages": [tagged(message)],
        "trips": {"first": tagged(trip), "stop": tagged(STOP)},
        "payload": {"__type__": "x", "data": 1},
        "more": {"__type__": "a.b", "data": {}, "and": 1},
    }

    async def go():
        memory = store.open()
        await memory.aput_checkpoint(SESSION, stored, metadata={LLMFY: fields_of(checkpoint(1).metadata)})
        saver = ClewCheckpointer(memory, types=[Voyage, Stop])
        found = await saver.load(SESSION)
        assert found is not None
        expected = {
            **stored,
            "messages": [message],
            "trips": {"first": trip, "stop": Stop("Wien", None)},  # type: ignore[arg-type]
        }
        assert found.state == (await saver.list(SESSION))[0].state == expected
        # A message that is recorded under its id is not recorded again.
        await memory.aput_messages(SESSION, [{"message_id": message.id, "role": "user", "content": "hi"}])
        await saver.save(checkpoint(2, state=found.state))
        assert [each.text() for each in await memory.alist_messages(SESSION)] == ["hi"]

        await memory.aput_checkpoint(
            "other", {"n": tagged(Unknown(town="x"))}, metadata={LLMFY: fields_of(checkpoint(1).metadata)}
        )
        with pytest.raises(clew.ConfigError, match=r"types=\[Unknown\]"):
            await ClewCheckpointer(memory).load("other")

    run(go())


def test_a_list_that_changes_during_the_save_is_saved_as_it_was(store):
    async def go():
        memory = store.open()
        saver = ClewCheckpointer(memory)
        state: dict[str, Any] = {"list": [1], "deep": {"in": ([1],)}}
        saving = asyncio.create_task(saver.save(checkpoint(1, state=state)))
        # The save has started and waits, and another branch of the run goes on.
        await asyncio.sleep(0)
        state["list"].append(2)
        state["deep"]["in"][0].append(2)
        state["new"] = 1
        await saving
        assert (await memory.aget_state(SESSION)) == {"list": [1], "deep": {"in": ([1],)}}

    run(go())


class Branches(TypedDict):
    done: Annotated[list[str], append]


@pytest.mark.skipif(not NEW, reason="llmfy 0.9 runs no branches at once")
def test_branches_at_once_save_what_was_done_when_they_saved(store):
    async def go():
        memory = store.open()

        def node(name):
            async def work(state):
                await asyncio.sleep(0)
                return {"done": [name]}

            return work

        engine = FlowEngine(Branches, checkpointer=ClewCheckpointer(memory))
        for name in ("begin", "a", "b", "end"):
            engine.add_node(name, node(name))
        engine.add_edge(START, "begin")
        engine.add_edge("begin", ["a", "b"])
        for name in ("a", "b"):
            engine.add_edge(name, "end")
        engine.add_edge("end", END)
        await engine.build().invoke({"done": []}, session_id=SESSION)
        for each in await memory.aget_history(SESSION, limit=None):
            assert each.metadata.node_name in each.state["done"]
        assert sorted((await memory.aget_state(SESSION))["done"]) == ["a", "b", "begin", "end"]

    run(go())
