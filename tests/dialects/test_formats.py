"""Messages as providers write them: read from their own types, and rendered in each other's formats."""

from __future__ import annotations

import base64
import json
from typing import Any

import anthropic.types as at
import pytest
from google.genai import types as gt
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, message_to_dict
from langgraph.graph.message import add_messages
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem
from pydantic import TypeAdapter
from pydantic_ai import messages as pm

from clew.dialects.conversation import Conversation, Losses, Placed, paired
from clew.dialects.formats import TRIMMERS, WRITERS, dialect_of, parse, plain
from clew.dialects.parts import Parsed, result_text

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "name": "ana", "content": [{"type": "text", "text": "Weather in Lisbon?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}},
            {"id": "call_b", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
    {"role": "tool", "tool_call_id": "call_b", "content": "noon"},
    {"role": "assistant", "content": "Sunny at noon."},
]
RESPONSES: list[dict[str, Any]] = [
    {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
    {"role": "user", "content": [{"type": "input_text", "text": "Weather in Lisbon?"}]},
    {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": '{"city": "Lisbon"}'},
    {"type": "function_call", "call_id": "call_b", "name": "clock", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_a", "output": "sunny"},
    {"type": "function_call_output", "call_id": "call_b", "output": "noon"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Sunny at noon.", "annotations": []}],
    },
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather in Lisbon?"},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Lisbon"}},
            {"type": "tool_use", "id": "call_b", "name": "clock", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_a", "content": "sunny"},
            {"type": "tool_result", "tool_use_id": "call_b", "content": [{"type": "text", "text": "noon"}]},
        ],
    },
    {"role": "assistant", "content": "Sunny at noon."},
]
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "Weather in Lisbon?"}]},
    {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "weather", "args": {"city": "Lisbon"}}},
            {"function_call": {"name": "clock", "args": {}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "weather", "response": {"result": "sunny"}}},
            {"function_response": {"name": "clock", "response": {"result": "noon"}}},
        ],
    },
    {"role": "model", "parts": [{"text": "Sunny at noon."}]},
]
LANGCHAIN: list[dict[str, Any]] = [
    message_to_dict(SystemMessage("Be brief.")),
    HumanMessage("Weather in Lisbon?").model_dump(),
    AIMessage(
        "",
        tool_calls=[
            {"name": "weather", "args": {"city": "Lisbon"}, "id": "call_a"},
            {"name": "clock", "args": {}, "id": "call_b"},
        ],
    ).model_dump(),
    ToolMessage("sunny", tool_call_id="call_a").model_dump(),
    message_to_dict(ToolMessage("noon", tool_call_id="call_b")),
    AIMessage("Sunny at noon.").model_dump(),
]
PYDANTIC_AI: list[dict[str, Any]] = pm.ModelMessagesTypeAdapter.dump_python(
    [
        pm.ModelRequest(parts=[pm.SystemPromptPart("Be brief."), pm.UserPromptPart("Weather in Lisbon?")]),
        pm.ModelResponse(
            parts=[
                pm.ToolCallPart("weather", {"city": "Lisbon"}, tool_call_id="call_a"),
                pm.ToolCallPart("clock", "{}", tool_call_id="call_b"),
            ]
        ),
        pm.ModelRequest(
            parts=[
                pm.ToolReturnPart("weather", "sunny", tool_call_id="call_a"),
                pm.ToolReturnPart("clock", "noon", tool_call_id="call_b"),
            ]
        ),
        pm.ModelResponse(parts=[pm.TextPart("Sunny at noon.")]),
    ],
    mode="json",
)
FORMATS: dict[str, list[dict[str, Any]]] = {
    "openai": CHAT,
    "openai-responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "langchain": LANGCHAIN,
    "pydantic-ai": PYDANTIC_AI,
}


def placed(messages: list[Any], target: str | None = None) -> list[Placed]:
    found = []
    for at_, message in enumerate(messages):
        raw = plain(message)
        assert raw is not None
        dialect = dialect_of(raw)
        assert dialect is not None
        found.append(Placed(message_id=f"m{at_}", parsed=parse(raw, dialect), raw=raw if dialect == target else None))
    return found


