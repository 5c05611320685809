"""Messages of graphs in Clew's conversation record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.base import ChannelVersions
from langgraph.checkpoint.base import Checkpoint as GraphCheckpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Overwrite

from clew.adapters.fingerprint import fingerprint, new_places
from clew.adapters.langgraph.changes import Changes, Known, added_places
from clew.adapters.langgraph.layout import graph_checkpoint
from clew.adapters.langgraph.loader import Loader
from clew.adapters.texts import clean, parsed_time, recorded_role
from clew.checkpointer.base import BaseCheckpointer
from clew.model.message import Message

_ROLES: Final = {"human": "user", "ai": "assistant"}
_METADATA: Final = ("name", "tool_call_id", "status")
_MISSING: Final = _DeltaSnapshot(None)


class Recorder:
    """Finds the new messages in the channel that is recorded."""

    def __init__(
        self, checkpointer: BaseCheckpointer, serde: SerializerProtocol, loader: Loader, channel: str | None
    ) -> None:
        self._checkpointer = checkpointer
        self._serde = serde
        self._loader = loader
        self._channel = channel

    async def new_messages(
        self,
        target: dict[str, Any],
        known: Known | None,
        found: Changes,
        checkpoint: GraphCheckpoint,
        new_versions: ChannelVersions,
    ) -> list[Message]:
        """Return the messages that `checkpoint` adds to its parent, the checkpoint at `target`.

        Subgraphs are not recorded: what they say to others reaches the graph's own channel.
        """
        channel = None if target["checkpoint_ns"] else self._channel
        if channel is None or channel not in checkpoint["channel_versions"]:
            return []
        value = checkpoint["channel_values"].get(channel)
        if _is_delta(channel, checkpoint):
            new = await self._new_in_delta(target, channel, value) if channel in new_versions else []
        elif type(value) is list and (channel in found.set or channel in found.append):
            places = added_places(known, found, channel, value)
            if places is None:
                places = await self._added_to_parent(target, channel, value)
            new = [(at, value[at]) for at in places]
        else:
            return []
        return _recorded(new, checkpoint["id"], moment_of(checkpoint))

    async def _new_in_delta(self, target: dict[str, Any], channel: str, value: Any) -> list[tuple[int, Any]]:
        """Return what was added to a delta channel since the parent.

        Few checkpoints hold its value.

        The parent's pending writes have it, because LangGraph saves them before the checkpoint that
        applies them.
        """
        if isinstance(value, _DeltaSnapshot):
            # A snapshot may hold messages that are in no write, such as the first question after
            # going back. Most of it is recorded already.
            recorded = {each.message_id for each in await self._checkpointer.alist_messages(target, limit=None)}
            return [(at, each) for at, each in enumerate(written(value)) if id_of(each) not in recorded]
        if target["checkpoint_id"] is None:
            return []
        writes = await self._loader.writes(target)
        return list(enumerate(each for _, name, wrote in writes if name == channel for each in written(wrote)))

    async def _added_to_parent(self, target: dict[str, Any], channel: str, value: list[Any]) -> list[int]:
        """Return the places of the new elements in a list whose parent is not in memory.

        If all messages have ids, nothing is read: recording a known id replaces the message.
        """
        if target["checkpoint_id"] is None or all(id_of(each) for each in value if is_message(each)):
            return list(range(len(value)))
        parent = await self._checkpointer.aget_checkpoint(target)
        before = graph_checkpoint(parent, self._serde)["channel_values"].get(channel) if parent is not None else None
        old = before if isinstance(before, list) else []
        return new_places([*map(fingerprint, old)], [*map(fingerprint, value)])


def moment_of(checkpoint: Mapping[str, Any]) -> datetime | None:
    """Return the time that LangGraph gave `checkpoint`."""
    return parsed_time(checkpoint.get("ts"))


def is_message(item: Any) -> bool:
    """Return whether `item` is a message: LangChain's, or plain data with a role."""
    if isinstance(item, BaseMessage):
        return not isinstance(item, RemoveMessage)
    return isinstance(item, Mapping) and isinstance(item.get("role"), str)


def id_of(item: Any) -> str | None:
    """Return the id of a message.

    Reducers such as add_messages assign one; a plain list does not.
    """
    own = item.get("id") if isinstance(item, Mapping) else getattr(item, "id", None)
    return clean(str(own)) if own else None


def written(value: Any) -> list[Any]:
    """Return the elements of a channel's value, or of a write to the channel."""
    if isinstance(value, (Overwrite, _DeltaSnapshot)):
        value = value.value
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _is_delta(channel: str, checkpoint: Mapping[str, Any]) -> bool:
    """Return whether `channel` is a delta channel: only some checkpoints hold its value."""
    values = checkpoint["channel_values"]
    return channel in checkpoint["channel_versions"] and isinstance(values.get(channel, _MISSING), _DeltaSnapshot)


def _recorded(elements: Iterable[tuple[int, Any]], checkpoint_id: str, when: datetime | None) -> list[Message]:
    """Convert those `elements` (place and item) that are messages.

    A message without an id is identified by its checkpoint and place. So the same text may be said
    twice, while saving the same list again adds nothing.
    """
    return [_message(each, id_of(each) or f"{checkpoint_id}-{at}", when) for at, each in elements if is_message(each)]


def _message(item: Any, message_id: str, when: datetime | None) -> Message:
    fields: Any = item if isinstance(item, Mapping) else _Fields(item)
    content = fields.get("content")
    known: dict[str, Any] = {} if when is None else {"created_at": when}
    return Message(
        message_id=message_id,
        role=_role(item),
        content="" if content is None else _plain(content if isinstance(content, (str, list, tuple)) else str(content)),
        tool_calls=tuple(_plain(fields.get("tool_calls") or ())),
        metadata={name: _plain(value) for name in _METADATA if (value := fields.get(name)) is not None},
        **known,
    )


class _Fields:
    """Reads an object like a mapping."""

    def __init__(self, item: Any) -> None:
        self._item = item

    def get(self, name: str) -> Any:
        return getattr(self._item, name, None)


def _role(item: Any) -> str:
    kind = item.type.removesuffix("MessageChunk").lower() if isinstance(item, BaseMessage) else item["role"]
    return recorded_role(clean(str(getattr(item, "role", None) or _ROLES.get(kind, kind))))


def _plain(value: Any) -> Any:
    """Convert `value` to what the record can hold: plain data, and texts that are valid Unicode."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, (int, float, bytes)) else str(value)
