"""Conversion between Agentflow's models and plain data, which any reader of the store understands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from clew.adapters.agentflow.framework import Message, TextBlock, ThreadInfo
from clew.model.message import Message as Record
from clew.model.thread import ThreadInfo as Thread

OWN: Final = "clew.agentflow"
"""Metadata key for those fields of Agentflow's messages that the record lacks."""

_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes, datetime})
_ROLES: Final = {"human": "user", "ai": "assistant", "tool": "tool", "function": "tool", "developer": "system"}
"""Role names of other frameworks."""


def plain(model: BaseModel, **options: Any) -> dict[str, Any]:
    """Return the fields of `model` as plain data.

    Enums become their values. All other types stay: times, for example, don't become text.
    """
    # serialize_as_any keeps the fields that a subclass adds.
    fields = model.model_dump(serialize_as_any=True, **options)
    _make_plain(fields)
    return fields


def _make_plain(data: Any) -> None:
    """Replace values that are not plain, in place. They are rare."""
    odd_keys = False
    for place, value in data.items() if type(data) is dict else enumerate(data):
        kind = type(value)
        if kind is dict or kind is list:
            _make_plain(value)
        elif kind not in _ATOMS:
            data[place] = _plain(value)
        if isinstance(place, enum.Enum):
            odd_keys = True
    if odd_keys:
        items = [(_plain(key), value) for key, value in data.items()]
        data.clear()
        data.update(items)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    kind = type(value)
    if kind in (tuple, set, frozenset):
        return kind(map(_plain, value))
    if kind in (dict, list):
        _make_plain(value)
    return value


def recorded(message: Message, metadata: Mapping[str, Any] | None = None) -> Record:
    """Convert `message` to a searchable record without loss. `metadata` is added to its own."""
    fields = plain(message)
    known: dict[str, Any] = {
        "message_id": str(message.message_id),
        "role": message.role,
        "content": [_searchable(block) for block in fields["content"]],
        "tool_calls": tuple(message.tools_calls or ()),
        "metadata": {**(metadata or {}), **fields["metadata"]},
    }
    if message.timestamp is not None:
        known["created_at"] = datetime.fromtimestamp(message.timestamp, UTC)
    record = Record(**known)
    own = {name: value for name, value in fields.items() if name != "metadata" and _fields(record).get(name) != value}
    return Record(**known | {"metadata": known["metadata"] | {OWN: own}}) if own else record


def restored(record: Record) -> Message:
    """Convert `record` to a message, even if another framework wrote it or it is damaged."""
    own = record.metadata.get(OWN, {})
    try:
        return Message.model_validate(_fields(record) | own)
    except ValidationError:
        text = record.text() or str(record.metadata.get("clew.damaged", ""))
        return Message(
            message_id=record.message_id,
            role=_ROLES.get(record.role, record.role if record.role in _ROLES.values() else "system"),
            content=[TextBlock(text=text)],
            metadata=dict(record.metadata),
            timestamp=record.created_at.timestamp(),
        )


def described(thread: Thread) -> ThreadInfo:
    """Convert a thread's description to Agentflow's."""
    return ThreadInfo(
        thread_id=thread.thread_id,
        thread_name=thread.thread_name,
        user_id=thread.user_id,
        metadata=dict(thread.metadata),
        updated_at=thread.updated_at,
        run_id=thread.run_id,
    )


def _fields(record: Record) -> dict[str, Any]:
    """Return the message fields that follow from the record alone."""
    blocks = [{"type": "text", "text": record.content}] if isinstance(record.content, str) else record.content
    return {
        "message_id": record.message_id,
        "role": record.role,
        "content": [_original(block) for block in blocks],
        "tools_calls": list(record.tool_calls) or None,
        "timestamp": record.created_at.timestamp(),
        "metadata": {name: value for name, value in record.metadata.items() if name != OWN},
        **_DEFAULTS,
    }


_DEFAULTS: Final = {"delta": False, "reasoning": None, "usages": None, "raw": None, "parsed_content": None}


def _searchable(block: Any) -> Any:
    """Rename a tool's output to `text`, where searches look."""
    if isinstance(block, dict) and block.get("type") == "tool_result" and isinstance(block.get("output"), str):
        return {"text" if name == "output" else name: value for name, value in block.items()}
    return block


def _original(block: Any) -> Any:
    if isinstance(block, Mapping) and block.get("type") == "tool_result" and "output" not in block:
        return {"output" if name == "text" else name: value for name, value in block.items()}
    return block
