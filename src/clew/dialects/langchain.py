"""LangChain's messages: objects, and the three forms of dicts that LangChain makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from clew.dialects import anthropic, openai
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
    dumped,
    is_developer,
    media_kind,
    result_text,
    role_of,
    trimmed_list,
)
from clew.dialects.usage import counted
from clew.errors import MissingExtraError

NAME: Final = "langchain"
_ROLES: Final[Mapping[str, Role]] = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "HumanMessageChunk": "user",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_OPENAI_ROLE: Final = "__openai_role__"
"""The field in which LangChain notes that a system message has OpenAI's role "developer"."""


def fields_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message's fields, out of `message_to_dict`, `dumpd` or `model_dump`."""
    if raw.get("lc") == 1 and isinstance(raw.get("kwargs"), Mapping):
        kind = str((as_list(raw.get("id")) or [""])[-1]).removesuffix("Message").lower()
        return {"type": kind, **raw["kwargs"]}
    if isinstance(raw.get("data"), Mapping) and "content" not in raw:
        return {"type": raw.get("type"), **raw["data"]}
    return raw


def recognises(raw: Mapping[str, Any]) -> bool:
    """Return whether `raw` is a LangChain message as a dict."""
    fields = fields_of(raw)
    if fields is raw and ("role" in raw and raw.get("type") != "chat"):
        return False
    kind = fields.get("type")
    return "content" in fields and isinstance(kind, str) and (kind in _ROLES or kind == "chat")


def read(raw: Mapping[str, Any]) -> Parsed:
    """A message in neutral terms."""
    fields = fields_of(raw)
    role = _ROLES.get(str(fields.get("type"))) or role_of(fields.get("role"))
    name = as_text(fields.get("name"))
    content = fields.get("content")
    parts = [Text(content)] if isinstance(content, str) and content else [_part(each) for each in as_list(content)]
    if role == "tool":
        kept = tuple(part for part in parts if isinstance(part, (Text, Media, Other)))
        call_id = as_text(fields.get("tool_call_id"))
        result = ToolResult(call_id=call_id, name=name, parts=kept, is_error=fields.get("status") == "error")
        return Parsed(role=role, parts=(result,), name=name)
    # Calls are in `tool_calls`; the provider's blocks repeat them.
    said: list[Part] = [part for part in parts if not isinstance(part, ToolCall)]
    said += [openai.call_of(call) for key in ("tool_calls", "invalid_tool_calls") for call in as_list(fields.get(key))]
    usage, more = counted(fields.get("usage_metadata")), as_mapping(fields.get("additional_kwargs"))
    developer = any(map(is_developer, (fields.get("type"), fields.get("role"), more.get(_OPENAI_ROLE))))
    return Parsed(role=role, parts=tuple(said), name=name, usage=usage, developer=developer)


def _part(block: Any) -> Part:
    block = as_mapping(block) or block
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind in ("image", "audio", "video", "file") and not anthropic.is_block(block):
        mime_type = as_text(block.get("mime_type"))
        return Media(
            kind=kind if kind != "file" else media_kind(mime_type),
            mime_type=mime_type,
            data=as_text(block.get("base64")) or as_text(block.get("data")),
            url=as_text(block.get("url")),
            file_id=as_text(block.get("file_id")),
            name=as_text(block.get("filename")),
        )
    if kind == "reasoning":
        return Reasoning(str(block.get("reasoning") or ""))
    if kind == "tool_call":
        return openai.call_of(block)
    if anthropic.is_block(block):
        return anthropic.read({"content": [block]}).parts[0]
    return openai.content_parts([block])[0]


