"""Messages: the conversation record, searchable on its own."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from clew.clock import SYSTEM_CLOCK
from clew.ids import new_id
from clew.model.plain import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Plain):
    """One entry of a conversation. `content` is text or a list of blocks (`{"type": "text", "text": …}`)."""

    message_id: str = field(default_factory=new_id)
    role: str
    content: str | Sequence[Any] = ""
    tool_calls: tuple[Any, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=SYSTEM_CLOCK.now)
    run_id: str | None = None

    _times: ClassVar[frozenset[str]] = frozenset({"created_at"})
    _tuples: ClassVar[frozenset[str]] = frozenset({"tool_calls"})

    def text(self) -> str:
        """The plain text of the content."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(text for block in self.content if (text := _block_text(block)))

    def search_text(self) -> str:
        """What a search looks at: the text, and which tools were called with what."""
        if not self.tool_calls:
            return self.text()
        return "\n".join([self.text(), *_called(self.tool_calls)])


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping):
        for key in ("text", "content"):
            if isinstance(block.get(key), str):
                return str(block[key])
    return ""


_UNSAID: Final = frozenset({"id", "type", "index"})
"""What a call of a tool has beside its name and its arguments."""


def _called(value: Any) -> Iterator[str]:
    """The texts and numbers of calls, at any depth."""
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
    """`text` in the form that searches compare, so that case and composition of accents don't matter.

    Every storage stores and searches this form by plain substring: that is what makes them all agree.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
