"""Conversion between Clew's messages and the providers' formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from typing import Any, Final

from msgspec.structs import replace

from clew.dialects.conversation import Answers, Conversation, Losses, Placed, answers, paired
from clew.dialects.formats import TRIMMERS, WRITERS, dialect_of, parse, plain
from clew.dialects.openai import NAME as CHAT
from clew.dialects.parts import Media, Other, Parsed, Part, Reasoning, Text, ToolResult, as_text, dumped, result_text
from clew.dialects.usage import counted
from clew.errors import ConfigError, shown
from clew.model.message import DAMAGED_ROLE, USUAL_ROLES, Message, usual_role

_FIELDS: Final = frozenset(field.name for field in fields(Message))
_OWN: Final = frozenset({"message_id", "metadata", "created_at", "run_id", "usage"})
"""Clew's own fields that a chat message may have in addition to the provider's."""
_NEVER_THEIRS: Final = frozenset({"message_id", "created_at"})
"""Those fields of them that no provider's message has."""


_USAGE: Final = ("usage", "usage_metadata", "usageMetadata")
"""Fields in which a message may carry its provider's token counts."""
_PLAIN: Final = frozenset({"role", "content"})
_PLAIN_OR_OWN: Final = _PLAIN | _OWN
_SAID: Final = frozenset({"content", "tool_calls", "function_call", "refusal", "audio"})
"""A chat message has at least one of these fields. A message without any of them is a mistake, such as a typo."""


def received(message: Any, name: str) -> Message:
    """Return `message` as Clew keeps it. Raises ConfigError if it is not a message. The error calls it `name`."""
    if isinstance(message, Message):
        return message
    if is_plain(message, _PLAIN_OR_OWN) and message["role"] in USUAL_ROLES:
        if len(message) > len(_PLAIN):
            return Message.from_dict(message)
        return Message(role=message["role"], content=message["content"], raw=message, format=CHAT)
    raw = plain(message)
    if raw is None:
        raise ConfigError(
            f"{name} must be a clew.Message, a mapping, or a message of OpenAI, Anthropic, Gemini, LangChain or "
            f"Pydantic AI, not {type(message).__name__}"
        )
    if "format" in raw:
        return Message.from_dict(raw)
    rest = {key: value for key, value in raw.items() if key not in _OWN}
    dialect = dialect_of(rest) if all(isinstance(key, str) for key in raw) else None
    if dialect is None or (dialect == CHAT and not raw.keys() & _SAID and raw.keys() - _OWN - {"role"}):
        raise ConfigError(f"{name} is not a message: it needs a 'role' and a 'content', and has {_keys(raw)}")
    own = {key: raw[key] for key in _OWN if key in raw}
    if dialect == CHAT:
        content = raw.get("content")
        if content is not None and not isinstance(content, (str, list, tuple)) and usual_role(raw["role"]) != "tool":
            raise ConfigError(f"{name}.content must be text or a list of blocks, not {type(content).__name__}")
        # The original is kept if its role has another name.
        same = usual_role(raw["role"]) == raw["role"] or "tool_results" in rest
        if own and content is not None and rest.keys() <= _FIELDS and same:
            return Message.from_dict(raw)
    elif dialect == "pydantic-ai":
        # Pydantic AI's messages have their own `metadata`, `run_id` and `usage`.
        own = {key: own[key] for key in own if key in _NEVER_THEIRS}
        rest = {key: value for key, value in raw.items() if key not in own}
    else:
        if "usage" in own:
            rest["usage"] = own.pop("usage")
        if dialect == "langchain" and isinstance(message_id := raw.get("id"), str) and message_id:
            # LangChain replaces messages by their ids. Ids of other providers are not unique in a thread.
            own.setdefault("message_id", message_id)
    try:
        fields = derived(rest, dialect)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{name} is not a valid message in the format {dialect!r}: {error}") from error
    return Message.from_dict({**fields, **own, "raw": rest, "format": dialect})


def is_plain(message: Any, fields: Set[str] = _PLAIN) -> bool:
    """Return whether `message` has a role and a text, as most messages do, and nothing that is not in `fields`."""
    return (
        type(message) is dict
        and _PLAIN <= message.keys() <= fields
        and type(message["role"]) is str
        and type(message["content"]) is str
    )


