"""The conversation record has each message once, whatever the graph does with its list."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer

import clew
from clew.adapters.langgraph import ClewSaver
from clew.testing import FakeClock
from tests.adapters.langgraph.support import config
from tests.checkpointer.support import SpyStorage


class Plain(TypedDict):
    messages: Annotated[list[Any], operator.add]


class Window(TypedDict):
    messages: Annotated[list[Any], lambda old, new: (old + new)[-3:]]


class Deltas(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]


def graph(saver: Any, state: Any, say: Any = None) -> Any:
    builder: Any = StateGraph(state)
    builder.add_node("answer", say or (lambda state: {"messages": [AIMessage(f"re {_text(state['messages'][-1])}")]}))
    return builder.add_edge(START, "answer").compile(checkpointer=saver)


def _text(message: Any) -> Any:
    return message["content"] if isinstance(message, dict) else message.content


def talk(saver: Any, state: Any, *said: str, say: Any = None, **options: Any) -> Any:
    made = graph(saver, state, say)
    for text in said:
        made.invoke({"messages": [HumanMessage(text)]}, config(), **options)
    return made


def record(saver: ClewSaver, thread: Any = "t", **asked: Any) -> list[str]:
    return [each.text() for each in saver.checkpointer.list_messages(thread, limit=None, **asked)]


def test_a_repeated_text_is_recorded_again(saver):
    talk(saver, Plain, "yes", "yes")
    assert record(saver) == ["yes", "re yes", "yes", "re yes"]


def test_messages_of_a_checkpoint_without_a_time_have_that_of_the_store_s_clock(store):
    clock = FakeClock()
    saver = ClewSaver(store.open(clock=clock))
    checkpoint: Any = {**empty_checkpoint(), "ts": ""}
    checkpoint["channel_values"] = {"messages": [HumanMessage("hi", id="m")]}
    checkpoint["channel_versions"] = {"messages": 1}
    saver.put(config(), checkpoint, {}, {"messages": 1})
    (message,) = saver.checkpointer.list_messages("t")
    assert (message.message_id, message.created_at) == ("m", clock.now())


def test_a_window_that_slides_loses_nothing_in_the_record(saver):
    talk(saver, Window, "q0", "q1", "q1", "q2", "q0")
    said = ["q0", "re q0", "q1", "re q1", "q1", "re q1", "q2", "re q2", "q0", "re q0"]
    assert record(saver) == said


def test_another_process_goes_on_with_the_record_of_the_first(store):
    said: list[str] = []
    for text in ("one", "two", "two"):
        saver = ClewSaver(store.open())
        talk(saver, Window, text)
        said += [text, f"re {text}"]
        assert record(saver) == said


def test_going_back_adds_what_is_new_and_nothing_twice(saver):
    made = talk(saver, Plain, "one", "two", "three")
    first = next(
        each for each in made.get_state_history(config()) if len(each.values["messages"]) == 2 and not each.next
    )
    made.invoke({"messages": [HumanMessage("two")]}, first.config)
    everything = ["one", "re one", "two", "re two", "three", "re three", "two", "re two"]
    assert record(saver, branches="all") == everything
    assert record(saver) == ["one", "re one", "two", "re two"]
    made.update_state(first.config, {"messages": [HumanMessage("noted")]})
    assert record(saver, branches="all") == [*everything, "noted"]
    assert record(saver) == ["one", "re one", "noted"]
    assert record(saver, search="three") == []
    assert record(saver, search="three", branches="all") == ["three", "re three"]


def test_each_checkpoint_shows_its_branch_and_a_rerun_another_one(saver):
    made = talk(saver, Plain, "one", "two")
    ends = [each for each in made.get_state_history(config()) if not each.next]
    asks = [each for each in made.get_state_history(config()) if "answer" in each.next]
    # Run the last answer again, from the checkpoint with the question.
    made.invoke(None, asks[0].config)
    assert record(saver) == ["one", "re one", "two", "re two"]
    assert record(saver, branches="all") == ["one", "re one", "two", "re two", "re two"]
    for each in ends:
        stored = {
            **saver.checkpointer.get_checkpoint("t").config,
            "checkpoint_id": each.config["configurable"]["checkpoint_id"],
        }
        assert record(saver, stored) == [message.content for message in each.values["messages"]]


def test_a_graph_goes_on_after_a_rewind(saver):
    made = talk(saver, Plain, "one", "two")
    saver.checkpointer.rewind("t", turns=1)
    assert record(saver) == ["one", "re one"]
    assert [each.content for each in made.get_state(config()).values["messages"]] == ["one", "re one"]
    made.invoke({"messages": [HumanMessage("other")]}, config())
    assert record(saver) == ["one", "re one", "other", "re other"]
    assert [each.content for each in made.get_state(config()).values["messages"]] == record(saver)


def test_a_question_asked_again_under_its_id_moves_to_the_new_branch(saver):
    made = talk(saver, Plain, "one")
    first = next(each for each in made.get_state_history(config()) if not each.next)
    made.invoke({"messages": [HumanMessage("two", id="q")]}, config())
    made.invoke({"messages": [HumanMessage("two, please", id="q")]}, first.config)
    assert record(saver) == ["one", "re one", "two, please", "re two, please"]


def test_a_list_that_can_t_be_compared_cheaply_is_recorded_once_too(saver):
    class Odd(AIMessage):
        """A message class that no framework defines."""

    def answer(state: Plain) -> Any:
        return {"messages": [Odd(content=f"re {state['messages'][-1].content}", id="odd"), AIMessage("cut \ud83d")]}

    talk(saver, Plain, "one", "two", "three", say=answer)
    assert record(saver, search="cut") == ["cut ?"] * 3
    assert len(record(saver, search="one")) == 1


def test_plain_dicts_with_a_role_are_messages(saver):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}

    def answer(state: Plain) -> Any:
        asked = {"role": "ai", "content": None, "tool_calls": [call]}
        return {"messages": [asked, {"role": "tool", "content": "sunny", "tool_call_id": "c1"}, {"no": "message"}]}

    made = graph(saver, Plain, answer)
    for _ in range(2):
        made.invoke({"messages": [{"role": "user", "content": "hello", "id": "own"}]}, config())
    found = saver.checkpointer.list_messages("t")
    assert [(each.role, each.text()) for each in found] == [
        ("user", "hello"),
        ("assistant", ""),
        ("tool", "sunny"),
        ("assistant", ""),
        ("tool", "sunny"),
    ]
    assert (found[0].message_id, found[1].tool_calls, found[2].metadata) == ("own", (call,), {"tool_call_id": "c1"})
    assert [each.role for each in saver.checkpointer.list_messages("t", search="lisbon")] == ["assistant"] * 2


def test_a_search_finds_calls_of_tools_by_name_and_arguments(saver):
    def answer(state: MessagesState) -> Any:
        call = {"name": "weather", "args": {"city": "Lisbon", "days": [17]}, "id": "call-9", "type": "tool_call"}
        return {"messages": [AIMessage("looking", tool_calls=[call]), ToolMessage("sunny", tool_call_id="call-9")]}

    talk(saver, MessagesState, "what now?", say=answer)
    for looked_for in ("WEATHER", "lisbon", "17", "looking"):
        assert record(saver, search=looked_for) == ["looking"], looked_for
    for unsaid in ("call-9", "tool_call"):
        assert record(saver, search=unsaid) == []
    assert saver.checkpointer.verify().ok


def test_removals_are_not_recorded(saver):
    def answer(state: Plain) -> Any:
        return {"messages": [RemoveMessage(id="x"), AIMessage("summed up")]}

    talk(saver, Plain, "one", say=answer)
    assert record(saver) == ["one", "summed up"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_messages_of_a_delta_channel_are_recorded_once_and_in_their_order(saver, durability):
    said: list[str] = []
    made = graph(saver, Deltas)
    for turn in range(6):
        made.invoke({"messages": [("user", f"q{turn}")]}, config(), durability=durability)
        said += [f"q{turn}", f"re q{turn}"]
        assert sorted(record(saver)) == sorted(said)
    assert record(saver) == said
    assert record(saver, search="re q3") == ["re q3"]


def test_another_process_records_what_is_said_in_a_delta_channel_too(store):
    said: list[str] = []
    for turn in range(6):
        saver = ClewSaver(store.open())
        talk(saver, Deltas, f"q{turn}")
        said += [f"q{turn}", f"re q{turn}"]
        assert record(saver) == said


def test_going_back_in_a_delta_channel_is_recorded(saver):
    made = talk(saver, Deltas, "one", "two")
    first = next(
        each for each in made.get_state_history(config()) if len(each.values["messages"]) == 2 and not each.next
    )
    made.invoke({"messages": [HumanMessage("another")]}, first.config)
    made.update_state(config(), {"messages": [HumanMessage("noted", id="n")]})
    assert record(saver) == ["one", "re one", "another", "re another", "noted"]
    assert record(saver, branches="all") == ["one", "re one", "two", "re two", "another", "re another", "noted"]
    forked = saver.fork(first.config, "fork")
    assert record(saver, "fork") == ["one", "re one"]
    made.invoke({"messages": [HumanMessage("elsewhere")]}, forked)
    assert record(saver, "fork") == ["one", "re one", "elsewhere", "re elsewhere"]


def test_a_message_of_a_delta_channel_comes_with_the_checkpoint_that_takes_it_in(store):
    spies: list[SpyStorage] = []

    def spy(storage: Any) -> Any:
        spies.append(SpyStorage(storage))
        return spies[-1]

    talk(ClewSaver(store.open(spy)), Deltas, *map(str, range(6)))
    said = [commit for commit in spies[0].commits if commit.messages]
    assert [(commit.checkpoint is not None, len(commit.messages)) for commit in said] == [(True, 1)] * 12


def test_half_an_emoji_of_a_cut_stream_does_not_end_a_run(checkpointer):
    def answer(state: MessagesState) -> Any:
        call = {"name": "look\udc00", "args": {"at": ["\ud83d"]}, "id": "c", "type": "tool_call"}
        blocks: list[Any] = [{"type": "text", "text": "cut \ud83d"}]
        return {"messages": [AIMessage("cut \ud83d"), AIMessage(blocks, tool_calls=[call])]}

    def said(saver: Any, thread: Any) -> Any:
        made = graph(saver, MessagesState, answer)
        for _ in range(2):
            made.invoke({"messages": [HumanMessage("x")]}, thread)
        return [(each.content, getattr(each, "tool_calls", None)) for each in made.get_state(thread).values["messages"]]

    expected = said(InMemorySaver(), config())
    for channel in ("messages", None):
        saver = ClewSaver(checkpointer, messages=channel)
        assert said(saver, config(f"{channel}")) == expected
    assert record(saver, "messages") == ["x", "cut ?", "cut ?"] * 2
    assert record(saver, "messages", search="look?") == ["cut ?"] * 2
    assert isinstance(checkpointer.list_messages("messages")[0], clew.Message)


def test_a_role_that_the_record_does_not_take_ends_no_run(saver):
    def say(state):
        return {"messages": [{"role": "", "content": "nobody"}, ChatMessage(role="damaged", content="whole")]}

    graph(saver, Plain, say).invoke({"messages": [{"role": "user", "content": "hello", "id": "own"}]}, config())
    assert [(each.role, each.text()) for each in saver.checkpointer.list_messages("t")] == [
        ("user", "hello"),
        ("unknown", "nobody"),
        ("unknown", "whole"),
    ]