def rendered(messages: list[Any], target: str) -> Conversation:
    return render(placed(messages, target), target)


def render(conversation: list[Placed], target: str) -> Conversation:
    losses = Losses(target)
    written = WRITERS[target](paired(conversation, losses, TRIMMERS[target]), losses)
    return Conversation(written, system="\n\n".join(losses.instructions) or None, left_out=losses.texts)


def said(messages: list[Any]) -> list[tuple[Any, ...]]:
    """A conversation as a person reads it: texts, calls and answers in their order."""
    lines: list[tuple[Any, ...]] = []
    for each in placed(messages):
        parsed: Parsed = each.parsed
        if text := parsed.text():
            lines.append(("text", text))
        lines += [("call", call.name, call.arguments) for call in parsed.calls()]
        lines += [("result", result_text(result)) for result in parsed.results()]
    return lines


TALK = [
    ("text", "Weather in Lisbon?"),
    ("call", "weather", {"city": "Lisbon"}),
    ("call", "clock", {}),
    ("result", "sunny"),
    ("result", "noon"),
    ("text", "Sunny at noon."),
]


@pytest.mark.parametrize("source", FORMATS)
def test_each_format_is_recognised_and_read(source: str):
    assert {dialect_of(message) for message in FORMATS[source]} <= {source, "openai"}
    lines = [line for line in said(FORMATS[source]) if line != ("text", "Be brief.")]
    if source == "pydantic-ai":
        assert lines[0] == ("text", "Be brief.\nWeather in Lisbon?")
        lines[0] = TALK[0]
    assert lines == TALK


@pytest.mark.parametrize("target", ["openai", "openai-responses", "anthropic", "gemini", "langchain"])
@pytest.mark.parametrize("source", FORMATS)
def test_a_conversation_says_the_same_in_every_format(source: str, target: str):
    conversation = rendered(FORMATS[source], target)
    lines = [line for line in said(conversation) if line != ("text", "Be brief.")]
    if source == "pydantic-ai":
        lines[0] = TALK[0]
    assert lines == TALK
    named = source == "openai" and target in ("openai-responses", "anthropic", "gemini")
    said_so = (f"message 'm1': the speaker's name 'ana' has no equal in {target!r} and was left out",)
    assert conversation.left_out == (said_so if named else ())
    if source in ("openai", "openai-responses", "langchain") and target in ("anthropic", "gemini"):
        assert conversation.system == "Be brief."


@pytest.mark.parametrize("source", FORMATS)
def test_calls_and_results_carry_matching_ids_in_what_is_rendered(source: str):
    for target in ("openai", "openai-responses", "anthropic"):
        found = placed(list(rendered(FORMATS[source], target)))
        calls = [call.call_id for each in found for call in each.parsed.calls()]
        results = [result.call_id for each in found for result in each.parsed.results()]
        assert calls == results
        assert all(calls)


def test_rendered_messages_are_valid_by_the_providers_own_types():
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    for source in FORMATS.values():
        TypeAdapter(list[ChatCompletionMessageParam]).validate_python(list(rendered(source, "openai")))
        TypeAdapter(list[ResponseInputItemParam]).validate_python(list(rendered(source, "openai-responses")))
        TypeAdapter(list[MessageParam]).validate_python(list(rendered(source, "anthropic")))
        for content in rendered(source, "gemini"):
            gt.Content.model_validate(content)


def test_answers_to_calls_of_one_turn_share_a_message_for_anthropic_and_gemini():
    assert rendered(CHAT, "anthropic")[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "call_a", "content": "sunny"},
        {"type": "tool_result", "tool_use_id": "call_b", "content": "noon"},
    ]
    assert len(rendered(CHAT, "gemini")[2]["parts"]) == 2


