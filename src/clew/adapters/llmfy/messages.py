"""llmfy's messages in Clew's conversation record: each once, at the save that brings it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from clew.clock import SYSTEM_CLOCK
from clew.model.message import Message

_TOLD: Final = ("name", "tool_call_id", "request_call_id")
_SESSIONS: Final = 1000
"""Of how many sessions this process remembers what is recorded; of others, all is written again in its place."""


class Record:
    """What of each session's messages is in the conversation record already."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, frozenset[bytes]] = OrderedDict()

    def new(self, session_id: str, messages: Any) -> list[Message]:
        """Those of `messages` that are not recorded like this."""
        if not isinstance(messages, list):
            return []
        known = self._known.get(session_id, frozenset())
        fresh = [(at, item) for at, item in enumerate(messages) if _fingerprint(item) not in known]
        return [message for at, item in fresh if (message := _message(item, at)) is not None]

    def note(self, session_id: str, messages: Any) -> None:
        """Remember that `messages` are recorded."""
        if isinstance(messages, list):
            self._known.pop(session_id, None)
            self._known[session_id] = frozenset(map(_fingerprint, messages))
            while len(self._known) > _SESSIONS:
                self._known.popitem(last=False)

    def forget(self, session_id: str | None = None) -> None:
        """Forget a session that was deleted, or all."""
        if session_id is None:
            self._known.clear()
        else:
            self._known.pop(session_id, None)


def _fingerprint(item: Any) -> bytes:
    # It has the id and the text in it, and an edit changes it. What tools return is hostile: no two may be made to look alike.
    return blake2b(repr(item).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _message(item: Any, at: int) -> Message | None:
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
        # llmfy gives every message an id; a dict of the user's may have only its place.
        message_id=str(said.get("id") or f"llmfy-{at}"),
        role=str(role),
        content=content,
        tool_calls=tuple(_fields(each) or each for each in said.get("tool_calls") or ()),
        metadata={name: told for name in _TOLD if (told := said.get(name)) is not None},
        created_at=_time(said.get("timestamp")),
    )


def _fields(item: Any) -> Mapping[str, Any]:
    """The fields of a message: of the object itself, of what llmfy 0.11 writes for one, or of a plain dict."""
    dump = getattr(item, "model_dump", None)
    if dump is not None:
        item = dump(mode="json")
    if isinstance(item, Mapping):
        inner = item.get("data") if "__type__" in item else None
        return inner if isinstance(inner, Mapping) else item
    return {}


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
