"""Items of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clew.dialects.conversation import Losses, Placed
from clew.dialects.openai import custom_input
from clew.dialects.parts import (
    Media,
    Other,
    Parsed,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    as_list,
    as_mapping,
    as_text,
    detail_of,
    dumped,
    from_data_url,
    is_developer,
    loaded_arguments,
    role_of,
)

NAME: Final = "openai-responses"
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
"""The items that call a tool by its name, and where the arguments are."""
ITEMS: Final = frozenset(
    {
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "configuration_update",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "program",
        "reasoning",
    }
)
"""Types of items, besides those that end in `_call` or `_output`."""
_ANSWERS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_BLOCKS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
"""Types of content that only this format has."""


def is_block(block: Any) -> bool:
    """Return whether only this format has such a block of content."""
    kind = as_mapping(block).get("type")
    return isinstance(kind, str) and kind in _BLOCKS


def is_item(kind: str) -> bool:
    """Return whether items of the API have this type. New ones follow the pattern of the others."""
    return kind in ITEMS or kind.endswith(("_call", "_output"))


def read(raw: Mapping[str, Any]) -> Parsed:
    """An item in neutral terms. Items of hosted tools keep their kind, and their contents stay in `raw`."""
    kind = raw.get("type") or "message"
    if kind == "message":
        role = role_of(raw.get("role"))
        content = raw.get("content")
        said = [Text(content)] if isinstance(content, str) else [_part(block) for block in as_list(content)]
        return Parsed(role=role, parts=tuple(said), developer=is_developer(raw.get("role")))
    if kind in _CALLS:
        custom, arguments = kind == "custom_tool_call", raw.get(_CALLS[kind])
        arguments = custom_input(arguments) if custom else loaded_arguments(arguments)
        call_id = as_text(raw.get("call_id")) or as_text(raw.get("id"))
        call = ToolCall(call_id=call_id, name=str(raw.get("name") or ""), arguments=arguments, custom=custom)
        parts: list[Part] = [call]
        if kind == "mcp_call" and (raw.get("output") is not None or raw.get("error") is not None):
            answer = _answer(raw.get("output") if raw.get("output") is not None else dumped(raw["error"]))
            failed = raw.get("error") is not None
            parts.append(ToolResult(call_id=call_id, name=call.name, parts=answer, is_error=failed))
        return Parsed(role="assistant", parts=tuple(parts))
    if kind in _ANSWERS:
        result = ToolResult(call_id=as_text(raw.get("call_id")), name=None, parts=_answer(raw.get("output")))
        return Parsed(role="tool", parts=(result,))
    if kind == "reasoning":
        thoughts = [as_mapping(each).get("text") for key in ("summary", "content") for each in as_list(raw.get(key))]
        text = "\n".join(thought for thought in thoughts if isinstance(thought, str))
        return Parsed(role="assistant", parts=(Reasoning(text),))
    if kind == "mcp_approval_request":
        return Parsed(role="assistant", parts=(Other(kind, calls=as_text(raw.get("id"))),))
    if kind == "mcp_approval_response":
        return Parsed(role="user", parts=(Other(kind, answers=as_text(raw.get("approval_request_id"))),))
    call_id = as_text(raw.get("call_id"))
    if str(kind).endswith("_output"):
        return Parsed(role="tool", parts=(Other(str(kind), answers=call_id),))
    return Parsed(role="assistant", parts=(Other(str(kind), calls=call_id),))


def _answer(output: Any) -> tuple[Text | Media | Other, ...]:
    if isinstance(output, str):
        return (Text(output),)
    if isinstance(output, (list, tuple)):
        parts = [_part(block) for block in output]
        return tuple(part for part in parts if isinstance(part, (Text, Media, Other)))
    return () if output is None else (Text(dumped(output)),)


def _part(block: Any) -> Part:
    if isinstance(block, str):
        return Text(block)
    block = as_mapping(block)
    kind = str(block.get("type") or "")
    if kind == "input_image":
        detail = detail_of(block.get("detail"))
        if (file_id := as_text(block.get("file_id"))) is not None:
            return Media(kind="image", file_id=file_id, uploaded_to="openai", detail=detail)
        return from_data_url(block.get("image_url"), "image", detail=detail)
    if kind == "input_file":
        name, file_id = as_text(block.get("filename")), as_text(block.get("file_id"))
        if file_id is not None:
            return Media(kind="file", file_id=file_id, name=name, uploaded_to="openai")
        return from_data_url(block.get("file_data") or block.get("file_url"), "file", name=name)
    if kind == "input_audio":
        audio = as_mapping(block.get("input_audio") or block)
        return Media(kind="audio", data=as_text(audio.get("data")), mime_type=f"audio/{audio.get('format') or 'wav'}")
    for key in ("text", "refusal"):
        if isinstance(block.get(key), str):
            return Text(block[key])
    return Other(kind or "block")


def trim(raw: Mapping[str, Any], _keep: Sequence[bool]) -> Mapping[str, Any]:
    """The item: each has one call or one result, so none remains without it."""
    return raw


def write(conversation: Sequence[Placed], losses: Losses) -> list[Any]:
    """The conversation as items: messages, and an item for each tool call and each answer."""
    written: list[Any] = []
    for placed in conversation:
        if placed.raw is not None:
            written.append(placed.raw)
            continue
        said, parsed = losses.at(placed), placed.parsed
        said.lack_name()
        for result in parsed.results():
            said.lack_error(result)
            output = _output(result, said)
            kind = "custom_tool_call_output" if result.custom else "function_call_output"
            written.append({"type": kind, "call_id": result.call_id, "output": output})
        blocks: list[dict[str, Any]] = []
        for part in parsed.parts:
            if isinstance(part, Media) and parsed.role == "assistant":
                said.drop(part, "of an assistant")
            elif (block := _block(part, said)) is not None:
                blocks.append(block)
        if blocks:
            role = "developer" if parsed.developer else "user" if parsed.role == "tool" else parsed.role
            # An assistant's blocks would need the id of a response; text does not.
            content = "\n".join(block["text"] for block in blocks) if role == "assistant" else blocks
            written.append({"type": "message", "role": role, "content": content})
        written += [_call(call) for call in parsed.calls()]
    return written


def _call(call: ToolCall) -> dict[str, Any]:
    kind = "custom_tool_call" if call.custom else "function_call"
    return {"type": kind, "call_id": call.call_id, "name": call.name, _CALLS[kind]: dumped(call.arguments)}


def _output(result: ToolResult, said: Losses.Message) -> str | list[dict[str, Any]]:
    blocks = [block for part in result.parts if (block := _block(part, said)) is not None]
    if all(block["type"] == "input_text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _block(part: Part, said: Losses.Message) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Media):
        if part.kind == "image" and part.data_url is not None:
            return {"type": "input_image", "image_url": part.data_url, "detail": part.detail or "auto"}
        if part.kind == "image" and part.uploaded_to == "openai":
            return {"type": "input_image", "file_id": part.file_id, "detail": part.detail or "auto"}
        if part.kind == "file" and part.data is not None:
            return {"type": "input_file", "filename": part.name or "file", "file_data": part.data_url}
        if part.kind == "file" and part.url is not None:
            return {"type": "input_file", "file_url": part.url}
        if part.kind == "file" and part.uploaded_to == "openai":
            return {"type": "input_file", "file_id": part.file_id}
    if not isinstance(part, (ToolCall, ToolResult)):
        said.drop(part)
    return None
