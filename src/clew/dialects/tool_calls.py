"""Pairs of tool calls and results: which call each result answers, by their positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Final

from msgspec import Struct

from clew.dialects.parts import Other, Parsed, Part, ToolCall, ToolResult

_ANY_TOOL: Final = ("any",)


class Call(Struct, eq=False):
    """A call in a conversation. `call_id` is unique in it, unless messages that are passed on as they came repeat an id."""

    at: int
    """The place of its message."""
    call_id: str
    given_id: str | None
    name: str
    batch: int
    answered: bool = False


class ToolCalls:
    """The tool calls of a conversation so far, which is read message by message.

    A result goes to the oldest open call with its id; without an id, to that of its tool's name; without either, to any.
    If several turns of the model have such a call, the latest turn counts. So an id that is used again, or a call that
    nobody answered, takes no result from another call. Further results with an id go to the latest call with this id.
    """

    def __init__(self, conversation: Iterable[Parsed], *, as_given: Iterable[Parsed] = ()) -> None:
        """Begin before the first message. `as_given` are the messages of the conversation whose ids can't be
        changed."""
        self._given = {call.call_id for parsed in conversation for call in parsed.calls()}
        self._used = {call.call_id for parsed in as_given for call in parsed.calls()}
        self._open: dict[Hashable, list[Call]] = defaultdict(list)
        self._latest: dict[str, Call] = {}
        self._made = self._batch = 0

    def follow(self, at: int, parsed: Parsed, *, as_given: bool) -> list[Call | None]:
        """Return the call of each part of the next message: its own, or the one that it answers.

        `None` stands for other parts, and for results without a call. `as_given` says that the message's ids can't be
        changed.
        """
        if parsed.role != "assistant":
            self._batch += 1
        return [self._call_of(part, at, as_given) for part in parsed.parts]

    def _call_of(self, part: Part, at: int, as_given: bool) -> Call | None:
        if isinstance(part, ToolCall):
            return self._called(at, part.call_id, part.name, as_given)
        if isinstance(part, ToolResult):
            return self._answered(part.call_id, part.name, as_given)
        if isinstance(part, Other) and part.calls is not None:
            call = Call(at=at, call_id=part.calls, given_id=part.calls, name="", batch=self._batch)
            return self._opened(call)
        if isinstance(part, Other) and part.answers is not None:
            return self._answered(part.answers, None, True)
        return None

    def _called(self, at: int, given_id: str | None, name: str, as_given: bool) -> Call:
        reused = given_id in self._used and not as_given
        call_id = self._fresh_id() if given_id is None or reused else given_id
        self._used.add(call_id)
        call = self._opened(Call(at=at, call_id=call_id, given_id=given_id, name=name, batch=self._batch))
        keys: list[Hashable] = [("name", name), _ANY_TOOL]
        if given_id is None:
            keys += [("without id", name), ("without id", None)]
        for key in keys:
            self._open[key].append(call)
        return call

    def _opened(self, call: Call) -> Call:
        """Let results find the call by its ids."""
        for each in {call.call_id, call.given_id or call.call_id}:
            self._open["id", each].append(call)
            self._latest[each] = call
        return call

    def _fresh_id(self) -> str:
        while True:
            self._made += 1
            if (made := f"call_{self._made}") not in self._given:
                return made

    def _answered(self, call_id: str | None, name: str | None, as_given: bool) -> Call | None:
        if call_id is None:
            call = self._oldest_open(("name", name) if name is not None else _ANY_TOOL)
        else:
            # Clew made the ids of calls that came without one. In another window of the conversation, they differ.
            call = self._latest_with(call_id) or self._oldest_open(("without id", name))
        if call is None:
            return None
        call.answered = True
        if as_given and call_id == call.given_id is not None:
            call.call_id = call.given_id
        return call

    def _latest_with(self, call_id: str) -> Call | None:
        latest, found = self._latest.get(call_id), self._oldest_open(("id", call_id))
        return found if latest is not None and found is not None and found.batch == latest.batch else latest

    def _oldest_open(self, key: Hashable) -> Call | None:
        """The oldest call under `key` that has no result, of the latest turn that has one."""
        calls = self._open.get(key, [])
        while calls and calls[-1].answered:
            calls.pop()
        found = calls[-1] if calls else None
        for call in reversed(calls):
            if found is None or call.batch != found.batch:
                break
            found = found if call.answered else call
        return found
