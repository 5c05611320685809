"""Helpers of the session tests: items of every kind, and agents with scripted models."""

from __future__ import annotations

from typing import Any

from agents import Agent, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

USER = {"role": "user", "content": "Where is the Café?"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "find_place",
    "arguments": '{"place": "Café Müller"}',
    "status": "completed",
}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Around the corner"}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is around the corner.", "annotations": [], "logprobs": []}],
}
ITEMS: list[Any] = [
    USER,
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Look it up"}],
        "encrypted_content": "x9",
    },
    CALL,
    OUTPUT,
    ANSWER,
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "And this?"}, {"type": "input_image", "image_url": "data:x"}],
    },
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a block"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I will not say that"}]},
    {
        "type": "web_search_call",
        "id": "ws",
        "status": "completed",
        "action": {"type": "search", "query": "weather Lima"},
    },
    {
        "type": "mcp_call",
        "id": "m",
        "name": "lookup",
        "arguments": "{}",
        "server_label": "s",
        "output": "from the server",
    },
    {"type": "compaction", "id": "cmp", "encrypted_content": "gAAAA"},
    {"type": "item_reference", "id": "ref"},
    {"role": "system", "content": "", "nothing": None, "deep": {"a": [1, 2.5, True, {"é": "\0"}]}, "big": 2**70},
    {"type": "from the future", "message_id": 1, "thread_id": "t", "clew": {}, "openai.item": "a key of theirs"},
    {},
]
"""Items of every kind, including unlikely ones."""


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}"


def agent(*steps: Any) -> Agent[Any]:
    """An agent whose model gives these answers: texts, or pairs of tool name and arguments."""
    script = [
        [assistant_message(step)] if isinstance(step, str) else [function_call(*step, call_id=f"call_{number}")]
        for number, step in enumerate(steps)
    ]
    return Agent(name="agent", model=ScriptedModel(script), tools=[weather])


def texts(items: list[Any]) -> list[str]:
    """The texts of the messages in `items`."""
    said = []
    for item in items:
        content = item.get("content", "")
        said.append(content if isinstance(content, str) else "".join(block.get("text", "") for block in content))
    return said


def said(*words: str) -> list[Any]:
    return [{"role": "user", "content": word} for word in words]
