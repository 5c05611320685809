"""Every method of the Agentflow checkpointer, on every storage."""

from __future__ import annotations

import asyncio
import enum
import inspect
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel, Field

import clew
from clew.adapters.agentflow import ClewCheckpointer, framework
from clew.adapters.agentflow.framework import AgentState, Message, ThreadInfo
from clew.model.config import OwnConfig
from tests.adapters.agentflow.support import NAME, AgentflowCheckpointer, said, texts
from tests.checkpointer.support import run

ANN = {"thread_id": "trip", "user_id": "ann"}
BOB = {"thread_id": "trip", "user_id": "bob"}
blocks = import_module(f"{NAME}.core.state.message_block")
message_module = import_module(f"{NAME}.core.state.message")


def found(state: Any) -> Any:
    assert state is not None
    return state


class Answer(BaseModel):
    town: str


FULL = Message(
    message_id="full",
    role="assistant",
    content=[
        blocks.TextBlock(text="see", annotations=[blocks.AnnotationRef(title="map")]),
        blocks.ImageBlock(media=blocks.MediaRef(url="https://a/b.png"), bbox=[0.5, 1.0]),
        blocks.ToolCallBlock(id="c", name="look", args={"at": [1, {"deep": None}]}),
        blocks.ToolResultBlock(call_id="c", output="found it", status="completed"),
        blocks.ToolResultBlock(call_id="d", output=[{"rows": (1, 2)}], is_error=True),
        blocks.ReasoningBlock(summary="because", details=["a", "b"]),
        blocks.ErrorBlock(message="oh", data={"n": 1}),
    ],
    tools_calls=[{"id": "c", "function": {"name": "look", "arguments": "{}"}}],
    reasoning="why",
    timestamp=1770000000.1234567,
    metadata={"mine": {1: "one"}, "agentflow": "a key like any other"},
    usages=message_module.TokenUsages(completion_tokens=1, prompt_tokens=2, total_tokens=3),
    raw={"id": b"\0"},
)


def test_it_is_a_checkpointer_of_agentflow_and_leaves_nothing_out():
    assert issubclass(ClewCheckpointer, AgentflowCheckpointer)
    assert not inspect.isabstract(ClewCheckpointer)
    optional = {
        "aput_checkpoint",
        "aput_cache_value",
        "aget_cache_value",
        "aclear_cache_value",
        "alist_cache_keys",
        "aget_tool_result",
        "aput_tool_result",
        "aget_thread_owner",
        "aclear_stop_request",
    }
    own = {name for name in vars(ClewCheckpointer) if name.startswith("a")}
    assert AgentflowCheckpointer.__abstractmethods__ | optional == own
    for name in own:
        theirs = inspect.signature(getattr(AgentflowCheckpointer, name))
        assert list(inspect.signature(getattr(ClewCheckpointer, name)).parameters) == list(theirs.parameters)


@pytest.mark.parametrize(
    "message",
    [
        FULL,
        said("plain"),
        Message(message_id=7, role="user", content=[], tools_calls=[], timestamp=None),
        Message(message_id="p", role="assistant", content=[], parsed_content=Answer(town="Wien"), delta=True),
    ],
    ids=["full", "plain", "numbered", "parsed"],
)
def test_a_message_comes_back_whole(store, message):
    adapter = ClewCheckpointer(store.open())

    async def go():
        await adapter.aput_messages(ANN, [message])
        found = await adapter.aget_message(ANN, message.message_id)
        assert found.model_dump(serialize_as_any=True) == message.model_dump(serialize_as_any=True)
        assert await adapter.alist_messages(ANN) == [found]

    run(go())


