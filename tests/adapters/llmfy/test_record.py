"""The conversation record of flows whose messages are dicts without ids: each message is recorded
once.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
from llmfy import END, START, FlowEngine, Message, Role

from clew.adapters.fingerprint import new_places
from clew.adapters.llmfy import ClewCheckpointer
from clew.testing import FakeClock
from tests.adapters.llmfy.support import NEW, checkpoint
from tests.checkpointer.support import run

HALF_AN_EMOJI = json.loads('"\\ud83d"')


class State(TypedDict):
    messages: list[Any]


class StateOfObjects(TypedDict):
    messages: list[Message]


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


def test_messages_without_a_timestamp_have_the_time_of_the_store_s_clock(store):
    clock = FakeClock()
    memory = store.open(clock=clock)
    timed = said("b", timestamp="2020-01-02T03:04:05+00:00")
    run(ClewCheckpointer(memory).save(checkpoint(1, state={"messages": [said("a"), timed]})))
    moment = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [each.created_at for each in memory.list_messages("s")] == [clock.now(), moment]


def flow(checkpointer: Any, answer: Any = lambda asked: "Anything else?", edit: Any = lambda messages: messages) -> Any:
    """One node that answers the last message and then applies `edit` to the list."""

    async def node(state):
        asked = state["messages"][-1]
        return {"messages": edit([*state["messages"], said(answer(asked["content"]), "assistant")])}

    engine = FlowEngine(State, checkpointer=checkpointer)
    engine.add_node("node", node)
    engine.add_edge(START, "node")
    engine.add_edge("node", END)
    return engine.build()


async def talk(engine, *questions, session="s", messages=()):
    """Run the flow once for each question. Returns the messages of the last run."""
    messages = list(messages)
    for question in questions:
        messages = (await engine.invoke({"messages": [*messages, said(question)]}, session_id=session))["messages"]
    return messages


async def record(checkpointer, session="s"):
    return [each.text() for each in await checkpointer.alist_messages(session, limit=None)]


def test_a_repeated_text_is_recorded_again(store):
    async def go():
        checkpointer = store.open()
        await talk(flow(ClewCheckpointer(checkpointer)), "yes", "no", "yes", "yes")
        expected = [text for question in ("yes", "no", "yes", "yes") for text in (question, "Anything else?")]
        assert await record(checkpointer) == expected

    run(go())


@pytest.mark.parametrize("answer", [lambda asked: f"re {asked}", lambda asked: "Anything else?"])
def test_a_window_that_slides_loses_nothing(store, answer):
    async def go():
        checkpointer = store.open()
        questions = ["yes", "no", "yes", "maybe", "no"]
        left = await talk(flow(ClewCheckpointer(checkpointer), answer, lambda messages: messages[-4:]), *questions)
        assert len(left) == 4
        assert await record(checkpointer) == [text for each in questions for text in (each, answer(each))]

    run(go())


def test_a_summary_in_the_place_of_the_beginning_is_recorded_and_what_it_sums_up_stays(checkpointer):
    def summed_up(messages):
        return [said("they greeted", "system"), *messages[-2:]] if len(messages) > 4 else messages

    async def go():
        await talk(flow(ClewCheckpointer(checkpointer), lambda asked: f"re {asked}", summed_up), "a", "b", "c", "d")
        said_by_all = ["a", "re a", "b", "re b", "c", "re c", "d", "re d"]
        assert sorted(await record(checkpointer)) == sorted([*said_by_all, "they greeted"])

    run(go())


def test_an_edit_of_a_message_without_an_id_is_recorded_and_loses_nothing(checkpointer):
    def redacted(messages):
        return [said("[redacted]") if "1234" in each["content"] else each for each in messages]

    async def go():
        started = await talk(flow(ClewCheckpointer(checkpointer)), "1234", "and?")
        await talk(flow(ClewCheckpointer(checkpointer), edit=redacted), "well?", messages=started)
        expected = ["1234", "and?", "well?", *3 * ["Anything else?"], "[redacted]"]
        assert sorted(await record(checkpointer)) == sorted(expected)

    run(go())


def test_an_edit_of_a_message_with_an_id_is_recorded_in_its_place(checkpointer):
    def redacted(messages):
        return [{**each, "content": "[redacted]"} if "1234" in each["content"] else each for each in messages]

    async def go():
        started = await talk(flow(ClewCheckpointer(checkpointer)), messages=[said("1234", id="q")])
        started = await talk(
            flow(ClewCheckpointer(checkpointer)), "and?", messages=[said("1234", id="q"), *started[1:]]
        )
        await talk(flow(ClewCheckpointer(checkpointer), edit=redacted), "well?", messages=started)
        assert (await record(checkpointer))[0] == "[redacted]"
        assert await checkpointer.alist_messages("s", search="1234") == []

    run(go())


def test_a_list_that_is_saved_again_doubles_nothing(store):
    async def go():
        checkpointer = store.open()
        messages = [said("hi"), said("hi"), said("hello", "assistant")]
        for number, saver in enumerate(2 * [ClewCheckpointer(checkpointer), ClewCheckpointer(store.open())]):
            await saver.save(checkpoint(number, state={"messages": messages}))
        await ClewCheckpointer(store.open()).save(checkpoint(1, state={"messages": messages[:2]}))
        assert await record(checkpointer) == ["hi", "hi", "hello"]

    run(go())


def test_several_processes_in_turns_record_each_message_once(store):
    async def go():
        engines = [flow(ClewCheckpointer(store.open())) for _ in range(2)]
        messages: Any = []
        for turn in range(4):
            messages = await talk(engines[turn % 2], "yes", messages=messages)
        assert await record(store.open()) == 4 * ["yes", "Anything else?"]

    run(go())


def test_concurrent_runs_on_a_session_are_all_recorded(store):
    async def go():
        texts = ["p0", "p1", "p2", "p3"]
        checkpointer = store.open()
        saver = ClewCheckpointer(checkpointer)
        # One engine for each run: an engine of 0.9 shares its state between runs.
        engines = [flow(saver, lambda asked: f"re {asked}") for _ in texts]
        await asyncio.gather(*(talk(engine, each) for engine, each in zip(engines, texts, strict=True)))
        said = [each.text() for each in await checkpointer.alist_messages("s", branches="all")]
        assert sorted(said) == sorted([*texts, *(f"re {each}" for each in texts)])

    run(go())


def test_a_thread_that_was_deleted_elsewhere_and_begun_anew_has_its_greeting(store):
    async def go():
        checkpointer = store.open()
        engine = flow(ClewCheckpointer(checkpointer))
        for _ in range(2):
            await talk(engine, "hi")
            assert await record(checkpointer) == ["hi", "Anything else?"]
            await store.open().adelete_thread("s")

    run(go())


def test_messages_are_new_where_they_do_not_follow_in_the_earlier_list():
    def new(before, now):
        return [now[at] for at in new_places(list(before), list(now))]

    assert new("", "aa") == ["a", "a"]
    assert new("aba", "aba") == []
    assert new("aba", "abaa") == ["a"]
    assert new("abcd", "cdab") == ["a", "b"]
    assert new("sabcd", "scdab") == ["a", "b"]
    assert new("abcd", "axcd") == ["x"]
    assert new("abcd", "acd") == []


def test_half_an_emoji_does_not_end_a_run(store):
    async def go():
        checkpointer = store.open()
        engine = flow(ClewCheckpointer(checkpointer), lambda asked: f"cut {HALF_AN_EMOJI}")
        await talk(engine, "hi", "and?")
        assert await record(checkpointer) == ["hi", "cut ?", "and?", "cut ?"]
        state = await engine.get_state("s")
        assert [each["content"] for each in state["messages"]] == ["hi", "cut ?", "and?", "cut ?"]

    run(go())


def test_half_an_emoji_in_a_message_of_llmfy_s_own_does_not_end_a_run(checkpointer):
    async def node(state):
        return {"messages": [*state["messages"], Message(role=Role.ASSISTANT, content=f"cut {HALF_AN_EMOJI}")]}

    async def go():
        types: dict[str, Any] = {"types": [Message]} if NEW else {}
        engine = FlowEngine(StateOfObjects, checkpointer=ClewCheckpointer(checkpointer), **types)
        engine.add_node("node", node)
        engine.add_edge(START, "node")
        engine.add_edge("node", END)
        await engine.build().invoke({"messages": [Message(role=Role.USER, content="hi")]}, session_id="s")
        assert await record(checkpointer) == ["hi", "cut ?"]
        state = await engine.get_state("s")
        assert state is not None
        (_, answer) = state["messages"]
        assert (type(answer), answer.content) == (Message, "cut ?")

    run(go())


def test_the_record_follows_the_branch_of_a_run(store):
    async def go():
        checkpointer = ClewCheckpointer(store.open())
        memory = checkpointer.checkpointer
        engine = flow(checkpointer)
        messages = await talk(engine, "one")
        await talk(engine, "two", messages=messages)
        assert await record(memory) == ["one", "Anything else?", "two", "Anything else?"]
        head = await memory.arewind("s", turns=1)
        assert await record(memory) == ["one", "Anything else?"]
        await talk(engine, "three", messages=messages)
        assert await record(memory) == ["one", "Anything else?", "three", "Anything else?"]
        assert await record(memory, head.config) == ["one", "Anything else?"]
        await checkpointer.close()

    asyncio.run(go())


def test_a_role_that_the_record_does_not_take_ends_no_run(store):
    async def go():
        checkpointer = store.open()
        strange = [said("nobody", ""), said("whole", "damaged")]
        await talk(flow(ClewCheckpointer(checkpointer)), "hello", messages=strange)
        found = await checkpointer.alist_messages("s")
        assert [(each.role, each.text()) for each in found][:3] == [
            ("unknown", "nobody"),
            ("unknown", "whole"),
            ("user", "hello"),
        ]

    run(go())