def test_objects_of_the_providers_are_taken_as_they_are():
    chat = ChatCompletionMessage.model_validate({"role": "assistant", "content": "hi", "future_field": 1})
    assert plain(chat) == {"role": "assistant", "content": "hi", "future_field": 1}
    answer = at.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 5},
        }
    )
    raw = plain(answer)
    assert raw is not None
    assert dialect_of(raw) == "anthropic"
    parsed = parse(raw, "anthropic")
    assert (parsed.text(), parsed.usage) == ("hi", {"input_tokens": 3, "output_tokens": 5})
    content = gt.Content(role="model", parts=[gt.Part(text="hi"), gt.Part.from_bytes(data=b"1", mime_type="image/png")])
    raw = plain(content)
    assert raw is not None
    assert dialect_of(raw) == "gemini"
    for item, dialect in (
        (ResponseFunctionToolCall(arguments="{}", call_id="c", name="f", type="function_call"), "openai-responses"),
        (ResponseReasoningItem(id="r", summary=[], type="reasoning"), "openai-responses"),
        (
            ResponseOutputMessage.model_validate(
                {
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "hi", "annotations": []}],
                }
            ),
            "openai-responses",
        ),
        (HumanMessage("hi"), "langchain"),
        (pm.ModelRequest(parts=[pm.UserPromptPart("hi")]), "pydantic-ai"),
    ):
        raw = plain(item)
        assert raw is not None
        assert dialect_of(raw) == dialect
        json.dumps(raw)


def test_what_has_no_equal_is_said():
    messages = [
        {"role": "user", "content": "search"},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"role": "assistant", "content": "found"},
    ]
    conversation = rendered(messages, "anthropic")
    assert [message["content"] for message in conversation] == ["search", "found"]
    assert conversation.left_out == (
        "message 'm1': the model's reasoning has no equal in 'anthropic' and was left out",
        "message 'm2': a part of type 'web_search_call' has no equal in 'anthropic' and was left out",
    )
    assert rendered(messages, "openai-responses")[1:3] == messages[1:3]


FAILED: dict[str, list[Any]] = {
    "anthropic": [
        ANTHROPIC[1],
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_a", "content": "no such city", "is_error": True},
                {"type": "tool_result", "tool_use_id": "call_b", "content": "noon"},
            ],
        },
    ],
    "gemini": [
        gt.Content.model_validate(GEMINI[1]),
        gt.Content(
            role="user",
            parts=[
                gt.Part.from_function_response(name="weather", response={"error": "no such city"}),
                gt.Part.from_function_response(name="clock", response={"output": "noon"}),
            ],
        ),
    ],
    "langchain": [
        LANGCHAIN[2],
        ToolMessage("no such city", tool_call_id="call_a", status="error"),
        ToolMessage("noon", tool_call_id="call_b"),
    ],
    "pydantic-ai": [
        PYDANTIC_AI[1],
        pm.ModelRequest(
            parts=[
                pm.ToolReturnPart("weather", "no such city", tool_call_id="call_a", outcome="retried"),
                pm.ToolReturnPart("clock", "noon", tool_call_id="call_b"),
            ]
        ),
    ],
}


@pytest.mark.parametrize("target", ["openai", "openai-responses", "anthropic", "gemini", "langchain"])
@pytest.mark.parametrize("source", FAILED)
def test_a_tool_s_error_stays_an_error_or_is_said(source: str, target: str):
    conversation = rendered(FAILED[source], target)
    results = [result for each in placed(list(conversation)) for result in each.parsed.results()]
    if target in ("openai", "openai-responses"):
        (line,) = conversation.left_out
        assert f"is an error has no equal in {target!r}" in line
        assert "'m1'" in line
    else:
        assert [result.is_error for result in results] == [True, False]
        assert conversation.left_out == ()


def test_speakers_with_names_are_not_joined():
    plan = {"role": "assistant", "name": "planner", "content": "first the weather"}
    call = {**chat_call("c"), "name": "caller"}
    conversation = rendered([plan, call, chat_result("c")], "langchain")
    assert [message.name for message in conversation][:2] == ["planner", "caller"]
    assert conversation.left_out == ()
    assert len(rendered([plan, call, chat_result("c")], "anthropic").left_out) == 2


