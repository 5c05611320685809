"""LangChain's messages in Clew's conversation record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import BaseMessage

from clew.model.message import Message

_ROLES: Final = {"human": "user", "ai": "assistant"}
_TOLD: Final = ("name", "tool_call_id", "status")


def moment_of(checkpoint: Mapping[str, Any]) -> datetime | None:
    """When LangGraph says that it made `checkpoint`."""
    try:
        when = datetime.fromisoformat(checkpoint["ts"])
    except (KeyError, TypeError, ValueError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def recorded(elements: Iterable[tuple[int, Any]], when: datetime) -> list[Message]:
    """Those of a list's `elements` (with their places) that are messages, for the conversation record."""
    return [_message(each, at, when) for at, each in elements if isinstance(each, BaseMessage)]


def _message(message: BaseMessage, at: int, when: datetime) -> Message:
    # Reducers such as add_messages give every message an id; a plain list has only places.
    message_id = message.id or f"langgraph-{at}"
    kind = message.type.removesuffix("MessageChunk").lower()
    return Message(
        message_id=message_id,
        role=getattr(message, "role", None) or _ROLES.get(kind, kind),
        content=message.content,
        tool_calls=tuple(getattr(message, "tool_calls", ())),
        created_at=when,
        metadata={name: told for name in _TOLD if (told := getattr(message, name, None)) is not None},
    )