def _keys(raw: Mapping[str, Any]) -> str:
    return ", ".join(shown(key) for key in raw) or "nothing"


def derived(raw: Mapping[str, Any], dialect: str) -> dict[str, Any]:
    """The fields of a message that follow from what a provider wrote."""
    if dialect == CHAT:
        return _chat(raw)
    parsed = parse(raw, dialect)
    blocks = [block for part in parsed.parts if (block := _block(part)) is not None]
    said = not any(isinstance(part, (Reasoning, Media, Other)) for part in parsed.parts)
    return {
        "role": "developer" if parsed.developer else parsed.role,
        "content": "\n".join(block["text"] for block in blocks) if said else blocks,
        "tool_calls": [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments}
            | ({"type": "custom"} if call.custom else {})
            for call in parsed.calls()
        ],
        "tool_results": _results(parsed),
        "usage": parsed.usage or next((found for name in _USAGE if (found := counted(raw.get(name)))), None),
    }


def _chat(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a chat message, which has the same fields as Clew's. Only a tool's message has to be parsed."""
    role, content, calls = usual_role(raw.get("role")), raw.get("content"), raw.get("tool_calls")
    if not isinstance(content, (str, list, tuple)):
        content = "" if content is None else dumped(content)
    return {
        "role": role,
        "content": content,
        "tool_calls": calls if isinstance(calls, (list, tuple)) else [],
        "tool_results": _results(parse(raw, CHAT)) if role == "tool" else [],
        "usage": None,
    }


def _results(parsed: Parsed) -> list[dict[str, Any]]:
    return [
        {
            "tool_call_id": result.call_id,
            "name": result.name,
            "content": result_text(result),
            "is_error": result.is_error,
        }
        for result in parsed.results()
    ]


def _block(part: Part) -> dict[str, Any] | None:
    """A part as a block of `Message.content`. Tool calls and results have fields of their own."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "reasoning": part.text}
    if isinstance(part, Media):
        known = {"mime_type": part.mime_type, "data": part.data, "url": part.url, "file_id": part.file_id}
        return {"type": part.kind, **{key: value for key, value in known.items() if value is not None}}
    return {"type": part.kind} if isinstance(part, Other) else None


def render(messages: Sequence[Message], dialect: str) -> Conversation:
    """The conversation in a provider's format, with tool calls and results paired."""
    losses = Losses(dialect)
    conversation: list[Placed] = []
    for message in messages:
        placed = _placed(message, dialect)
        if message.role == DAMAGED_ROLE and message.raw is None:
            losses.unpaired(placed, "its record is damaged")
        else:
            conversation.append(placed)
    written = WRITERS[dialect](paired(conversation, losses, TRIMMERS[dialect]), losses)
    return Conversation(written, system="\n\n".join(losses.instructions) or None, left_out=losses.texts)


def answers_in(messages: Sequence[Message]) -> list[Answers]:
    """The tools' results in each message of a conversation, and where their calls are."""
    return answers([_placed(message, None) for message in messages])


def _placed(message: Message, dialect: str | None) -> Placed:
    if message.raw is not None and message.format is not None:
        raw = message.raw if message.format == dialect else None
        return Placed(message_id=message.message_id, parsed=parse(message.raw, message.format), raw=raw)
    chat = {"role": message.role, "content": message.content, "tool_calls": message.tool_calls}
    parsed = parse({**chat, "tool_call_id": message.metadata.get("tool_call_id")}, CHAT)
    return Placed(message_id=message.message_id, parsed=_with_results(parsed, message.tool_results))


def _with_results(parsed: Parsed, results: Sequence[Any]) -> Parsed:
    """`parsed` with the results that a `clew.Message` has in a field of its own."""
    if not results:
        return parsed
    made = tuple(
        ToolResult(
            call_id=as_text(result.get("tool_call_id")),
            name=as_text(result.get("name")),
            parts=(Text(str(result.get("content") or "")),),
            is_error=bool(result.get("is_error")),
        )
        for result in results
        if isinstance(result, Mapping)
    )
    kept = tuple(part for part in parsed.parts if not isinstance(part, ToolResult))
    return replace(parsed, parts=(*kept, *made))
