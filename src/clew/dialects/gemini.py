"""Contents of Google's Gemini API, with names in snake_case or camelCase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clew.dialects.conversation import Losses, Placed, grouped
from clew.dialects.parts import (
    Media,
    Other,
    Parsed,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    as_base64,
    as_list,
    as_mapping,
    as_text,
    dumped,
    media_kind,
    result_text,
    role_of,
    trimmed_list,
)
from clew.errors import shown

NAME: Final = "gemini"


def read(raw: Mapping[str, Any]) -> Parsed:
    """A content in neutral terms. One that only carries functions' responses has the role "tool"."""
    parts = tuple(_part(part) for part in as_list(raw.get("parts")))
    answers = bool(parts) and all(isinstance(part, ToolResult) for part in parts)
    return Parsed(role="tool" if answers else role_of(raw.get("role")), parts=parts)


def _get(part: Mapping[str, Any], name: str) -> Any:
    """A field in snake_case, or in camelCase."""
    if name in part:
        return part[name]
    first, *rest = name.split("_")
    return part.get(first + "".join(word.title() for word in rest))


def _part(part: Any) -> Part:
    if isinstance(part, str):
        return Text(part)
    part = as_mapping(part)
    if isinstance(part.get("text"), str):
        return Reasoning(part["text"]) if part.get("thought") else Text(part["text"])
    if isinstance(called := _get(part, "function_call"), Mapping):
        name, arguments = str(called.get("name") or ""), called.get("args")
        return ToolCall(call_id=as_text(called.get("id")), name=name, arguments={} if arguments is None else arguments)
    if isinstance(answered := _get(part, "function_response"), Mapping):
        response = answered.get("response")
        failed = isinstance(response, Mapping) and response.get("error") is not None
        return ToolResult(
            call_id=as_text(answered.get("id")),
            name=as_text(answered.get("name")),
            parts=(Text(_answer(response)),) if response is not None else (),
            is_error=failed,
        )
    if isinstance(inline := _get(part, "inline_data"), Mapping):
        mime_type = as_text(_get(inline, "mime_type"))
        return Media(kind=media_kind(mime_type), mime_type=mime_type, data=as_base64(inline.get("data")))
    if isinstance(file := _get(part, "file_data"), Mapping):
        mime_type = as_text(_get(file, "mime_type"))
        return Media(kind=media_kind(mime_type), mime_type=mime_type, url=as_text(_get(file, "file_uri")))
    return Other(next(iter(part), "part"))


def _answer(response: Any) -> str:
    """The result of the function: the SDK puts it under `result` or `output`, and an exception under `error`."""
    if isinstance(response, Mapping) and len(response) == 1:
        for key in ("result", "output", "error"):
            if response.get(key) is not None:
                return dumped(response[key])
    return dumped(response)


def trim(raw: Mapping[str, Any], keep: Sequence[bool]) -> Mapping[str, Any]:
    """The content without the parts that are not kept. The others keep all their fields."""
    return {**raw, "parts": trimmed_list(as_list(raw.get("parts")), keep)}


def write(conversation: Sequence[Placed], losses: Losses) -> list[Any]:
    """The conversation as contents."""
    return grouped(conversation, losses, as_given=dict, result=_result, part=_made, message=_content)


def _content(role: str, parts: list[Any]) -> dict[str, Any]:
    return {"role": "model" if role == "assistant" else role, "parts": parts}


def _result(result: ToolResult, said: Losses.Message) -> dict[str, Any]:
    for part in result.parts:
        if not isinstance(part, Text):
            said.drop(part, "in a function's response")
    answer = {"error" if result.is_error else "result": result_text(result)}
    return {"function_response": {"id": result.call_id, "name": result.name or "", "response": answer}}


def _made(part: Part, said: Losses.Message) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"text": part.text} if part.text else None
    if isinstance(part, ToolCall):
        said.lack_custom(part)
        arguments = part.arguments if isinstance(part.arguments, Mapping) else {"input": dumped(part.arguments)}
        return {"function_call": {"id": part.call_id, "name": part.name, "args": arguments}}
    if isinstance(part, Media) and (part.data is not None or part.url is not None):
        said.lack_detail(part)
        if part.name is not None:
            said.lack(f"the name {shown(part.name)} of a file")
    if isinstance(part, Media) and part.data is not None:
        return {"inline_data": {"mime_type": part.mime_type or "application/octet-stream", "data": part.data}}
    if isinstance(part, Media) and part.url is not None:
        file = {"file_uri": part.url}
        return {"file_data": file if part.mime_type is None else {**file, "mime_type": part.mime_type}}
    if not isinstance(part, ToolResult):
        said.drop(part)
    return None
