"""Messages as providers write them, through the public API."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import clew
from clew.checkpointer.records import message_of
from clew.codec.registry import Registry
from clew.codec.state import StateCodec
from clew.model.records import MessageRecord

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "What is six times seven?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "multiply", "arguments": '{"a": 6}'}}],
        "a_field_of_tomorrow": [1, 2],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "forty-two"},
    {"role": "assistant", "content": "42.", "name": "calculator"},
]


def test_chat_messages_are_kept_whole(checkpointer):
    checkpointer.put_messages("t", CHAT)
    messages = checkpointer.list_messages("t")
    assert [message.raw for message in messages] == CHAT
    assert {message.format for message in messages} == {"openai"}
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[2].tool_results[0]["tool_call_id"] == "c1"
    assert checkpointer.list_messages("t", as_="openai") == CHAT


def test_tool_calls_and_results_are_found(checkpointer):
    checkpointer.put_messages("t", CHAT)
    block = {"type": "tool_result", "tool_use_id": "c2", "content": "Lisbon is sunny"}
    checkpointer.put_messages("t", [{"role": "user", "content": [block]}])
    for word, found in (("multiply", 1), ("forty-two", 2), ("sunny", 4)):
        raws = [message.raw for message in checkpointer.list_messages("t", search=word)]
        assert raws == [checkpointer.list_messages("t")[found].raw]


def test_a_conversation_is_rendered_in_another_format_and_says_what_it_left_out(checkpointer, caplog):
    checkpointer.put_messages("t", CHAT)
    checkpointer.put_messages("t", [{"type": "web_search_call", "id": "w", "status": "completed"}])
    conversation = checkpointer.list_messages("t", as_="anthropic")
    assert isinstance(conversation, clew.Conversation)
    assert [message["role"] for message in conversation] == ["user", "assistant", "user", "assistant"]
    assert conversation[2]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "forty-two"}]
    assert "name 'calculator'" in conversation.left_out[0]
    assert "web_search_call" in conversation.left_out[1]
    assert "web_search_call" in caplog.text


def test_messages_of_clew_are_rendered_too(checkpointer):
    call = {"id": "c1", "name": "multiply", "arguments": {"a": 6}}
    result = {"tool_call_id": "c1", "name": "multiply", "content": "42", "is_error": False}
    messages = [
        clew.Message(role="user", content="six times seven"),
        clew.Message(role="assistant", tool_calls=(call,)),
        clew.Message(role="tool", content="42", tool_results=(result,)),
    ]
    checkpointer.put_messages("t", messages)
    assert [message.tool_results for message in checkpointer.list_messages("t")] == [(), (), (result,)]
    conversation = checkpointer.list_messages("t", as_="openai-responses")
    assert [item["type"] for item in conversation] == ["message", "function_call", "function_call_output"]


def test_fields_of_clew_go_with_a_chat_message(checkpointer):
    message = {**CHAT[2], "message_id": "m1", "metadata": {"k": 1}, "usage": {"input_tokens": 3}}
    checkpointer.put_messages("t", [message])
    kept = checkpointer.get_message("t", "m1")
    assert (kept.raw, kept.metadata, kept.usage) == (CHAT[2], {"k": 1}, {"input_tokens": 3})


def test_messages_survive_to_dict_and_a_second_save(checkpointer):
    checkpointer.put_messages("t", CHAT)
    messages = checkpointer.list_messages("t")
    assert [clew.Message.from_dict(message.to_dict()) for message in messages] == messages
    checkpointer.put_messages("u", messages)
    assert checkpointer.list_messages("u") == messages


@pytest.mark.parametrize("message", [{"role": "user", "contnet": "hi"}, {"text": "hi"}, {"role": "user", 5: 1}, 7])
def test_what_is_no_message_is_refused(checkpointer, message):
    with pytest.raises(clew.ConfigError, match=r"messages\[0\]"):
        checkpointer.put_messages("t", [message])
    assert checkpointer.list_messages("t") == []


def test_an_unknown_format_is_refused(checkpointer):
    with pytest.raises(clew.ConfigError, match="'openai-responses'"):
        checkpointer.list_messages("t", as_="cohere")


def test_a_redacted_message_is_redacted_in_every_format(checkpointer):
    checkpointer.put_messages("t", [{"role": "user", "content": "my card is 4242", "name": "ana"}, CHAT[2]])
    first, second = checkpointer.list_messages("t")
    checkpointer.put_messages(
        "t", [replace(first, content="[redacted]"), replace(second, content="gone", tool_results=())]
    )
    assert "4242" not in str(checkpointer.list_messages("t"))
    assert "forty" not in str(checkpointer.list_messages("t"))
    for dialect in ("openai", "anthropic", "gemini", "openai-responses"):
        assert "4242" not in str(checkpointer.list_messages("t", as_=dialect))


def test_all_messages_are_listed_unless_a_limit_says_otherwise(checkpointer):
    checkpointer.put_messages("t", [{"role": "user", "content": str(number)} for number in range(120)])
    assert len(checkpointer.list_messages("t")) == 120
    assert checkpointer.list_messages("t", as_="openai")[-1]["content"] == "119"
    assert len(checkpointer.list_messages("t", limit=50)) == 50


def test_fields_of_clew_go_with_messages_of_other_formats(checkpointer):
    call = {
        "role": "assistant",
        "metadata": {"k": 1},
        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
    }
    result = {
        "role": "user",
        "message_id": "m",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}],
    }
    checkpointer.put_messages("t", [call, result])
    assert [message.format for message in checkpointer.list_messages("t")] == ["anthropic", "anthropic"]
    assert checkpointer.list_messages("t")[0].metadata == {"k": 1}
    assert checkpointer.get_message("t", "m").raw == {"role": "user", "content": result["content"]}


def test_a_tool_s_data_is_text_and_other_content_of_a_wrong_type_is_refused(checkpointer):
    checkpointer.put_messages("t", [CHAT[1], {"role": "tool", "tool_call_id": "c1", "content": {"temp": 20}}])
    assert checkpointer.list_messages("t", as_="anthropic")[1]["content"][0]["content"] == '{"temp": 20}'
    with pytest.raises(clew.ConfigError, match="content must be"):
        checkpointer.put_messages("t", [{"role": "user", "content": {"type": "text", "text": "hi"}}])
    with pytest.raises(clew.ConfigError, match="tool_results"):
        checkpointer.put_messages("t", [clew.Message(role="tool", tool_results=("x",))])
    checkpointer.put_messages("t", [clew.Message(role="user", raw={"content": "x"}, format="openai")])


SPELLINGS = {"human": "user", "User": "user", "USER": "user", "ai": "assistant", "Model": "assistant"}
SPELLINGS |= {"System": "system", "Developer": "developer", "Tool": "tool", "narrator": "narrator"}


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_other_names_of_a_role_become_the_usual_one(checkpointer, spelled):
    usual = SPELLINGS[spelled]
    plain = {"role": spelled, "content": "hi"}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    own = {**plain, "message_id": "m", "metadata": {"k": 1}}
    checkpointer.put_messages("t", [plain, {**plain, "name": "ana"}, {**plain, "tool_calls": [call]}, own])
    checkpointer.put_messages("t", [clew.Message(role=spelled, content="hi")])
    found = checkpointer.list_messages("t")
    assert [message.role for message in found] == [usual] * 5
    assert [message.raw for message in found[:3]] == [plain, {**plain, "name": "ana"}, {**plain, "tool_calls": [call]}]
    if spelled != usual:
        assert found[3].raw == plain
        assert found[3].metadata == {"k": 1}
    if usual not in (spelled, "tool"):  # A tool's answer without a call is left out.
        assert checkpointer.list_messages("t", as_="openai")[0] == plain
    checkpointer.put_messages("u", found)
    assert checkpointer.list_messages("u") == found
    redacted = replace(found[0], content="gone")
    checkpointer.put_messages("t", [redacted])
    assert checkpointer.list_messages("t")[0].raw is None
    assert (redacted.role, checkpointer.list_messages("t")[0].text()) == (usual, "gone")


def test_a_turn_begins_with_a_human_s_message_and_windows_keep_a_system_message_in_capitals(checkpointer):
    messages = [
        {"role": "SYSTEM", "content": "Be brief."},
        {"role": "human", "content": "one"},
        {"role": "ai", "content": "ONE"},
        {"role": "Human", "content": "two"},
        {"role": "AI", "content": "TWO"},
    ]
    checkpointer.put_messages("t", messages)
    window = checkpointer.list_messages("t", max_tokens=2, count_tokens=lambda message: 1)
    assert [message.text() for message in window] == ["Be brief.", "TWO"]
    for dialect, roles in (("anthropic", ["user", "assistant"] * 2), ("gemini", ["user", "model"] * 2)):
        conversation = checkpointer.list_messages("t", as_=dialect)
        assert [message["role"] for message in conversation] == roles
        assert conversation.system == "Be brief."
    items = checkpointer.list_messages("t", as_="openai-responses")
    assert [item["role"] for item in items] == ["system", "user", "assistant", "user", "assistant"]
    checkpointer.put_checkpoint("t", {"n": 1})
    checkpointer.put_checkpoint("t", {"n": 2}, messages=[{"role": "Human", "content": "three"}])
    checkpointer.rewind("t", turns=1)
    assert checkpointer.list_messages("t")[-1].text() == "TWO"


def test_a_message_that_an_earlier_version_stored_with_another_name_of_its_role_is_read():
    codec = StateCodec(Registry(), max_state_bytes=1 << 20)
    for role, usual in SPELLINGS.items():
        content = {"role": role, "content": "hi", "created_at": datetime.now(UTC), "format": "openai"}
        data = codec.pack(content, name="message")
        record = MessageRecord(
            message_id="m", data=data, text="hi", tool_calls=0, run_id=None, created_at=datetime.now(UTC)
        )
        message = message_of(codec, record)
        assert (message.role, message.raw) == (usual, {"role": role, "content": "hi"})


def test_a_message_of_pydantic_ai_may_have_an_id_and_a_time(checkpointer):
    said = {"kind": "response", "parts": [{"part_kind": "text", "content": "hi"}]}
    theirs = {**said, "metadata": {"a": 1}, "run_id": "r", "usage": {"input_tokens": 3, "output_tokens": 4}}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(2):
        checkpointer.put_messages("t", [{**theirs, "message_id": "m", "created_at": moment}])
    (found,) = checkpointer.list_messages("t")
    assert (found.message_id, found.created_at, found.raw) == ("m", moment, theirs)
    assert found.usage == {"input_tokens": 3, "output_tokens": 4}
    assert (found.metadata, found.run_id) == ({}, None)
