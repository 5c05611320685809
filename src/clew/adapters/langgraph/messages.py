"""Messages of graphs in Clew's conversation record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite

from clew.adapters.texts import clean
from clew.model.message import Message

_ROLES: Final = {"human": "user", "ai": "assistant"}
_TOLD: Final = ("name", "tool_call_id", "status")
_MISSING: Final = _DeltaSnapshot(None)


def moment_of(checkpoint: Mapping[str, Any]) -> datetime | None:
    """When LangGraph says that it made `checkpoint`."""
    try:
        when = datetime.fromisoformat(checkpoint["ts"])
    except (KeyError, TypeError, ValueError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def is_message(item: Any) -> bool:
    """Whether `item` says something: a message of LangChain's, or plain data with a role."""
    if isinstance(item, BaseMessage):
        return not isinstance(item, RemoveMessage)
    return isinstance(item, Mapping) and isinstance(item.get("role"), str)


def id_of(item: Any) -> str | None:
    """The id of a message, if it has one: reducers such as add_messages give it one, a plain list does not."""
    own = item.get("id") if isinstance(item, Mapping) else getattr(item, "id", None)
    return clean(str(own)) if own else None


def recorded(elements: Iterable[tuple[int, Any]], brought_by: str, when: datetime) -> list[Message]:
    """Those of a list's `elements` (with their places) that are messages, for the conversation record.

    One without an id is known by what brought it and by its place there: the same text may be said again, and a list that
    is saved again brings nothing new.
    """
    return [_message(each, id_of(each) or f"{brought_by}-{at}", when) for at, each in elements if is_message(each)]


def written(value: Any) -> list[Any]:
    """The elements of a channel's value, or of what is written to one."""
    if isinstance(value, (Overwrite, _DeltaSnapshot)):
        value = value.value
    return list(value) if isinstance(value, (list, tuple)) else [value]


def is_delta(channel: str, checkpoint: Mapping[str, Any]) -> bool:
    """Whether `channel` is a delta channel: its value is not in every checkpoint."""
    values = checkpoint["channel_values"]
    return channel in checkpoint["channel_versions"] and isinstance(values.get(channel, _MISSING), _DeltaSnapshot)


def _message(item: Any, message_id: str, when: datetime) -> Message:
    said: Any = item if isinstance(item, Mapping) else _Fields(item)
    content = said.get("content")
    return Message(
        message_id=message_id,
        role=_role(item),
        content="" if content is None else _plain(content if isinstance(content, (str, list, tuple)) else str(content)),
        tool_calls=tuple(_plain(said.get("tool_calls") or ())),
        created_at=when,
        metadata={name: _plain(told) for name in _TOLD if (told := said.get(name)) is not None},
    )


class _Fields:
    """An object read like a mapping."""

    def __init__(self, item: Any) -> None:
        self._item = item

    def get(self, name: str) -> Any:
        return getattr(self._item, name, None)


def _role(item: Any) -> str:
    kind = item.type.removesuffix("MessageChunk").lower() if isinstance(item, BaseMessage) else item["role"]
    return clean(str(getattr(item, "role", None) or _ROLES.get(kind, kind)))


def _plain(value: Any) -> Any:
    """`value` as the record can hold it: plain data, and texts that are valid Unicode."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, (int, float, bytes)) else str(value)
