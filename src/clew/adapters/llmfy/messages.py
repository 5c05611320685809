"""llmfy's messages in Clew's conversation record: each once, at the save that brings it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from clew.adapters.fingerprint import fingerprint
from clew.clock import SYSTEM_CLOCK
from clew.ids import new_id
from clew.model.message import Message

_TOLD: Final = ("name", "tool_call_id", "request_call_id")


def fingerprints(messages: Any) -> list[bytes]:
    """What tells each of a state's messages from others; empty if it has no list of them."""
    return list(map(fingerprint, messages)) if isinstance(messages, list) else []


def recorded(messages: Any, places: Sequence[int]) -> list[Message]:
    """Those of a state's `messages` that are at `places`, as entries of the conversation record."""
    return [message for at in places if (message := _message(messages[at])) is not None]


def _message(item: Any) -> Message | None:
    """`item` as an entry of the conversation record; `None` if it is no message."""
    said = _fields(item)
    role = said.get("role")
    if not isinstance(role, str):
        return None
    content = said.get("content")
    if content is None:
        content = "\n".join(map(str, said.get("tool_results") or ()))
    elif isinstance(content, (list, tuple)):
        content = [_block(each) for each in content]
    else:
        content = str(content)
    return Message(
        # llmfy gives every message an id. A dict without one gets a new one: several runs at once may say the same.
        message_id=str(said.get("id") or new_id()),
        role=str(role),
        content=content,
        tool_calls=tuple(_fields(each) or each for each in said.get("tool_calls") or ()),
        metadata={name: told for name in _TOLD if (told := said.get(name)) is not None},
        created_at=_time(said.get("timestamp")),
    )


def _fields(item: Any) -> Mapping[str, Any]:
    """The fields of a message: of an object, or of a plain dict."""
    dump = getattr(item, "model_dump", None)
    if dump is not None:
        item = dump(mode="json")
    return item if isinstance(item, Mapping) else {}


def _block(content: Any) -> Any:
    """A block of a message with its text where Clew looks for it."""
    block = dict(_fields(content)) or content
    if isinstance(block, dict) and block.get("type", "text") == "text" and isinstance(block.get("value"), str):
        block["text"] = block.pop("value")
    return block


def _time(text: Any) -> datetime:
    try:
        told = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return SYSTEM_CLOCK.now()
    return told if told.tzinfo is not None else told.replace(tzinfo=UTC)