def test_messages_are_found_by_their_text_and_that_of_tools(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        await adapter.aput_messages(ANN, [said("In der CAFÉ-Bar"), said("100% sure"), FULL], {"batch": 1})
        assert texts(await adapter.alist_messages(ANN, search="café")) == ["In der CAFÉ-Bar"]
        assert texts(await adapter.alist_messages(ANN, search="0% s")) == ["100% sure"]
        assert [each.message_id for each in await adapter.alist_messages(ANN, search="FOUND IT")] == ["full"]
        assert await adapter.alist_messages(ANN, search='"type"') == []
        assert texts(await adapter.alist_messages(ANN, offset=1, limit=1)) == ["100% sure"]
        assert [each.metadata["batch"] for each in await adapter.alist_messages(ANN)] == [1, 1, 1]
        await adapter.adelete_message(ANN, "full")
        for gone in (adapter.adelete_message(ANN, "full"), adapter.aget_message(ANN, "full")):
            with pytest.raises(IndexError, match="no message 'full'"):
                await gone

    run(go())


def test_messages_of_others_read_as_agentflows(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)
    others = [
        clew.Message(role="human", content="hi"),
        clew.Message(role="ai", content=[{"type": "novel", "text": "well"}]),
        clew.Message(role="critic", content=["hm"]),
    ]

    async def go():
        await memory.aput_messages(ANN, others)
        found = await adapter.alist_messages(ANN)
        assert [(each.role, each.text()) for each in found] == [("user", "hi"), ("assistant", "well"), ("system", "hm")]

    run(go())


def test_a_state_that_agentflow_did_not_save_is_refused(store):
    memory = store.open()

    async def go():
        await memory.aput_state(ANN, {"messages": ["hi"]})
        with pytest.raises(clew.ConfigError, match="not saved by Agentflow"):
            await ClewCheckpointer(memory).aget_state(ANN)

    run(go())


def test_state_and_messages_come_together_or_not_at_all(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        bad = said("bad", metadata={"socket": object()})
        with pytest.raises(clew.UnsupportedTypeError):
            await adapter.aput_checkpoint(ANN, AgentState(), [said("good"), bad])
        assert await memory.aget_thread(ANN) is None
        state = AgentState(context=[said("good")])
        assert await adapter.aput_checkpoint(ANN, state, state.context, {"from": "test"}) is state
        assert await adapter.aget_state(ANN) == state
        assert [each.metadata for each in await adapter.alist_messages(ANN)] == [{"from": "test"}]

    run(go())


def test_callers_get_their_own_copies(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        state = AgentState(context=[said("one")])
        await adapter.aput_state(ANN, state)
        await adapter.aput_state_cache(ANN, state)
        state.context.append(said("two"))
        for get in (adapter.aget_state, adapter.aget_state_cache):
            state = found(await get(ANN))
            assert texts(state.context) == ["one"]
            state.context.clear()
            assert texts(found(await get(ANN)).context) == ["one"]

    run(go())


class Mood(enum.StrEnum):
    CALM = "calm"


def test_enums_anywhere_are_stored_as_their_values_and_the_state_is_left_alone(store):
    class Felt(AgentState):
        mood: Mood = Mood.CALM
        moods: dict[Mood, list[Mood]] = Field(default_factory=dict)
        bag: Any = None

    memory = store.open()
    adapter = ClewCheckpointer(memory)
    adapter.bind_state_type(Felt)
    bag = {"in": ({"deep": [Mood.CALM]}, Mood.CALM), Mood.CALM: {1: Mood.CALM}, "same": [1, {"kept": b"x"}]}
    state = Felt(moods={Mood.CALM: [Mood.CALM]}, bag=bag)

    async def go():
        await adapter.aput_state(ANN, state)
        stored = await memory.aget_state(ANN)
        assert stored["moods"] == {"calm": ["calm"]}
        assert stored["bag"] == {"in": ({"deep": ["calm"]}, "calm"), "calm": {1: "calm"}, "same": [1, {"kept": b"x"}]}
        assert "Mood" not in str(stored)
        assert type(state.bag["in"][1]) is type(state.bag["in"][0]["deep"][0]) is Mood
        assert type(next(key for key in state.bag if key == "calm")) is Mood
        assert (found(await adapter.aget_state(ANN)).mood, state.mood) == (Mood.CALM, Mood.CALM)

    run(go())


def test_a_cleared_state_stays_cleared(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        await adapter.aput_checkpoint(ANN, AgentState(), [said("kept")])
        await adapter.aput_state_cache(ANN, AgentState())
        await adapter.aput_tool_result(ANN, "m:c", {"n": 1})
        await adapter.aclear_state(ANN)
        assert await adapter.aget_state(ANN) is await adapter.aget_state_cache(ANN) is None
        assert await adapter.aget_tool_result(ANN, "m:c") is None
        assert texts(await adapter.alist_messages(ANN)) == ["kept"]

    run(go())


def test_a_cached_state_is_not_older_than_what_another_process_saved(store):
    one, other = ClewCheckpointer(store.open()), ClewCheckpointer(store.open())

    async def go():
        await one.aput_state_cache(ANN, AgentState(context_summary="cached"))
        assert found(await one.aget_state_cache(ANN)).context_summary == "cached"
        await other.aput_state(ANN, AgentState(context_summary="newer"))
        assert await one.aget_state_cache(ANN) is None
        assert found(await one.aget_state(ANN)).context_summary == "newer"

    run(go())


def test_values_are_shared_and_end_when_their_time_is_over(store, clock):
    one, other = (ClewCheckpointer(store.open(), clock=clock) for _ in range(2))

    async def go():
        await one.aput_cache_value("urls", "a:1", {"url": "https://a"}, ttl_seconds=60)
        await one.aput_cache_value("urls", "a:2", "for good")
        await one.aput_cache_value("other", "a:1", "elsewhere", 60)
        assert await other.aget_cache_value("urls", "a:1") == {"url": "https://a"}
        clock.advance(59.9)
        assert sorted(await other.alist_cache_keys("urls")) == ["a:1", "a:2"]
        assert await other.alist_cache_keys("urls", prefix="a:1") == ["a:1"]
        clock.advance(0.2)
        assert await other.aget_cache_value("urls", "a:1") is None
        assert await other.alist_cache_keys("urls") == ["a:2"]
        await other.aput_cache_value("urls", "a:1", "again", 60)
        assert await one.aget_cache_value("urls", "a:1") == "again"
        await one.aclear_cache_value("urls", "a:1")
        await one.aclear_cache_value("urls", "never there")
        assert await other.aget_cache_value("urls", "a:1") is None
        assert await other.alist_cache_keys("nothing") == []

    run(go())


def test_values_that_ended_long_ago_are_removed(store, clock):
    memory = store.open()
    adapter = ClewCheckpointer(memory, clock=clock)

    async def go():
        for number in range(99):
            await adapter.aput_cache_value("urls", str(number), number, ttl_seconds=1)
        clock.advance(4000)
        await adapter.aput_cache_value("urls", "new", 1, ttl_seconds=1)
        kept = await memory.alist_messages(OwnConfig("agentflow.cache", "urls"), limit=None)
        assert [each.message_id for each in kept] == ["new"]

    run(go())


def test_the_cache_begins_anew_after_the_store_was_cleared(store):
    adapter, other = ClewCheckpointer(store.open()), store.open()

    async def go():
        await adapter.aput_cache_value("urls", "a", 1)
        await other.aclear_all()
        assert await adapter.aget_cache_value("urls", "a") is None
        await adapter.aput_cache_value("urls", "a", 2)
        assert await adapter.aget_cache_value("urls", "a") == 2

    run(go())


def test_the_cache_is_not_among_anybodys_threads(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        await adapter.aput_cache_value("urls", "a", 1)
        for user in ("ann", "anonymous", None):
            assert await memory.alist_threads({"user_id": user}) == []

    run(go())


def test_a_stop_request_is_for_one_thread_of_one_user(store, clock):
    adapter = ClewCheckpointer(store.open(), clock=clock)

    async def go():
        await adapter.arequest_stop({"thread_id": "a", "user_id": "b:c"})
        assert await adapter.ais_stop_requested({"thread_id": "a", "user_id": "b:c"})
        assert not await adapter.ais_stop_requested({"thread_id": "a:b", "user_id": "c"})
        clock.advance(3601)
        assert not await adapter.ais_stop_requested({"thread_id": "a", "user_id": "b:c"})

    run(go())


def test_tool_results_belong_to_the_user_of_the_thread(store):
    adapter = ClewCheckpointer(store.open())

    async def go():
        result = {"__kind__": "raw", "value": {"n": (1, b"\0"), "message": said("paid", "tool", message_id="t")}}
        await adapter.aput_state(ANN, AgentState())
        await adapter.aput_tool_result(ANN, "m1:c1", result)
        await asyncio.gather(*(adapter.aput_tool_result(ANN, f"m2:c{n}", {"n": n}) for n in range(8)))
        other = ClewCheckpointer(store.open())
        assert await other.aget_tool_result(ANN, "m1:c1") == result
        assert [await other.aget_tool_result(ANN, f"m2:c{n}") for n in range(8)] == [{"n": n} for n in range(8)]
        assert await other.aget_tool_result(ANN, "m1:c2") is None
        assert await other.aget_tool_result(BOB, "m1:c1") is None
        assert await other.aget_tool_result({"thread_id": "trip"}, "m1:c1") is None
        with pytest.raises(clew.PermissionDeniedError):
            await other.aput_tool_result(BOB, "m1:c1", {"spoofed": True})

    run(go())


def test_a_thread_goes_with_everything(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        await adapter.aput_checkpoint(ANN, AgentState(), [said("hello")])
        await adapter.aput_tool_result(ANN, "m:c", {"n": 1})
        await adapter.arequest_stop(ANN)
        with pytest.raises(clew.PermissionDeniedError):
            await adapter.aclean_thread(BOB)
        await adapter.aclean_thread(ANN)
        assert await adapter.aget_state(ANN) is await adapter.aget_thread(ANN) is None
        assert await adapter.alist_messages(ANN) == []
        assert await adapter.aget_tool_result(ANN, "m:c") is None
        assert not await adapter.ais_stop_requested(ANN)
        await adapter.aput_state(BOB, AgentState())
        assert await adapter.aget_tool_result(BOB, "m:c") is None

    run(go())


def test_threads_are_described_and_listed_by_their_owner(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        await adapter.aput_state(ANN, AgentState())
        await memory.aput_thread(ANN, {"tags": ["work"]})
        await adapter.aput_thread(
            ANN, ThreadInfo(thread_id="trip", user_id="mallory", thread_name="Wien", metadata={"n": 1})
        )
        thread = await adapter.aget_thread(ANN)
        assert thread is not None
        assert (thread.thread_id, thread.thread_name, thread.user_id) == ("trip", "Wien", "ann")
        assert thread.metadata == {"n": 1}
        assert thread.updated_at is not None
        assert abs(datetime.now(UTC) - thread.updated_at).total_seconds() < 600
        assert [each.thread_name for each in await adapter.alist_threads({"user_id": "ann"}, search="WIEN")] == ["Wien"]
        assert (await memory.aget_thread(ANN)).tags == ("work",)
        assert await adapter.alist_threads({"user_id": "bob"}) == await adapter.alist_threads({}) == []
        assert await adapter.aget_thread(BOB) is None
        assert await adapter.aget_thread_owner("trip") == "ann"
        assert await adapter.aget_thread_owner("none") is None
        with pytest.raises(clew.PermissionDeniedError):
            await adapter.aput_thread(BOB, ThreadInfo(thread_id="trip", thread_name="mine now"))

    run(go())


def test_numbers_are_ids_too(store):
    adapter = ClewCheckpointer(store.open())
    config = {"thread_id": 1, "user_id": 2, "run_id": 3}

    async def go():
        await adapter.aput_state(config, AgentState(context_summary="numbered"))
        assert found(await adapter.aget_state({"thread_id": "1", "user_id": "2"})).context_summary == "numbered"
        assert await adapter.aget_thread_owner(1) == "2"

    run(go())


@pytest.mark.parametrize("user", [{}, {"user_id": None}])
def test_a_config_without_a_user_is_the_anonymous_one_of_the_graph(store, user):
    adapter = ClewCheckpointer(store.open())

    async def go():
        await adapter.aput_state({"thread_id": "t", **user}, AgentState())
        await adapter.aput_messages({"thread_id": "m", **user}, [said("hello")])
        await adapter.aput_thread({"thread_id": "d", **user}, ThreadInfo(thread_id="d"))
        await adapter.aput_tool_result({"thread_id": "r", **user}, "m:c", {"n": 1})
        for thread_id in "tmdr":
            mine, stranger = {"thread_id": thread_id, **user}, {"thread_id": thread_id, "user_id": "bob"}
            assert await adapter.aget_thread_owner(thread_id) == framework.DEFAULT_ANONYMOUS_USER_ID
            assert await adapter.aget_thread(mine) is not None
            assert await adapter.aget_thread(stranger) is None
            with pytest.raises(clew.PermissionDeniedError):
                await adapter.aput_state(stranger, AgentState())
        assert await adapter.alist_threads({"user_id": "bob"}) == []
        for thread_id in "mdr":
            assert await adapter.aclean_thread({"thread_id": thread_id, **user})
        assert await adapter.aget_thread_owner("t") == framework.DEFAULT_ANONYMOUS_USER_ID
        assert [each.thread_id for each in await adapter.alist_threads(user)] == ["t"]
        with pytest.raises(clew.ConfigError, match="thread_id"):
            await adapter.aget_state({})

    run(go())


def test_no_id_of_a_user_or_thread_reaches_the_cache(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)
    own = OwnConfig("agentflow.cache", "stop_request")
    stranger = {"thread_id": "agentflow.cache/stop_request", "user_id": "bob"}

    async def go():
        # Before anybody asked for a stop: whoever comes first must not own the cache's thread.
        for config in (stranger, {"thread_id": "t", "user_id": "agentflow.cache"}):
            await memory.aput_messages(config, [{"role": "user", "content": "x"}])
            await adapter.aput_messages(config, [said("hello")])
        for config in (
            {"thread_id": own["thread_id"], "user_id": "bob"},
            {"thread_id": "t", "user_id": own["user_id"]},
            dict(own),
        ):
            for call in (
                memory.aput_messages(config, [{"role": "user", "content": "x"}]),
                adapter.aput_messages(config, [said("hello")]),
                adapter.aget_state(config),
                adapter.aclean_thread(config),
            ):
                with pytest.raises(clew.ConfigError, match="reserved"):
                    await call
        await adapter.arequest_stop(ANN)
        assert await adapter.ais_stop_requested(ANN)
        assert [each.message_id for each in await memory.alist_messages(own)] != []
        assert len(await memory.alist_messages(stranger)) == 2
        await memory.adelete_thread(stranger)
        assert await memory.aerase_user("agentflow.cache") == 1
        assert await adapter.ais_stop_requested(ANN)

    run(go())


def test_the_twins_work_without_a_loop_and_never_wait_for_themselves(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)
    adapter.setup()
    adapter.put_state(ANN, AgentState(context_summary="sync"))
    assert found(adapter.get_state(ANN)).context_summary == "sync"
    adapter.request_stop(ANN)
    assert adapter.is_stop_requested(ANN)

    async def inside():
        assert found(adapter.get_state(ANN)).context_summary == "sync"

    run(inside())
    adapter.clean_thread(ANN)
    assert adapter.get_thread(ANN) is None
    adapter.release()
    assert adapter.get_thread(ANN) is None  # the store is still open: its owner releases it


def test_every_twin_has_its_method():
    twins = {name[1:] for name in dir(ClewCheckpointer) if name.startswith("a") and not name.startswith("_")}
    assert twins <= set(dir(ClewCheckpointer))


def test_a_url_is_opened_and_released(tmp_path):
    adapter = ClewCheckpointer(f"sqlite:///{tmp_path / 'own.db'}")

    async def go():
        await adapter.aput_state(ANN, AgentState())
        await adapter.arelease()
        with pytest.raises(clew.StorageError):
            await adapter.aget_state(ANN)

    run(go())
    with pytest.raises(clew.ConfigError, match="ClewCheckpointer takes"):
        ClewCheckpointer(42)  # type: ignore[arg-type]


def test_one_checkpointer_is_for_one_class_of_states(store):
    class Other(AgentState):
        pass

    adapter = ClewCheckpointer(store.open())
    adapter.bind_state_type(AgentState)
    with pytest.raises(ValueError, match="already bound"):
        adapter.bind_state_type(Other)


def test_a_long_thread_is_stored_in_proportion_to_what_was_said(store):
    memory = store.open()
    adapter = ClewCheckpointer(memory)

    async def go():
        state = AgentState()
        for turn in range(100):
            state.context.append(said(f"turn {turn} " + "x" * 500, message_id=f"m{turn}"))
            state.execution_meta.step = turn
            await adapter.aput_checkpoint(ANN, state, state.context[-1:])
        thread = await memory.aget_thread(ANN)
        assert thread is not None
        return thread.size

    assert run(go()) < 400_000  # storing each state whole would take 4,000,000
