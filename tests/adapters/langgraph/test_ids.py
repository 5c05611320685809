"""LangGraph gets a UUID for every checkpoint id, and finds the checkpoint by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.types import StateUpdate

from clew.adapters.langgraph import ClewSaver
from clew.adapters.langgraph.ids import inner_id, outer_id, sort_key, sort_key_of
from clew.ids import new_id
from tests.adapters.langgraph.support import chat, config, say, texts

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
OWN = st.text(LETTERS, min_size=20, max_size=20)


def test_langgraph_s_ids_stay_what_they_are():
    for own in (str(uuid6()), str(uuid4()), uuid4().hex, str(uuid4()).upper()):
        assert outer_id(own) == inner_id(own) == own


def test_an_id_of_clew_s_is_read_back_from_its_uuid():
    for _ in range(1000):
        own = new_id()
        assert str(UUID(outer_id(own))) == outer_id(own)
        assert inner_id(outer_id(own)) == own


@given(st.one_of(OWN, st.text(min_size=1), st.uuids().map(str)))
def test_every_id_has_a_uuid_that_is_recovered_or_marked_as_a_digest(own):
    outer = outer_id(own)
    assert UUID(outer)
    assert inner_id(outer) in (own, None)
    assert own == outer or outer_id(outer) != outer, "no two ids have one UUID"


def test_an_id_that_only_looks_like_clew_s_is_not_taken_for_one():
    real = UUID(outer_id(new_id()))
    for looks in (str(real), str(UUID(int=real.int + (1 << 64)))):
        assert outer_id(looks) != looks
        assert inner_id(outer_id(looks)) is None


def test_ids_of_both_kinds_sort_by_time():
    now = datetime.now(UTC)
    milliseconds = int(now.timestamp() * 1000)

    def at(number: int) -> str:
        value = number << 2
        return "".join([LETTERS[value >> shift & 31] for shift in range(45, -1, -5)]) + new_id()[10:]

    own = str(uuid6())
    assert outer_id(at(milliseconds - 5000)) < own < outer_id(at(milliseconds + 5000))
    assert sort_key(outer_id(at(milliseconds - 1))) < sort_key(own) < sort_key(outer_id(at(milliseconds + 5000)))
    later = now + timedelta(seconds=5)
    assert (
        sort_key_of("mine", now)
        < sort_key(own)
        < sort_key_of("mine", later)
        < sort_key_of(at(milliseconds + 6000), now)
    )


@pytest.fixture
def threads(checkpointer):
    """Threads that wait before their only node, with heads that LangGraph did not write."""
    graph = chat(ClewSaver(checkpointer), interrupt_before=["answer"])
    graph.invoke(say("one"), config())
    checkpointer.fork("t", "a fork")
    state = checkpointer.get_state("t")
    checkpointer.put_state("saved", {"messages": state["messages"]})
    graph.invoke(say("one"), config("changed"))
    checkpointer.update_state("changed", append={"messages": [HumanMessage("too", id="too")]})
    checkpointer.put_checkpoint("called", {"messages": state["messages"]}, new_id="my own id")
    checkpointer.put_checkpoint("called like a UUID", {"messages": state["messages"]}, new_id=outer_id(new_id()))
    return graph, ["a fork", "saved", "changed", "called", "called like a UUID"]


def test_a_head_that_langgraph_did_not_write_is_found_changed_and_gone_on_from(threads):
    graph, names = threads
    for name in names:
        before = graph.get_state(config(name))
        assert UUID(before.config["configurable"]["checkpoint_id"])
        assert graph.get_state(before.config).values == before.values, name
        changed = graph.update_state(before.config, say("edited"), as_node="__start__")
        assert texts(graph.get_state(changed).values)[-1] == "edited", name
        assert texts(graph.invoke(None, config(name)))[-1] == "answer to edited", name
        (parent,) = [each for each in graph.get_state_history(config(name)) if each.config == before.config]
        assert parent.values == before.values
        others: Any = graph.get_state_history(config(name), before=changed)
        assert parent.config in [each.config for each in others]


def test_a_new_turn_and_a_bulk_update_begin_on_such_a_head(threads):
    graph, names = threads
    for name in names:
        graph.bulk_update_state(config(name), [[StateUpdate(say("in bulk"), "answer")]])
        assert texts(graph.invoke(say("and"), config(name)))[-2:] == ["in bulk", "and"]
        assert len({each.config["configurable"]["checkpoint_id"] for each in graph.get_state_history(config(name))}) > 2


def test_checkpoints_before_a_removed_one_are_found_by_time(checkpointer):
    saver = ClewSaver(checkpointer)
    checkpointer.put_checkpoint("t", {"messages": []}, new_id="first")
    checkpointer.put_state("t", {"messages": [HumanMessage("by Clew", id="1")]})
    gone = config(checkpoint_ns="", checkpoint_id=str(uuid6()))
    chat(saver).invoke(say("later"), config())
    assert [len(each.checkpoint["channel_values"]["messages"]) for each in saver.list(config(), before=gone)] == [1, 0]
