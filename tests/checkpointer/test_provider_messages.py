"""Messages as providers write them, through the public API."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import clew

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
    assert "web_search_call" in conversation.left_out[0]
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
