"""Pydantic AI's requests and responses, as its own JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clew.dialects.parts import (
    Instruction,
    Media,
    Other,
    Parsed,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    as_base64,
    as_list,
    as_mapping,
    as_text,
    dumped,
    loaded_arguments,
    media_kind,
)
from clew.dialects.usage import counted

NAME: Final = "pydantic-ai"
_URLS: Final = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "file"}


def read(raw: Mapping[str, Any]) -> Parsed:
    """A request or a response in neutral terms. A request is the user's, unless it only has results or instructions."""
    instructions = as_text(raw.get("instructions"))
    parts: list[Part] = [] if instructions is None else [Instruction(instructions)]
    speakers: set[Role] = set()
    for part in as_list(raw.get("parts")):
        part = as_mapping(part)
        kind = str(part.get("part_kind") or "part")
        speakers.add("system" if kind == "system-prompt" else "tool" if kind in _ANSWERS else "user")
        parts += _parts(kind, part)
    if raw.get("kind") == "response":
        return Parsed(role="assistant", parts=tuple(parts), usage=counted(raw.get("usage")))
    role: Role = "user" if "user" in speakers or not speakers else "tool" if "tool" in speakers else "system"
    return Parsed(role=role, parts=tuple(parts))


_FAILED: Final = frozenset({"failed", "denied", "interrupted", "retried"})
_ANSWERS: Final = frozenset({"tool-return", "retry-prompt", "tool-search-return"})


def _parts(kind: str, part: Mapping[str, Any]) -> list[Part]:
    content = part.get("content")
    if kind == "text":
        return [Text(str(content or ""))]
    if kind == "system-prompt":
        return [Instruction(str(content or ""))]
    if kind == "user-prompt":
        return [Text(content)] if isinstance(content, str) else [_said(each) for each in as_list(content)]
    if kind == "thinking":
        return [Reasoning(str(content or ""))]
    call_id, name = as_text(part.get("tool_call_id")), as_text(part.get("tool_name"))
    if kind == "tool-call":
        return [ToolCall(call_id=call_id, name=name or "", arguments=loaded_arguments(part.get("args")))]
    if kind == "retry-feedback" or (kind == "retry-prompt" and name is None):
        return [Text(dumped(content))]
    if kind in _ANSWERS:
        failed = kind == "retry-prompt" or part.get("outcome") in _FAILED
        answer = (Text(dumped(content)),) if content is not None else ()
        return [ToolResult(call_id=call_id, name=name, parts=answer, is_error=failed)]
    if kind == "file" and isinstance(content, Mapping):
        return [_said(content)]
    return [Other(kind)]


def _said(content: Any) -> Part:
    if isinstance(content, str):
        return Text(content)
    content = as_mapping(content)
    kind = str(content.get("kind") or "content")
    if kind in _URLS:
        mime_type = as_text(content.get("media_type"))
        return Media(kind=_URLS[kind], mime_type=mime_type, url=as_text(content.get("url")))  # type: ignore[arg-type]
    if kind == "binary":
        mime_type = as_text(content.get("media_type"))
        return Media(kind=media_kind(mime_type), mime_type=mime_type, data=as_base64(content.get("data")))
    if kind.startswith("text") and isinstance(content.get("content"), str):
        return Text(content["content"])
    return Other(kind)