def test_what_is_no_text_in_a_system_message_is_said():
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    message = {"role": "system", "content": [{"type": "text", "text": "Be brief."}, image]}
    for target in ("anthropic", "gemini"):
        conversation = rendered([message], target)
        assert (conversation.system, len(conversation.left_out)) == ("Be brief.", 1)


def test_a_result_without_its_call_is_left_out_and_said():
    conversation = rendered(CHAT[3:], "anthropic")
    assert [message["content"] for message in conversation] == ["Sunny at noon."]
    assert "call_a" in conversation.left_out[0]


def test_a_call_that_waits_for_its_result_stays_at_the_end_only():
    assert rendered(CHAT[:3], "anthropic")[-1]["content"][0]["id"] == "call_a"
    assert rendered(CHAT[:4], "anthropic")[1]["content"][1]["id"] == "call_b"
    broken = [*CHAT[:3], {"role": "user", "content": "never mind"}]
    conversation = rendered(broken, "openai-responses")
    assert [item["type"] for item in conversation] == ["message", "message", "message"]
    assert ["has no result" in line for line in conversation.left_out] == [True, True, False]


PNG = "data:image/png;base64,iVBORw0KGgo="


def test_an_assistant_s_image_is_left_out_where_an_assistant_only_writes():
    from openai.types.chat import ChatCompletionAssistantMessageParam, ChatCompletionSystemMessageParam

    drawn = gt.Content(role="model", parts=[gt.Part(text="here"), gt.Part.from_bytes(data=b"1", mime_type="image/png")])
    for target in ("openai", "openai-responses"):
        conversation = rendered([drawn], target)
        assert [message["content"] for message in conversation] == ["here"]
        line = f"message 'm0': media (image/png) of an assistant has no equal in {target!r} and was left out"
        assert conversation.left_out == (line,)
    TypeAdapter(ChatCompletionAssistantMessageParam).validate_python(rendered([drawn], "openai")[0])
    image = {"type": "input_image", "image_url": PNG, "detail": "auto"}
    told = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "hi"}, image]}
    conversation = rendered([told], "openai")
    TypeAdapter(ChatCompletionSystemMessageParam).validate_python(conversation[0])
    assert "of a system message" in conversation.left_out[0]


CUSTOM: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "python", "input": '{"x": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "done"},
]


