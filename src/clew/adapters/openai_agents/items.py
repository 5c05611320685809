"""Lossless conversion between items of the Responses API and Clew messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from clew.adapters.texts import recorded_role
from clew.errors import ConfigError
from clew.model.message import Message

ITEMS: Final = "items"
"""The field of the state with the session's items."""
MESSAGE_IDS: Final = "message_ids"
"""The field with each item's id in the conversation record; `None` for items that are not recorded.
"""
ITEM: Final = "openai.item"
"""Metadata key for the item without the field that became the message's content."""
SHOWN: Final = "openai.content"
"""Metadata key for the name of that field; absent if the content was built for searching."""

_CONTENT_FIELDS: Final = ("content", "output", "summary")
"""Fields with the content of messages, tool results and reasoning."""
_SPOKEN_FIELDS: Final = frozenset(
    {"name", "arguments", "input", "code", "action", "query", "queries", "command", "commands", "output", "results"}
    | {"content", "summary", "text", "refusal", "error"}
)
"""Fields that searches should find, in items of any type.

Ids, statuses and encrypted contents are left out.
"""


def message_of(item: Mapping[str, Any], message_id: str) -> Message:
    """Convert `item` to an entry of the conversation record. `item_of` converts it back."""
    kind = str(item.get("type") or "message")
    shown = next((name for name in _CONTENT_FIELDS if _is_content(item.get(name))), None)
    metadata: dict[str, Any] = {ITEM: dict(item)}
    if shown is not None:
        # Stored once, as the content. The empty field keeps the order of the fields.
        metadata = {ITEM: {**item, shown: None}, SHOWN: shown}
    return Message(
        message_id=message_id,
        role=_role(item, kind),
        content=item[shown] if shown is not None else "\n".join(_spoken(item)),
        tool_calls=({"id": item.get("call_id") or item.get("id"), "name": item.get("name") or kind},)
        if kind.endswith("_call")
        else (),
        metadata=metadata,
    )


def item_of(message: Message) -> dict[str, Any] | None:
    """Return the item that `message` was made from; `None` if there was none, or it is damaged."""
    item = message.metadata.get(ITEM)
    if not isinstance(item, Mapping):
        return None
    shown = message.metadata.get(SHOWN)
    return {**item, shown: message.content} if shown else dict(item)


def is_user_message(item: Mapping[str, Any]) -> bool:
    """Return whether `item` begins a turn."""
    return item.get("role") == "user" and item.get("type", "message") == "message"


def _role(item: Mapping[str, Any], kind: str) -> str:
    role = item.get("role")
    if isinstance(role, str) and role:
        return recorded_role(role)
    return "tool" if kind.endswith("_output") else "assistant"


def _is_content(value: Any) -> bool:
    """Return whether `value` can be a message's content: text, or blocks with text."""
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and all(isinstance(block, dict) and "text" in block for block in value)
    )


def _spoken(value: Any, *, spoken: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        # A data URL is an image, not text.
        if spoken and value and not value.startswith("data:"):
            yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _spoken(inner, spoken=name in _SPOKEN_FIELDS)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _spoken(inner, spoken=spoken)


def checked_item(item: Any, at: int) -> dict[str, Any]:
    """Return a copy of an item. Raises ConfigError if it is not a dict."""
    if not isinstance(item, Mapping):
        raise ConfigError(
            f"items[{at}] must be a dict, not {type(item).__name__}; a run item gives one: to_input_item()"
        )
    return dict(item)


def messages_of(items: Sequence[Mapping[str, Any]], ids: Sequence[str | None]) -> list[Message]:
    """Convert those items that have an id in the conversation record."""
    return [message_of(item, key) for item, key in zip(items, ids, strict=True) if key is not None]


def items_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Convert those messages that are items."""
    return [item for message in messages if (item := item_of(message)) is not None]


def rebuilt(state: Any, messages: list[Message]) -> dict[str, Any]:
    """Return the state of the newest intact checkpoint, updated from the conversation record."""
    rest = state if isinstance(state, dict) else {}
    recorded = {each.message_id: item for each in messages if (item := item_of(each)) is not None}
    pairs = zip(rest.get(ITEMS, []), rest.get(MESSAGE_IDS, []), strict=False)
    kept = [(item, key) for item, key in pairs if key is None or key in recorded]
    known = {key for _, key in kept}
    kept += [(item, key) for key, item in recorded.items() if key not in known]
    return {**rest, ITEMS: [item for item, _ in kept], MESSAGE_IDS: [key for _, key in kept]}
