"""Times of messages: what the caller gave, or else the checkpointer's clock."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest

import clew
from clew import Message, RetentionPolicy
from clew.testing import FakeClock
from tests.checkpointer.support import run

LONG_AGO = datetime(2020, 2, 3, 4, 5, tzinfo=UTC)
WITHOUT_A_TIME = {
    "a plain dict": {"role": "user", "content": "hi"},
    "a dict with an id": {"role": "user", "content": "hi", "message_id": "m"},
    "openai": {"role": "user", "name": "ana", "content": "hi"},
    "openai-responses": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    "anthropic": {"role": "user", "content": [{"type": "text", "text": "hi", "citations": None}]},
    "gemini": {"role": "user", "parts": [{"text": "hi"}]},
    "langchain": {"type": "human", "content": "hi"},
    "pydantic-ai": {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]},
    "a clew.Message": Message(role="user", content="hi"),
    "a clew.Message of a dict": Message.from_dict({"role": "user", "content": "hi"}),
}


def times(memory):
    return [each.created_at for each in memory.list_messages("t")]


@pytest.mark.parametrize("form", WITHOUT_A_TIME)
def test_a_message_without_a_time_gets_that_of_the_checkpointer_s_clock(store, clock, form):
    memory = store.open(clock=clock)
    memory.put_messages("t", [WITHOUT_A_TIME[form]], metadata={"added": 1})
    assert times(memory) == [clock.now()]
    assert store.open().list_messages("t")[0].created_at == clock.now()


def test_every_method_that_stores_messages_takes_the_clock_s_time(store, clock):
    memory = store.open(clock=clock)
    said = {"role": "user", "content": "hi"}
    expected = []

    def next_second():
        expected.append(clock.advance(1))

    next_second()
    memory.put_messages("t", [said])
    next_second()
    memory.put_checkpoint("t", {"n": 1}, messages=[said])
    next_second()
    memory.update_state("t", set={"n": 2}, messages=[said])
    next_second()
    with memory.turn("t") as turn:
        first = turn.say(said)
        next_second()
        second = turn.say(Message(role="user", content="hi"))
    next_second()
    run(memory.aput_messages("t", [said]))
    assert times(memory) == expected
    # A turn returns what it stores.
    assert [first, second] == memory.list_messages("t")[3:5]


def test_messages_expire_by_the_checkpointer_s_clock(store, clock):
    memory = store.open(clock=clock)
    memory.put_messages("t", [{"role": "user", "content": "old"}, Message(role="user", content="old, too")])
    clock.advance(90 * 86_400)
    memory.put_messages("t", [{"role": "user", "content": "new"}])
    report = memory.cleanup(RetentionPolicy(message_ttl=timedelta(days=30)))
    assert report.messages == 2
    assert [each.text() for each in memory.list_messages("t")] == ["new"]


def test_tokens_are_counted_on_the_clock_s_day(store, clock):
    memory = store.open(clock=clock)
    config = {"thread_id": "t", "user_id": "ana"}
    memory.put_messages(config, [{"role": "assistant", "content": "a", "usage": {"input_tokens": 3}}])
    assert [str(day) for day in memory.stats("ana").by_day] == [str(clock.now().date())]


def test_a_time_that_was_given_is_kept(store, clock):
    memory = store.open(clock=clock)
    made = Message(role="user", content="hi")
    given = [
        {"role": "user", "content": "hi", "created_at": LONG_AGO},
        {"role": "user", "parts": [{"text": "hi"}], "created_at": LONG_AGO.isoformat()},
        Message(role="user", content="hi", created_at=LONG_AGO),
        replace(made, created_at=LONG_AGO),
        Message.from_dict({**made.to_dict(), "message_id": "other", "created_at": LONG_AGO.isoformat()}),
    ]
    memory.put_messages("t", given)
    assert times(memory) == [LONG_AGO] * 5
    # Stored messages keep their times when they are stored again.
    clock.advance(60)
    listed = memory.list_messages("t")
    memory.put_messages("t", [replace(listed[0], content="edited"), *listed[1:]])
    assert times(memory) == [LONG_AGO] * 5


def test_with_the_system_clock_a_stored_message_equals_the_one_that_was_made(checkpointer):
    made = Message(role="user", content="hi")
    checkpointer.put_messages("t", [made])
    assert checkpointer.list_messages("t") == [made]


def test_a_message_that_is_made_has_a_time_at_once():
    before = datetime.now(UTC)
    made = Message(role="user", content="hi")
    assert before <= made.created_at <= datetime.now(UTC)
    assert Message.from_dict(made.to_dict()) == made
    for again in (copy.deepcopy(made), copy.copy(made), pickle.loads(pickle.dumps(made)), replace(made)):
        assert again == made
        assert hash(again.created_at) == hash(made.created_at)
    assert asdict(made).keys() == made.to_dict().keys()
    assert not hasattr(made, "__dict__")


def test_a_clock_of_one_s_own_is_asked_for_each_call():
    clock = FakeClock(LONG_AGO)
    with clew.connect("memory://", clock=clock) as memory:
        memory.put_messages("t", [{"role": "user", "content": "a"}])
        clock.set(LONG_AGO + timedelta(days=1))
        memory.put_messages("t", [{"role": "user", "content": "b"}])
        assert times(memory) == [LONG_AGO, LONG_AGO + timedelta(days=1)]
