"""Windows of a conversation: its last messages, and as many of them as fit into a number of tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpointer.arguments import checked_limit
from clew.dialects.messages import answers_in
from clew.errors import ConfigError, shown
from clew.model.config import checked_text
from clew.model.message import Message
from clew.model.queries import MessageQuery
from clew.validation import checked_number

CountTokens = Callable[[Message], int]
"""Counts the tokens of a message, as the caller's model does."""
Read = Callable[[MessageQuery], Awaitable[list[Message]]]

_FIRST_PAGE, _LARGEST_PAGE = 32, 1_000
_SYSTEM_AT_ONCE: Final = 8


class Window(Struct, frozen=True, kw_only=True):
    """The part of a conversation that a call asks for."""

    offset: int = 0
    limit: int | None = None
    last: int | None = None
    before: str | None = None
    after: str | None = None
    max_tokens: int | None = None
    count_tokens: CountTokens | None = None

    def applied_to(self, query: MessageQuery) -> MessageQuery:
        """Return `query` for this part, without the bound on tokens."""
        bounds = {"after": self.after, "before": self.before}
        if self.last is not None:
            return replace(query, **bounds, newest=True, offset=0, limit=self.last)
        return replace(query, **bounds, offset=self.offset, limit=self.limit)


def checked_window(
    *,
    search: str | None,
    offset: int,
    limit: int | None,
    last: int | None,
    before: Message | str | None,
    after: Message | str | None,
    max_tokens: int | None,
    count_tokens: CountTokens | None,
) -> Window:
    """Return the part that the arguments describe. Raises ConfigError for those that exclude each other."""
    checked_limit(offset, "offset")
    checked_limit(limit)
    checked_limit(last, "last")
    backwards = {"last": last, "before": before, "max_tokens": max_tokens}
    given = [name for name, value in backwards.items() if value is not None]
    if given and (limit is not None or offset):
        raise ConfigError(
            f"limit and offset count from the oldest message, and {given[0]} from the newest: use last= instead of limit="
        )
    if after is not None and offset:
        raise ConfigError("offset counts from the oldest message, and after names one: leave out one of them")
    if (max_tokens is None) != (count_tokens is None):
        raise ConfigError(
            "max_tokens needs count_tokens, a function that counts the tokens of a message, and vice versa"
        )
    if max_tokens is not None:
        checked_number("max_tokens", max_tokens, "whole number", at_least=0)
        if not callable(count_tokens):
            raise ConfigError(f"count_tokens must be a function of a message, not {shown(count_tokens)}")
        if search:
            raise ConfigError("a search finds single messages, and max_tokens a conversation: leave out one of them")
    return Window(
        offset=offset or 0,
        limit=limit,
        last=last,
        before=_cursor(before, "before"),
        after=_cursor(after, "after"),
        max_tokens=max_tokens,
        count_tokens=count_tokens,
    )


def _cursor(message: Message | str | None, name: str) -> str | None:
    if message is None:
        return None
    return checked_text(name, message.message_id if isinstance(message, Message) else message)


async def fitting(query: MessageQuery, window: Window, read: Read) -> list[Message]:
    """Return the newest messages that fit into `window.max_tokens`, in order.

    The system messages at the beginning of the conversation are kept, unless `after` leaves the
    beginning out. A tool's result is kept only with its call. Reads from the newest message on, and
    no further than needed.
    """
    assert window.max_tokens is not None
    budget = window.max_tokens
    system = [] if window.after is not None else await _opening(query, window, read)
    for message in system:
        budget -= _count(window, message)
    if budget < 0:
        raise ConfigError(
            f"the system messages of thread {query.thread_id!r} have {window.max_tokens - budget} tokens, which is more "
            f"than max_tokens={window.max_tokens}"
        )
    opening = {message.message_id for message in system}
    kept: list[Message] = []
    asked = replace(query, after=window.after, before=window.before, newest=True, offset=0, limit=_FIRST_PAGE)
    while True:
        page = await read(asked)
        for message in reversed(page):
            if message.message_id in opening or len(kept) == window.last:
                return system + _with_calls(kept[::-1])
            budget -= _count(window, message)
            if budget < 0:
                return system + _with_calls(kept[::-1])
            kept.append(message)
        if len(page) < (asked.limit or 0):
            return system + _with_calls(kept[::-1])
        asked = replace(asked, before=page[0].message_id, limit=min(2 * (asked.limit or 0), _LARGEST_PAGE))


def _with_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without the tool results whose calls are missing.

    If the messages begin inside a turn whose calls were cut off, all remaining results of this turn are left out. A
    result that follows a later user message is left out alone, because its call may be any number of messages before
    it, or may not exist. A message with such a result and other content can't be left out: then the window begins
    after it.
    """
    found = answers_in(messages)
    turn = next((at for at, each in enumerate(found) if each.by_user), len(found))
    begin, late = 0, set[int]()
    for at, each in enumerate(found):
        missing = [call is None or call < begin for call in each.calls]
        if any(missing):
            if at > turn and each.only and all(missing):
                late.add(at)
            else:
                begin = at + 1
    return [message for at, message in enumerate(messages) if at >= begin and at not in late]


async def _opening(query: MessageQuery, window: Window, read: Read) -> list[Message]:
    """Return the system messages at the beginning of the conversation."""
    found: list[Message] = []
    asked = replace(query, before=window.before, limit=_SYSTEM_AT_ONCE)
    while True:
        page = await read(asked)
        for message in page:
            if message.role not in ("system", "developer"):
                return found
            found.append(message)
        if len(page) < _SYSTEM_AT_ONCE:
            return found
        asked = replace(asked, after=page[-1].message_id)


def _count(window: Window, message: Message) -> int:
    assert window.count_tokens is not None
    count = window.count_tokens(message)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ConfigError(f"count_tokens must return a whole number of tokens; it returned {shown(count)}")
    return count