def trim(raw: Mapping[str, Any], keep: Sequence[bool]) -> Mapping[str, Any]:
    """The message without the calls that are not kept, also in the provider's blocks and fields that repeat them."""
    trimmed = dict(fields_of(raw))
    flags, gone = list(keep), set[str]()
    for key in ("invalid_tool_calls", "tool_calls"):
        calls = as_list(trimmed.get(key))
        first = len(flags) - len(calls)
        gone |= {str(as_mapping(call).get("id")) for call, stays in zip(calls, flags[first:], strict=True) if not stays}
        trimmed[key] = trimmed_list(calls, flags[first:])
        del flags[first:]
    if isinstance(content := trimmed.get("content"), (list, tuple)):
        # The flags are those of the blocks that are no calls.
        left = iter(flags)
        trimmed["content"] = [
            block
            for block in content
            if (not _ids(block) & gone if isinstance(_part(block), ToolCall) else next(left, True))
        ]
    if repeated := as_list((more := as_mapping(trimmed.get("additional_kwargs"))).get("tool_calls")):
        trimmed["additional_kwargs"] = {**more, "tool_calls": [call for call in repeated if not _ids(call) & gone]}
    return trimmed


def _ids(call: Any) -> set[str]:
    call = as_mapping(call)
    return {str(call[name]) for name in ("id", "call_id") if call.get(name)}


def write(conversation: Sequence[Placed], losses: Losses) -> list[Any]:
    """The conversation as LangChain's own objects. Raises MissingExtraError if langchain-core is not installed."""
    try:
        from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    except ImportError as error:
        raise MissingExtraError('as_="langchain" needs langchain-core: pip install langchain-core') from error
    written: list[Any] = []
    for placed in conversation:
        if placed.raw is not None:
            try:
                written.append(_object(placed.raw))
            except (TypeError, ValueError) as error:
                losses.unpaired(placed, f"LangChain can't load it ({type(error).__name__})")
            continue
        said, parsed = losses.at(placed), placed.parsed
        # LangGraph's add_messages replaces messages by their ids, so no two may have the same.
        ids = (placed.message_id if at == 0 else f"{placed.message_id}#{at + 1}" for at in count(placed.piece))
        for result in parsed.results():
            for part in result.parts:
                if not isinstance(part, Text):
                    said.drop(part, "in a tool's answer")
            status = "error" if result.is_error else "success"
            call_id = result.call_id or ""
            written.append(
                ToolMessage(result_text(result), id=next(ids), tool_call_id=call_id, name=result.name, status=status)
            )
        blocks = [block for part in parsed.parts if (block := _block(part, said)) is not None]
        text = all(block["type"] == "text" for block in blocks)
        content: Any = "\n".join(block["text"] for block in blocks) if text else blocks
        for call in parsed.calls():
            said.lack_custom(call)
        calls = [
            {
                "name": call.name,
                "args": call.arguments if isinstance(call.arguments, dict) else {"input": dumped(call.arguments)},
                "id": call.call_id,
            }
            for call in parsed.calls()
        ]
        if not content and not calls:
            continue
        known = {"id": next(ids), "name": parsed.name}
        if parsed.role == "assistant":
            written.append(AIMessage(content, tool_calls=calls, **known))
        elif parsed.role == "system":
            more = {"additional_kwargs": {_OPENAI_ROLE: "developer"}} if parsed.developer else {}
            written.append(SystemMessage(content, **known, **more))
        else:
            written.append(HumanMessage(content, **known))
    return written


def _object(raw: Mapping[str, Any]) -> Any:
    """The object that a dict was made from."""
    from langchain_core.messages import messages_from_dict

    fields = dict(fields_of(raw))
    return messages_from_dict([{"type": fields.get("type"), "data": fields}])[0]


def _block(part: Part, said: Losses.Message) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Media) and (part.data is not None or part.url is not None):
        if part.detail is not None:
            return openai.image_block(part)  # LangChain's own image block has no detail.
        block: dict[str, Any] = {"type": part.kind}
        if part.kind == "file" and part.name is not None:
            block["filename"] = part.name
        if part.data is not None:
            block |= {"base64": part.data, "mime_type": part.mime_type or "application/octet-stream"}
        else:
            block["url"] = part.url
        return block
    if not isinstance(part, (ToolCall, ToolResult)):
        said.drop(part)
    return None