def test_a_call_of_a_custom_tool_stays_one_or_is_said():
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    items = rendered(CUSTOM, "openai-responses")
    assert list(items) == [
        {"type": "custom_tool_call", "call_id": "c", "name": "python", "input": '{"x": 1}'},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    TypeAdapter(list[ResponseInputItemParam]).validate_python(list(items))
    chat = rendered(list(items), "openai")
    assert list(chat) == CUSTOM
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(list(chat))
    assert items.left_out == chat.left_out == ()
    for target in ("anthropic", "gemini", "langchain"):
        conversation = rendered(CUSTOM, target)
        line = f"message 'm0': the type 'custom' of tool call 'c' (python) has no equal in {target!r} and was left out"
        assert conversation.left_out == (line,)
        assert said(conversation) == [("call", "python", {"input": '{"x": 1}'}), ("result", "done")]


def test_what_the_formats_of_openai_share_passes_between_them():
    image = {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}
    file = {"type": "file", "file": {"file_id": "file-1"}}
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [image, file]},
    ]
    items = rendered(messages, "openai-responses")
    assert [item["role"] for item in items] == ["developer", "user"]
    assert items[1]["content"] == [
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    chat = rendered(list(items), "openai")
    assert list(chat) == messages
    assert items.left_out == chat.left_out == ()
    by_id = {"type": "input_image", "file_id": "file-2", "detail": "high"}
    assert len(rendered([{"role": "user", "content": [by_id]}], "openai").left_out) == 1
    conversation = rendered(messages, "langchain")
    assert len(conversation.left_out) == 1  # LangChain's file blocks don't name the provider of an id.
    assert list(rendered(list(conversation), "openai")) == [messages[0], {"role": "user", "content": [image]}]
    for target in ("anthropic", "gemini"):
        assert [("detail" in line, "file id" in line) for line in rendered(messages, target).left_out] == [
            (True, False),
            (False, True),
        ]
    # A file id of another provider means nothing to OpenAI.
    source = {"type": "document", "source": {"type": "file", "file_id": "file_a"}}
    assert "by file id" in rendered([{"role": "user", "content": [source]}], "openai-responses").left_out[0]


def test_the_name_of_a_file_passes_or_is_said():
    pdf = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    message = {"role": "user", "content": [{"type": "file", "file": pdf}]}
    assert rendered([message], "anthropic")[0]["content"][0]["title"] == "a.pdf"
    for target in ("anthropic", "langchain", "openai-responses"):
        conversation = rendered([message], target)
        assert list(rendered(list(conversation), "openai")) == [message]
        assert conversation.left_out == ()
    assert "the name 'a.pdf' of a file" in rendered([message], "gemini").left_out[0]


def test_a_message_in_its_own_format_loses_only_the_call_that_has_no_result():
    signed: dict[str, Any] = {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {"function_call": {"name": "f", "args": {}}, "thought_signature": "s1"},
            {"functionCall": {"name": "g", "args": {}}, "thoughtSignature": "s2"},
        ],
    }
    conversation = rendered([asked(), signed, GEMINI_RESULT, asked()], "gemini")
    assert conversation[1] == {**signed, "parts": signed["parts"][:2]}
    chat = {**CHAT[2], "reasoning_content": "hm", "tool_calls": [{**CHAT[2]["tool_calls"][0], "extra_content": 1}]}
    chat["tool_calls"].append(CHAT[2]["tool_calls"][1])
    conversation = rendered([chat, CHAT[3], asked()], "openai")
    assert conversation[0] == {**chat, "tool_calls": chat["tool_calls"][:1]}
    spoken = {**CHAT[2], "content": "let me see", "reasoning_content": "hm"}
    told = {key: value for key, value in spoken.items() if key != "tool_calls"}
    assert rendered([spoken, asked()], "openai")[0] == told
    old = {"role": "assistant", "content": "hm", "function_call": {"name": "f", "arguments": "{}"}, "more": 1}
    assert rendered([old, asked()], "openai")[0] == {"role": "assistant", "content": "hm", "more": 1}
    uses = ANTHROPIC[1]["content"]
    thoughts = [{"type": "thinking", "thinking": "hm", "signature": name} for name in "st"]
    message = {"role": "assistant", "content": [thoughts[0], uses[0], thoughts[1], uses[1]]}
    answer = {"role": "user", "content": [*ANTHROPIC[2]["content"][:1], {"type": "text", "text": "go on"}]}
    conversation = rendered([message, answer, asked()], "anthropic")
    assert conversation[:2] == [{"role": "assistant", "content": [thoughts[0], uses[0]]}, answer]
    assert "'call_b' (clock) has no result" in conversation.left_out[0]
    # A result of another conversation, next to a text with fields of its own.
    text = {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}
    message = {"role": "user", "content": [ANTHROPIC[2]["content"][0], text]}
    assert rendered([message], "anthropic") == [{"role": "user", "content": [text]}]
    assert rendered([{"role": "assistant", "content": [thoughts[0], uses[0]]}, asked()], "anthropic") == [asked()]


def test_a_message_of_langchain_loses_only_the_call_that_has_no_result():
    blocks = [{"type": "text", "text": "hm"}, *ANTHROPIC[1]["content"]]
    calls = [
        {"name": name, "args": {}, "id": call_id} for name, call_id in (("weather", "call_a"), ("clock", "call_b"))
    ]
    message = AIMessage(
        blocks,
        id="a",
        tool_calls=calls,
        additional_kwargs={"reasoning_content": "hm", "tool_calls": CHAT[2]["tool_calls"]},
        response_metadata={"model": "m"},
    )
    for form in (message, message_to_dict(message)):
        (found, *_) = rendered([form, ToolMessage("sunny", tool_call_id="call_a"), asked()], "langchain")
        assert [call["id"] for call in found.tool_calls] == ["call_a"]
        assert found.content == blocks[:2]
        kept = {"reasoning_content": "hm", "tool_calls": CHAT[2]["tool_calls"][:1]}
        assert (found.additional_kwargs, found.response_metadata, found.id) == (kept, {"model": "m"}, "a")


