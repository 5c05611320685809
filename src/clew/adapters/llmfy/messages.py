"""llmfy's messages in Clew's conversation record.

Each is recorded once, by the save that adds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clew.adapters.fingerprint import fingerprint
from clew.adapters.texts import parsed_time, recorded_role
from clew.ids import new_id
from clew.model.message import Message

_METADATA: Final = ("name", "tool_call_id", "request_call_id")


def fingerprints(messages: Any) -> list[bytes]:
    """Return a fingerprint for each of a state's messages; nothing if `messages` is not a list."""
    return list(map(fingerprint, messages)) if isinstance(messages, list) else []


def recorded(messages: Any, places: Sequence[int]) -> list[Message]:
    """Convert the messages at `places` to entries of the conversation record."""
    return [message for at in places if (message := _message(messages[at])) is not None]


def _message(item: Any) -> Message | None:
    """Convert `item` to an entry of the conversation record; `None` if it is not a message."""
    fields = _fields(item)
    role = fields.get("role")
    if not isinstance(role, str):
        return None
    content = fields.get("content")
    if content is None:
        content = "\n".join(map(str, fields.get("tool_results") or ()))
    elif isinstance(content, (list, tuple)):
        content = [_block(each) for each in content]
    else:
        content = str(content)
    when = parsed_time(fields.get("timestamp"))
    known: dict[str, Any] = {} if when is None else {"created_at": when}
    return Message(
        # llmfy's messages have ids. A dict without one gets a new id: concurrent runs may say the
        # same thing.
        message_id=str(fields.get("id") or new_id()),
        role=recorded_role(str(role)),
        content=content,
        tool_calls=tuple(_fields(each) or each for each in fields.get("tool_calls") or ()),
        metadata={name: value for name in _METADATA if (value := fields.get(name)) is not None},
        **known,
    )


def _fields(item: Any) -> Mapping[str, Any]:
    """Return the fields of a message, which is an object or a dict."""
    dump = getattr(item, "model_dump", None)
    if dump is not None:
        item = dump(mode="json")
    return item if isinstance(item, Mapping) else {}


def _block(content: Any) -> Any:
    """Convert a content block so that its text is where Clew searches."""
    block = dict(_fields(content)) or content
    if isinstance(block, dict) and block.get("type", "text") == "text" and isinstance(block.get("value"), str):
        block["text"] = block.pop("value")
    return block
