"""LangChain's messages in Clew's conversation record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from langchain_core.messages import BaseMessage

from clew.adapters.langgraph.changes import Known, dump, items_of
from clew.model.message import Message

_ROLES: Final = {"human": "user", "ai": "assistant"}
_TOLD: Final = ("name", "tool_call_id", "status")


def new_messages(parent: Known | None, channel: str, value: Any) -> list[Message]:
    """The messages of `value` that its `parent` does not have like this, for the conversation record."""
    if type(value) is not list or not any(isinstance(item, BaseMessage) for item in value):
        return []
    numbered: Iterable[tuple[int, Any]] = enumerate(value)
    before = parent.dumps.get(channel) if parent else None
    packed = dump(value) if before is not None else None
    if before is not None and packed is not None:
        old = set(items_of(before[1]))
        numbered = [(at, value[at]) for at, item in enumerate(items_of(packed)) if item not in old]
    return [_message(item, at) for at, item in numbered if isinstance(item, BaseMessage)]


def _message(message: BaseMessage, at: int) -> Message:
    # Reducers such as add_messages give every message an id; a plain list has only places.
    message_id = message.id or f"langgraph-{at}"
    kind = message.type.removesuffix("MessageChunk").lower()
    return Message(
        message_id=message_id,
        role=getattr(message, "role", None) or _ROLES.get(kind, kind),
        content=message.content,
        tool_calls=tuple(getattr(message, "tool_calls", ())),
        metadata={name: told for name in _TOLD if (told := getattr(message, name, None)) is not None},
    )
