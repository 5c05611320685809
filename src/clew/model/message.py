"""Messages: the conversation record, which can be searched without loading states."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from clew.clock import SYSTEM_CLOCK, Clock
from clew.ids import new_id
from clew.model.dict_record import DictRecord
from clew.model.quick import quick

DAMAGED_ROLE: Final = "damaged"
"""The role of a listed message whose record can't be read."""
UNUSABLE_ROLES: Final = frozenset({"", DAMAGED_ROLE})
"""Roles that no message is stored with."""
_SPELLINGS: Final[Mapping[str, str]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "tool",
}
"""The role that Clew uses for each name, in lower case, that providers and frameworks have for it."""
USUAL_ROLES: Final = frozenset(_SPELLINGS.values())
"""The roles that Clew knows. Any other role is kept as it is."""
_NOT_GIVEN: Final = datetime.min.replace(tzinfo=UTC)
"""Stands for a `created_at` that was left out; compared by identity."""


class _Timed(DictRecord):
    """A record that remembers whether its time was left out. This is not a field, because fields are data
    that others store.

    Copies don't remember it: they get an explicit time.
    """

    __slots__ = ("_took_time",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(_Timed):
    """A message. `content` is text or a list of blocks (`{"type": "text", "text": …}`).

    A message that a provider or framework wrote is kept whole in `raw`, and `format` names its format
    ("openai", "openai-responses", "anthropic", "gemini", "langchain", "pydantic-ai"). The other fields are
    derived from it: `tool_results` are mappings with `tool_call_id`, `name`, `content` and `is_error`;
    `usage` has `input_tokens` and `output_tokens`.

    `role` is "user", "assistant", "system", "developer" or "tool". Other names of these ("human", "ai", "model", "function")
    and other spellings ("User") become one of them. A role that Clew doesn't know is kept as it is.

    Without `created_at`, a message gets the time at which it is made. If the checkpointer that stores it has a
    `clock` of its own, that clock's time is stored instead.
    """

    message_id: str = field(default_factory=new_id)
    role: str
    content: str | Sequence[Any] = ""
    tool_calls: tuple[Any, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=lambda: _NOT_GIVEN)
    run_id: str | None = None
    tool_results: tuple[Any, ...] = ()
    usage: Mapping[str, int] | None = None
    raw: Mapping[str, Any] | None = None
    format: str | None = None

    _times: ClassVar[frozenset[str]] = frozenset({"created_at"})
    _tuples: ClassVar[frozenset[str]] = frozenset({"tool_calls", "tool_results"})
    _given: ClassVar[frozenset[str]] = frozenset({"content", "tool_calls", "metadata", "tool_results", "usage", "raw"})

    def __post_init__(self) -> None:
        # A role of another type may have no hash. It is refused when the message is stored.
        if self.role.__class__ is not str or self.role not in USUAL_ROLES:
            object.__setattr__(self, "role", usual_role(self.role))
        if self.created_at is _NOT_GIVEN:
            object.__setattr__(self, "created_at", SYSTEM_CLOCK.now())
            object.__setattr__(self, "_took_time", True)

    def text(self) -> str:
        """The plain text of the content."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(text for block in self.content if (text := _block_text(block)))

    def search_text(self) -> str:
        """The text to search: the message's text, its tool calls' names and arguments, and tools' results."""
        text = self.text()
        if not self.tool_calls and not self.tool_results:
            return text
        results = [result["content"] for result in self.tool_results if isinstance(result.get("content"), str)]
        # A chat message of a tool has its result as its text.
        return "\n".join([text, *_called(self.tool_calls), *(result for result in results if result != text)])


def usual_role(role: Any) -> Any:
    """The usual name of a role; a role that is not known stays as it is."""
    return _SPELLINGS.get(role.lower(), role) if isinstance(role, str) else role


quick_message: Final = quick(Message)


def timed(message: Message, clock: Clock) -> Message:
    """Return the message with the time of `clock`, if none was given."""
    # The message has the system clock's time already.
    if clock is SYSTEM_CLOCK or not getattr(message, "_took_time", False):
        return message
    return replace(message, created_at=clock.now())


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping):
        for key in ("text", "content"):
            if isinstance(block.get(key), str):
                return str(block[key])
    return ""


_UNSAID: Final = frozenset({"id", "type", "index"})
"""Keys of a tool call that are not part of its name or arguments."""


def _called(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of tool calls, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _UNSAID:
                yield from _called(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _called(inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def folded(text: str) -> str:
    """`text` as searches compare it: independent of case and of the composition of accents.

    Every storage stores this form and searches it for a substring, so all of them find the same.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
