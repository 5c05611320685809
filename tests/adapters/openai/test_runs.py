"""Agents of the SDK, run by its Runner with its scripted model: tools, streaming, resuming,
compaction, crashes.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings, function_tool, trace
from agents.memory import OpenAIResponsesCompactionSession
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import set_trace_processors, set_tracing_disabled

import clew
from clew.adapters.openai_agents import ClewSession
from clew.adapters.openai_agents.items import item_of
from tests.adapters.openai.support import agent, said, texts
from tests.checkpointer.support import run


@pytest.fixture
def tracing():
    """Traces are made, but not sent."""
    set_trace_processors([])
    set_tracing_disabled(False)
    yield
    set_tracing_disabled(True)


def test_a_conversation_goes_on_in_another_process(store):
    async def first():
        session = ClewSession("s", store.open())
        result = await Runner.run(
            agent(("weather", {"city": "Lima"}), "It is sunny."), "Weather in Lima?", session=session
        )
        assert result.final_output == "It is sunny."

    async def second():
        session = ClewSession("s", store.open())
        model = ScriptedModel([[assistant_message("Yes.")]])
        await Runner.run(Agent(name="agent", model=model), "Sure?", session=session)
        heard: Any = model.calls[0].input
        assert texts(heard)[0] == "Weather in Lima?"
        assert heard[2]["output"] == "It is sunny in Lima"
        assert texts(heard)[-2:] == ["It is sunny.", "Sure?"]
        found = await session.checkpointer.alist_messages("s", search="sunny in lima")
        assert [each.role for each in found] == ["tool"]
        assert len(await session.get_items()) == 6

    run(first())
    run(second())


def test_a_streamed_run_is_kept_like_any_other(store):
    async def go():
        session = ClewSession("s", store.open())
        result = Runner.run_streamed(agent(("weather", {"city": "Lima"}), "Sunny."), "Weather?", session=session)
        async for _ in result.stream_events():
            pass
        assert [item.get("type", item.get("role")) for item in await session.get_items()] == [
            "user",
            "function_call",
            "function_call_output",
            "message",
        ]

    run(go())


def test_a_run_without_an_event_loop_is_kept_too(store):
    session = ClewSession("s", store.open())
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    try:
        Runner.run_sync(agent("Hello."), "Hi", session=session)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert texts(run(session.get_items())) == ["Hi", "Hello."]


def test_half_an_emoji_does_not_end_a_run(store):
    def fetch() -> str:
        return str(json.loads('"cut \\ud83d"'))

    async def go():
        session = ClewSession("s", store.open())
        script = [[function_call("fetch", {}, call_id="c")], [assistant_message("Done.")]]
        fetching = Agent(name="agent", model=ScriptedModel(script), tools=[function_tool(fetch)])
        result = await Runner.run(fetching, "Hi", session=session)
        assert result.final_output == "Done."
        items: Any = await session.get_items()
        assert (len(items), items[2]["output"]) == (4, "cut ?")

    run(go())


def test_a_run_that_failed_keeps_what_was_said_and_the_next_one_goes_on(store):
    async def go():
        session = ClewSession("s", store.open())
        with pytest.raises(RuntimeError, match="model down"):
            await Runner.run(
                Agent(name="agent", model=ScriptedModel([{"error": RuntimeError("model down")}])), "Hi", session=session
            )
        await Runner.run(agent("Hello."), "Are you there?", session=ClewSession("s", store.open()))
        assert texts(await session.get_items()) == ["Hi", "Are you there?", "Hello."]

    run(go())


def test_a_limit_of_the_run_is_what_the_model_hears(store):
    async def go():
        session = ClewSession("s", store.open())
        await session.add_items(said(*"abcdef"))
        model = ScriptedModel([[assistant_message("ok")]])
        config = RunConfig(session_settings=SessionSettings(limit=2))
        await Runner.run(Agent(name="agent", model=model), "now", session=session, run_config=config)
        assert texts(model.calls[0].input) == ["e", "f", "now"]
        assert len(await session.get_items()) == 8

    run(go())


def test_a_run_s_trace_is_the_run_of_its_checkpoints_and_messages(store, tracing):
    async def go():
        session = ClewSession("s", store.open())
        with trace("a run", disabled=False) as first:
            await session.add_items(said("a"))
        with trace("another", disabled=True):
            await session.add_items(said("b"))
        infos = await session.checkpointer.alist_checkpoints(session.config)
        assert [each.run_id for each in infos] == [None, first.trace_id]
        assert (await session.checkpointer.alist_messages(session.config))[0].run_id == first.trace_id

    run(go())


def test_a_fork_of_a_run_takes_another_way(store):
    async def go():
        session = ClewSession("s", store.open())
        await Runner.run(agent("Rome."), "Where to?", session=session)
        await Runner.run(agent("In May."), "When?", session=session)
        fork = await session.fork(from_turn=2)
        await Runner.run(agent("By train."), "How?", session=fork)
        assert texts(await fork.get_items()) == ["Where to?", "Rome.", "How?", "By train."]
        assert texts(await session.get_items()) == ["Where to?", "Rome.", "When?", "In May."]
        diff = await session.checkpointer.adiff(session.config, fork.config)
        assert "By train." in str(diff)

    run(go())


class Compactor:
    """A fake of the summarizing service, with the only method that the SDK calls."""

    def __init__(self) -> None:
        self.responses = self

    async def compact(self, **asked: Any) -> Any:
        summary = {"type": "compaction", "id": "cmp_1", "encrypted_content": "a summary"}
        return SimpleNamespace(output=[summary], usage=None)


def test_compaction_replaces_the_items_in_one_commit_and_keeps_the_history(store):
    async def go():
        session = ClewSession("s", store.open())
        await session.add_items(said("a", "b"))
        client: Any = Compactor()
        compacting = OpenAIResponsesCompactionSession("s", session, client=client, compaction_mode="input")
        await compacting.run_compaction({"force": True})
        assert [item["type"] for item in await session.get_items()] == ["compaction"]
        history = await session.checkpointer.aget_history("s")
        assert [len(each.state["items"]) for each in history] == [1, 2]
        record = await session.checkpointer.alist_messages("s")
        assert [item_of(each) for each in record] == await session.get_items()

    run(go())


class Redacting(ClewSession):
    """Redacts a word before it is stored."""

    def __init__(self, *given: Any, word: str, **named: Any) -> None:
        super().__init__(*given, **named)
        self.word = word

    async def add_items(self, items: list[Any]) -> None:
        await super().add_items(json.loads(json.dumps(items).replace(self.word, "[redacted]")))


class Uncovering(ClewSession):
    """Returns other items than the stored ones."""

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items: list[Any] = await super().get_items(limit)
        return [{**item, "content": item["content"].upper()} for item in items]


class Counting(ClewSession):
    """Counts how often it was cleared."""

    cleared = 0

    async def clear_session(self) -> None:
        self.cleared += 1
        await super().clear_session()


class Keeping(ClewSession):
    """Refuses to pop items."""

    async def pop_item(self) -> None:
        return None


@pytest.mark.parametrize("forked", [False, True])
def test_what_a_subclass_keeps_out_of_the_store_compaction_keeps_out_too(store, forked):
    async def go():
        session = Redacting("s", store.open(), word="summary")
        await session.add_items(said("a", "a summary"))
        if forked:
            session = await session.fork()
        client: Any = Compactor()
        compacting = OpenAIResponsesCompactionSession(
            session.session_id, session, client=client, compaction_mode="input"
        )
        await compacting.run_compaction({"force": True})
        (item,) = await session.get_items()
        assert item == {"type": "compaction", "id": "cmp_1", "encrypted_content": "a [redacted]"}
        await session.add_items(said("another summary"))
        whole = await session.checkpointer.aget_history(session.config, limit=None)
        assert "summary" not in str([each.state for each in whole])
        assert "summary" not in str(await session.checkpointer.alist_messages(session.config))

    run(go())


def test_nothing_is_replaced_around_a_method_that_a_subclass_overrides(store):
    async def go():
        checkpointer = store.open()
        sessions: list[Any] = [
            Redacting("a", checkpointer, word="x"),
            Uncovering("b", checkpointer),
            Counting("c", checkpointer),
            Keeping("d", checkpointer),
        ]
        for session in sessions:
            await session.add_items(said("a", "b"))
            assert await session._get_compaction_snapshot(3) is None
            assert not await session._atomic_replace_items(said("c"))
            assert len(await session.get_items()) == 2
        client: Any = Compactor()
        compacting = OpenAIResponsesCompactionSession("c", sessions[2], client=client, compaction_mode="input")
        await compacting.run_compaction({"force": True})
        assert sessions[2].cleared == 1

    run(go())


class Named(ClewSession):
    """Overrides no method of the protocol."""

    name = "mine"


def test_a_subclass_that_overrides_none_of_them_is_compacted_in_one_commit(store):
    async def go():
        session = Named("s", store.open())
        await session.add_items(said("a", "b"))
        fork = await session.fork()
        assert type(fork) is Named
        assert await fork._get_compaction_snapshot(3) is not None
        assert await session._atomic_replace_items(said("c"))
        assert len(await session.checkpointer.aget_history("s")) == 2

    run(go())


def test_a_fork_does_not_close_the_store_that_its_source_opened(tmp_path):
    async def go():
        async with ClewSession("s", f"sqlite:///{tmp_path}/clew.db") as session:
            await session.add_items(said("a"))
            async with await session.fork() as fork:
                await fork.add_items(said("b"))
            assert (texts(await session.get_items()), texts(await fork.get_items())) == (["a"], ["a", "b"])

    run(go())


def test_compaction_of_the_latest_items_yields_to_concurrent_writers(store):
    async def go():
        session, other = ClewSession("s", store.open()), ClewSession("s", store.open())
        await session.add_items(said(*"abcd"))
        snapshot = await session._get_compaction_snapshot(3)
        assert snapshot is not None
        assert (texts(snapshot.items), snapshot.complete) == (["b", "c", "d"], False)
        await other.add_items(said("e"))
        assert not await snapshot.replace_suffix(1, said("summary"))
        snapshot = await session._get_compaction_snapshot(9)
        assert snapshot is not None
        assert snapshot.complete
        assert await snapshot.replace_suffix(2, said("summary"))
        assert texts(await other.get_items()) == ["a", "b", "summary"]

    run(go())


def test_a_store_serves_many_sessions_of_many_users_at_once(store):
    async def go():
        checkpointer = store.open()

        async def talk(number: int) -> None:
            session = ClewSession(f"s{number}", checkpointer, user_id=f"user {number % 3}")
            for turn in range(3):
                await Runner.run(agent(f"answer {turn}"), f"question {turn}", session=session)

        await asyncio.gather(*map(talk, range(9)))
        threads = await checkpointer.alist_threads({"user_id": clew.ANY_USER})
        assert {each.message_count for each in threads} == {6}
        assert len(await checkpointer.alist_threads({"user_id": "user 1"})) == 3

    run(go())
