"""OpenAI's chat messages, and plain dicts with a role and a content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clew.dialects.conversation import Losses, Placed
from clew.dialects.parts import (
    Media,
    Other,
    Parsed,
    Part,
    Reasoning,
    Role,
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
    result_text,
    role_of,
    trimmed_list,
)

NAME: Final = "openai"


def read(raw: Mapping[str, Any]) -> Parsed:
    """A chat message in neutral terms."""
    role = role_of(raw.get("role"))
    said = content_parts(raw.get("content"))
    if refusal := as_text(raw.get("refusal")):
        said.append(Text(refusal))
    if as_mapping(raw.get("audio")):
        said.append(Text(transcript) if (transcript := as_text(raw["audio"].get("transcript"))) else Other("audio"))
    if role == "tool":
        call_id, name = as_text(raw.get("tool_call_id")), as_text(raw.get("name"))
        kept = tuple(part for part in said if isinstance(part, (Text, Media, Other)))
        result = ToolResult(call_id=call_id, name=name, parts=kept)
        return Parsed(role=role, parts=(result,), name=name)
    if isinstance(raw.get("function_call"), Mapping):
        called = raw["function_call"]
        arguments = loaded_arguments(called.get("arguments"))
        said.append(ToolCall(call_id=None, name=str(called.get("name") or ""), arguments=arguments))
    said += [call_of(call) for call in as_list(raw.get("tool_calls"))]
    developer = is_developer(raw.get("role"))
    return Parsed(role=role, parts=tuple(said), name=as_text(raw.get("name")), developer=developer)


def call_of(call: Any) -> Part:
    """A tool call in one of the forms that are in use: OpenAI's, LangChain's, or Clew's own."""
    call = as_mapping(call)
    inner = as_mapping(call.get("function") or call.get("custom") or call)
    arguments = next((inner[key] for key in ("arguments", "args", "input") if key in inner), None)
    call_id, name = as_text(call.get("id")) or as_text(call.get("tool_call_id")), str(inner.get("name") or "")
    if call.get("type") == "custom":
        return ToolCall(call_id=call_id, name=name, arguments=custom_input(arguments), custom=True)
    return ToolCall(call_id=call_id, name=name, arguments=loaded_arguments(arguments))


def custom_input(value: Any) -> str:
    """The input of a custom tool: any text, also if it looks like JSON."""
    return "" if value is None else dumped(value)


def image_block(image: Media) -> dict[str, Any]:
    """An image as a block of a chat message's content."""
    block = {"url": image.data_url}
    return {"type": "image_url", "image_url": block if image.detail is None else {**block, "detail": image.detail}}


def content_parts(content: Any) -> list[Part]:
    """The parts of a chat message's content."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    if content is not None and not isinstance(content, (list, tuple)):
        return [Text(dumped(content))]
    return [_part(block) for block in as_list(content)]


def _part(block: Any) -> Part:
    if isinstance(block, str):
        return Text(block)
    block = as_mapping(block)
    kind = str(block.get("type") or "")
    if kind == "image_url":
        image = block.get("image_url")
        if not isinstance(image, Mapping):
            return from_data_url(image, "image")
        return from_data_url(image.get("url"), "image", detail=detail_of(image.get("detail")))
    if kind == "input_audio":
        audio = as_mapping(block.get("input_audio"))
        mime_type = f"audio/{audio['format']}" if as_text(audio.get("format")) else None
        return Media(kind="audio", mime_type=mime_type, data=as_text(audio.get("data")))
    if kind == "file":
        file = as_mapping(block.get("file"))
        name, file_id = as_text(file.get("filename")), as_text(file.get("file_id"))
        if file_id is not None:
            return Media(kind="file", file_id=file_id, name=name, uploaded_to="openai")
        return from_data_url(file.get("file_data"), "file", name=name)
    for key in ("text", "refusal", "content"):
        if isinstance(block.get(key), str):
            return Reasoning(block[key]) if kind in ("reasoning", "thinking") else Text(block[key])
    return Other(kind or "block")


def trim(raw: Mapping[str, Any], keep: Sequence[bool]) -> Mapping[str, Any]:
    """The message without the parts that are not kept. The others keep all their fields."""
    trimmed = dict(raw)
    if isinstance(content := raw.get("content"), (list, tuple)):
        trimmed["content"] = trimmed_list(content, keep)
    calls = as_list(raw.get("tool_calls"))
    before = len(keep) - len(calls)
    if isinstance(raw.get("function_call"), Mapping) and not keep[before - 1]:
        del trimmed["function_call"]
    if kept := trimmed_list(calls, keep[before:]):
        trimmed["tool_calls"] = kept
    else:
        trimmed.pop("tool_calls", None)  # The API refuses an empty list.
    return trimmed


def write(conversation: Sequence[Placed], losses: Losses) -> list[Any]:
    """The conversation as chat messages. A tool's answers become a message each."""
    written: list[Any] = []
    for placed in conversation:
        if placed.raw is not None:
            written.append(placed.raw)
            continue
        said, parsed = losses.at(placed), placed.parsed
        for result in parsed.results():
            for part in result.parts:
                if not isinstance(part, Text):
                    said.drop(part, "in a tool's answer")
            said.lack_error(result)
            written.append({"role": "tool", "tool_call_id": result.call_id, "content": result_text(result)})
        blocks = [block for part in parsed.parts if (block := _block(part, said, parsed.role)) is not None]
        calls = [_call(call) for call in parsed.calls()]
        if not blocks and not calls:
            continue
        role = "developer" if parsed.developer else "user" if parsed.role == "tool" else parsed.role
        message: dict[str, Any] = {"role": role}
        if parsed.name is not None:
            message["name"] = parsed.name
        if all(block["type"] == "text" for block in blocks):
            message["content"] = "\n".join(block["text"] for block in blocks) if blocks else None
        else:
            message["content"] = blocks
        if calls:
            message["tool_calls"] = calls
        written.append(message)
    return written


def _call(call: ToolCall) -> dict[str, Any]:
    called = {"name": call.name, "input" if call.custom else "arguments": dumped(call.arguments)}
    kind = "custom" if call.custom else "function"
    return {"id": call.call_id, "type": kind, kind: called}


_TEXT_ONLY: Final = {"assistant": "of an assistant", "system": "of a system message"}
"""The roles whose messages take no media."""


def _block(part: Part, said: Losses.Message, role: Role) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Media):
        if role in _TEXT_ONLY:
            said.drop(part, _TEXT_ONLY[role])
            return None
        if part.kind == "image" and part.data_url is not None:
            return image_block(part)
        if part.kind == "audio" and part.data is not None:
            form = (part.mime_type or "audio/wav").partition("/")[2].replace("mpeg", "mp3")
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": form}}
        if part.kind == "file" and part.data is not None:
            return {"type": "file", "file": {"filename": part.name or "file", "file_data": part.data_url}}
        if part.kind == "file" and part.uploaded_to == "openai":
            return {"type": "file", "file": {"file_id": part.file_id}}
    if not isinstance(part, (ToolCall, ToolResult)):
        said.drop(part)
    return None
