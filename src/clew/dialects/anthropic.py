"""Anthropic's messages: those that are sent, and those that its API answers with."""

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
    as_list,
    as_mapping,
    as_text,
    dumped,
    role_of,
    trimmed_list,
)
from clew.dialects.usage import counted

NAME: Final = "anthropic"
_BLOCKS: Final = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "document",
        "search_result",
        "container_upload",
    }
)


def is_block(block: Any) -> bool:
    """Return whether only Anthropic's messages have such a block."""
    block = as_mapping(block)
    kind = block.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "image":
        return isinstance(block.get("source"), Mapping)
    if kind == "text":
        return "cache_control" in block or "citations" in block
    return kind in _BLOCKS or kind.endswith("_tool_result")


def read(raw: Mapping[str, Any]) -> Parsed:
    """A message in neutral terms. One that only carries tools' answers has the role "tool"."""
    content = raw.get("content")
    parts = [Text(content)] if isinstance(content, str) else [_part(block) for block in as_list(content)]
    answers = bool(parts) and all(isinstance(part, ToolResult) for part in parts)
    return Parsed(
        role="tool" if answers else role_of(raw.get("role")), parts=tuple(parts), usage=counted(raw.get("usage"))
    )


def _part(block: Any, *, in_result: bool = False) -> Part:
    if isinstance(block, str):
        return Text(block)
    block = as_mapping(block)
    kind = str(block.get("type") or "")
    if kind == "text":
        return Text(str(block.get("text") or ""))
    if kind == "thinking":
        return Reasoning(str(block.get("thinking") or ""))
    if kind == "redacted_thinking":
        return Reasoning("")
    if kind in ("image", "document"):
        return _media("image" if kind == "image" else "file", block)
    if kind == "tool_use":
        arguments = block.get("input")
        name = str(block.get("name") or "")
        return ToolCall(call_id=as_text(block.get("id")), name=name, arguments={} if arguments is None else arguments)
    if kind == "tool_result" and not in_result:
        content = block.get("content")
        inner = (
            [Text(content)] if isinstance(content, str) else [_part(each, in_result=True) for each in as_list(content)]
        )
        kept = tuple(part for part in inner if isinstance(part, (Text, Media, Other)))
        call_id = as_text(block.get("tool_use_id"))
        return ToolResult(call_id=call_id, name=None, parts=kept, is_error=block.get("is_error") is True)
    return Other(kind or "block")


def _media(kind: Any, block: Mapping[str, Any]) -> Part:
    source, name = as_mapping(block.get("source")), as_text(block.get("title"))
    form = source.get("type")
    if form == "text":
        return Text(str(source.get("data") or ""))
    if form == "content":
        return Other("document of blocks")
    return Media(
        kind=kind,
        mime_type=as_text(source.get("media_type")),
        data=as_text(source.get("data")),
        url=as_text(source.get("url")),
        file_id=as_text(source.get("file_id")),
        name=name,
    )


def trim(raw: Mapping[str, Any], keep: Sequence[bool]) -> Mapping[str, Any]:
    """The message without the parts that are not kept. The others keep all their fields."""
    return {**raw, "content": trimmed_list(as_list(raw.get("content")), keep)}


def write(conversation: Sequence[Placed], losses: Losses) -> list[Any]:
    """The conversation as messages."""
    return grouped(conversation, losses, as_given=_sendable, result=_result, part=_block, message=_message)


def _sendable(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message that the API takes. Its answers carry fields that it refuses in a request."""
    return {key: raw.get(key) for key in ("role", "content")} if "stop_reason" in raw else raw


def _message(role: str, blocks: list[Any]) -> dict[str, Any]:
    only = len(blocks) == 1 and blocks[0]["type"] == "text"
    return {"role": role, "content": blocks[0]["text"] if only else blocks}


def _result(result: ToolResult, said: Losses.Message) -> dict[str, Any]:
    blocks = [block for part in result.parts if (block := _block(part, said)) is not None]
    text = all(block["type"] == "text" for block in blocks)
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    written["content"] = "\n".join(block["text"] for block in blocks) if text else blocks
    if result.is_error:
        written["is_error"] = True
    return written


def _block(part: Part, said: Losses.Message) -> dict[str, Any] | None:
    if isinstance(part, Text):
        # The API refuses empty texts.
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, ToolCall):
        said.lack_custom(part)
        arguments = part.arguments if isinstance(part.arguments, Mapping) else {"input": dumped(part.arguments)}
        return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": arguments}
    if isinstance(part, Media) and part.kind in ("image", "file") and part.file_id is None:
        source: dict[str, Any] | None = None
        if part.url is not None:
            source = {"type": "url", "url": part.url}
        elif part.data is not None and (part.kind == "image" or part.mime_type == "application/pdf"):
            source = {"type": "base64", "media_type": part.mime_type or "image/png", "data": part.data}
        if source is not None:
            said.lack_detail(part)
            if part.kind == "image":
                return {"type": "image", "source": source}
            return {"type": "document", "source": source} | ({} if part.name is None else {"title": part.name})
    if not isinstance(part, ToolResult):
        said.drop(part)
    return None