def test_images_travel_between_formats():
    png = "iVBORw0KGgo="
    message = {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}},
        ],
    }
    source = {"type": "base64", "media_type": "image/png", "data": png}
    assert rendered([message], "anthropic")[0]["content"][1] == {"type": "image", "source": source}
    assert rendered([message], "gemini")[0]["parts"][1] == {"inline_data": {"mime_type": "image/png", "data": png}}
    for target in ("anthropic", "gemini", "openai-responses", "langchain"):
        back = rendered(list(rendered([message], target)), "openai")
        assert back[0]["content"][1] == message["content"][1]


def test_a_message_of_any_shape_is_read_without_an_error():
    odd: list[dict[str, Any]] = [
        {"role": "user", "content": 5},
        {"role": "assistant", "content": [None, 3, {"type": 7}], "tool_calls": ["x", {"function": None}]},
        {"role": "user", "parts": [None, {"function_call": 3}, {"functionResponse": {}}]},
        {"type": "message", "role": None, "content": {"a": 1}},
        {"type": "function_call"},
        {"kind": "request", "parts": [3, {"part_kind": "user-prompt", "content": [1]}]},
        {"type": "ai", "content": [{"type": "image"}, {"type": "tool_call"}], "tool_calls": 3},
    ]
    for raw in odd:
        dialect = dialect_of(raw)
        assert dialect is not None
        for target in ("openai", "openai-responses", "anthropic", "gemini", "langchain"):
            render([Placed(message_id="m", parsed=parse(raw, dialect))], target)


def test_results_that_nest_for_ever_are_read_without_recursion():
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
    for _ in range(5000):
        block = {"type": "tool_result", "tool_use_id": "c", "content": [block]}
    parsed = parse({"role": "user", "content": [block]}, "anthropic")
    assert len(parsed.results()) == 1


def test_what_is_no_message_is_not_taken_for_one():
    for raw in ({}, {"content": "hi"}, {"text": "hi"}, {"role": 3}):
        assert dialect_of(raw) is None
    assert plain(object()) is None


def test_a_provider_s_objects_inside_of_a_dict_are_taken():
    blocks = [at.TextBlock(type="text", text="hi"), at.ToolUseBlock(type="tool_use", id="c", name="f", input={})]
    raw = plain({"role": "assistant", "content": blocks})
    assert raw is not None
    assert dialect_of(raw) == "anthropic"
    assert [block["type"] for block in raw["content"]] == ["text", "tool_use"]
    chat = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": CHAT[2]["tool_calls"]}
    )
    raw = plain({"role": "assistant", "content": None, "tool_calls": chat.tool_calls})
    assert raw == CHAT[2]
    raw = plain({"role": "model", "parts": [gt.Part(text="hi")]})
    assert raw == {"role": "model", "parts": [{"text": "hi"}]}


def test_calls_of_one_turn_share_a_message_and_results_follow_their_calls():
    chat = rendered(RESPONSES, "openai")
    assert [message["role"] for message in chat] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    mcp = {"type": "mcp_call", "id": "x", "name": "f", "arguments": "{}", "output": "out", "server_label": "s"}
    assert [message["role"] for message in rendered([mcp], "openai")] == ["assistant", "tool"]
    assert [message["role"] for message in rendered([mcp], "anthropic")] == ["assistant", "user"]


def test_system_prompts_of_pydantic_ai_stay_system_prompts():
    conversation = rendered(PYDANTIC_AI, "anthropic")
    assert (conversation.system, conversation[0]["content"]) == ("Be brief.", "Weather in Lisbon?")
    request = pm.ModelRequest(parts=[pm.UserPromptPart("hi")], instructions="Be terse.")
    assert rendered([request], "openai")[0] == {"role": "system", "content": "Be terse."}


def test_messages_of_langchain_have_ids_that_add_messages_keeps_apart():
    calls = [pm.ToolCallPart(name, {}, tool_call_id=name) for name in "fg"]
    results = [pm.ToolReturnPart(name, name.upper(), tool_call_id=name) for name in "fg"]
    messages: list[Any] = [
        pm.ModelRequest(parts=[pm.SystemPromptPart("Be brief."), pm.UserPromptPart("hi")]),
        pm.ModelResponse(parts=calls),
        pm.ModelRequest(parts=[*results, pm.UserPromptPart("go on")]),
        ANTHROPIC[1],
        ANTHROPIC[2],
    ]
    conversation = list(rendered(messages, "langchain"))
    state: Any = add_messages([], conversation)
    assert [message.type for message in state] == [message.type for message in conversation]
    ids = [message.id for message in conversation]
    assert ids == ["m0", "m0#2", "m1", "m2", "m2#2", "m2#3", "m3", "m4", "m4#2"]
    # Rendered again, it is the same conversation.
    assert add_messages(state, list(rendered(messages, "langchain"))) == state


def test_an_answer_of_gemini_without_an_id_goes_to_the_open_call_of_its_name():
    messages = [
        {"role": "model", "parts": [{"function_call": {"id": "x1", "name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"data": 1, "error": None}}}]},
    ]
    conversation = rendered(messages, "anthropic")
    assert conversation[1]["content"][0]["tool_use_id"] == "x1"
    assert "is_error" not in conversation[1]["content"][0]
    assert conversation.left_out == ()


def test_binary_media_is_standard_base64():
    data = bytes(range(240, 256)) * 3
    content = gt.Content(role="user", parts=[gt.Part.from_bytes(data=data, mime_type="image/png")])
    source = rendered([content], "anthropic")[0]["content"][0]["source"]
    assert base64.b64decode(source["data"], validate=True) == data


def test_types_that_are_not_text_and_objects_that_nest_are_read():
    for raw in ({"role": "user", "content": [{"type": ["x"]}]}, {"type": {}, "content": "x", "role": "user"}):
        assert dialect_of(raw) == "openai"
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    response = {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"result": deep}}}]}
    assert len(parse(response, "gemini").results()) == 1
    assert plain(HumanMessage) is None
    assert dialect_of({"type": "humn", "content": "hello"}) is None


def test_a_message_that_langchain_refuses_does_not_spoil_the_others():
    conversation = rendered([{"type": "ai", "content": None}, HumanMessage("hi")], "langchain")
    assert [message.content for message in conversation] == ["hi"]
    assert len(conversation.left_out) == 1


def ids_of(conversation: list[Any]) -> tuple[list[str | None], list[str | None]]:
    """The ids of the calls, and those of the results."""
    found = placed(list(conversation))
    return (
        [call.call_id for each in found for call in each.parsed.calls()],
        [result.call_id for each in found for result in each.parsed.results()],
    )


def chat_call(call_id: str | None, name: str = "f") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chat_result(call_id: str, content: str = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def asked(text: str = "go on") -> dict[str, Any]:
    return {"role": "user", "content": text}


GEMINI_CALL = {"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}]}
GEMINI_RESULT = {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"result": "TWO"}}}]}


@pytest.mark.parametrize("target", ["openai", "openai-responses", "anthropic", "langchain"])
@pytest.mark.parametrize("order", ["given first", "made first"])
def test_an_id_that_clew_makes_is_none_that_a_call_has(target: str, order: str):
    given = [chat_call("call_1"), chat_result("call_1", "ONE")]
    made = [GEMINI_CALL, GEMINI_RESULT]
    first, second = (given, made) if order == "given first" else (made, given)
    conversation = rendered([asked(), *first, asked(), *second], target)
    calls, results = ids_of(conversation)
    assert calls == results
    assert len(set(calls)) == 2
    assert "call_1" in calls
    assert conversation.left_out == ()


@pytest.mark.parametrize("target", ["openai", "openai-responses", "anthropic", "gemini", "langchain"])
def test_a_call_that_reuses_an_id_and_has_no_result_is_left_out(target: str):
    talk = [asked(), chat_call("c"), chat_result("c"), asked(), chat_call("c"), asked()]
    conversation = rendered(talk, target)
    assert [len(ids) for ids in ids_of(conversation)] == [1, 1]
    assert "has no result" in conversation.left_out[0]
    assert "'m4'" in conversation.left_out[0]


@pytest.mark.parametrize("target", ["openai-responses", "anthropic", "gemini", "langchain"])
def test_a_result_goes_to_the_latest_of_the_calls_with_its_id(target: str):
    talk = [asked(), chat_call("c", "lost"), asked(), chat_call("c", "found"), chat_result("c"), asked()]
    conversation = rendered(talk, target)
    assert [line for line in said(conversation) if line[0] != "text"] == [("call", "found", {}), ("result", "x")]
    assert "(lost) has no result" in conversation.left_out[0]


def test_an_answer_without_an_id_goes_to_the_call_before_it_and_not_to_one_that_nobody_answered():
    lost = {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"n": 1}}}]}
    found = {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"n": 2}}}]}
    conversation = rendered([asked(), lost, asked(), found, GEMINI_RESULT], "openai")
    assert [line for line in said(conversation) if line[0] != "text"] == [("call", "f", {"n": 2}), ("result", "TWO")]


@pytest.mark.parametrize("target", ["openai-responses", "anthropic", "gemini", "langchain"])
def test_calls_that_reuse_an_id_get_ids_of_their_own_in_another_format(target: str):
    talk = [asked(), chat_call("c"), chat_result("c", "1"), asked(), chat_call("c"), chat_result("c", "2")]
    conversation = rendered(talk, target)
    calls, results = ids_of(conversation)
    assert calls == results
    assert len(set(calls)) == 2
    assert conversation.left_out == ()
    # Answered with the id that was rendered.
    late = rendered([*talk[:-1], chat_result(str(calls[1]), "2")], target)
    assert list(late) == list(conversation)


def test_messages_that_have_the_format_keep_their_ids():
    talk = [asked(), chat_call("c"), chat_result("c"), asked(), chat_call("c"), chat_result("c")]
    assert list(rendered(talk, "openai")) == talk
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "y"}]}
    conversation = rendered([*talk[:3], asked(), use, answer], "anthropic")
    calls, results = ids_of(conversation)
    assert calls == results
    assert len(set(calls)) == 2
    assert conversation[-2:] == [use, answer]
    # A result that is passed on as it came has its call's id.
    assert ids_of(rendered([asked(), use, answer, chat_call("c"), answer], "anthropic")) == (["c", "c"], ["c", "c"])


def test_a_result_before_its_call_has_no_call():
    conversation = rendered([asked(), chat_result("c"), chat_call("c"), asked()], "anthropic")
    assert ids_of(conversation) == ([], [])
    assert len(conversation.left_out) == 2


def test_several_results_of_one_call_stay_with_it():
    talk = [asked(), chat_call("c"), chat_result("c", "half"), chat_result("c", "all"), asked()]
    assert ids_of(rendered(talk, "openai-responses")) == (["c"], ["c", "c"])


def test_a_result_with_the_id_that_clew_made_goes_to_its_call():
    calls = {"role": "model", "parts": [{"function_call": {"name": name, "args": {}}} for name in "fg"]}
    first, second = (str(each) for each in ids_of(rendered([asked(), calls], "openai"))[0])
    conversation = rendered([asked(), calls, chat_result(second, "G"), chat_result(first, "F")], "anthropic")
    assert conversation[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": second, "content": "G"},
        {"type": "tool_result", "tool_use_id": first, "content": "F"},
    ]
    # In another window, the made ids differ.
    one = rendered([asked(), GEMINI_CALL, chat_result("call_9")], "anthropic")
    assert ids_of(one) == (["call_1"], ["call_1"])
