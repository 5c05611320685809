"""Conversations on their way into another format: tool calls paired with their results, and a list of what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.dialects.parts import Instruction, Media, Other, Parsed, Part, Reasoning, Text, ToolCall, ToolResult
from clew.dialects.tool_calls import Call, ToolCalls
from clew.errors import shown


class Placed(Struct, frozen=True, kw_only=True):
    """A message and its place in the conversation. `raw` is set if the message already has the format that is wanted.

    `piece` is the number of messages that were split off a stored message before this one.
    """

    message_id: str
    parsed: Parsed
    raw: Any = None
    piece: int = 0


class Conversation(list[Any]):
    """Messages in a provider's format.

    `system` is the text of system messages, for formats that take it as a parameter of the call (Anthropic's `system`,
    Gemini's `system_instruction`). `left_out` lists what the format can't express, a line for each.
    """

    def __init__(
        self, messages: Sequence[Any] = (), *, system: str | None = None, left_out: Sequence[str] = ()
    ) -> None:
        super().__init__(messages)
        self.system = system
        self.left_out = tuple(left_out)


class Losses:
    """Collects what a format has no place for."""

    class Message:
        """The losses of one message."""

        def __init__(self, losses: Losses, placed: Placed) -> None:
            self._losses, self._placed = losses, placed

        def drop(self, part: Part, where: str = "") -> None:
            """Note that `part` was left out."""
            self._losses.add(self._placed, f"{_named(part)} {where}".strip())

        def lack(self, what: str) -> None:
            """Note that `what`, which is less than a part, was left out."""
            self._losses.add(self._placed, what)

        def lack_error(self, result: ToolResult) -> None:
            """Note that the format can't say that a tool failed, if `result` says so."""
            if result.is_error:
                self.lack(f"the mark that the result of tool call {result.call_id!r} is an error")

        def lack_custom(self, call: ToolCall) -> None:
            """Note that the format has no custom tools, if `call` is one of them."""
            if call.custom:
                self.lack(f"the type 'custom' of tool call {call.call_id!r} ({call.name})")

        def lack_detail(self, media: Media) -> None:
            """Note that the format can't say how closely to look at an image, if `media` says so."""
            if media.detail is not None:
                self.lack(f"the detail {shown(media.detail)} of an image")

        def lack_name(self) -> None:
            """Note that the format can't name the speaker, if the message does."""
            parsed = self._placed.parsed
            if parsed.name is not None and parsed.role != "tool":
                self.lack(f"the speaker's name {shown(parsed.name)}")

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self.texts: list[str] = []
        self.instructions: list[str] = []

    def at(self, placed: Placed) -> Losses.Message:
        return Losses.Message(self, placed)

    def add(self, placed: Placed, what: str) -> None:
        """Note that `what` was left out of a message."""
        self.texts.append(f"message {placed.message_id!r}: {what} has no equal in {self._dialect!r} and was left out")

    def unpaired(self, placed: Placed, what: str) -> None:
        """Note that a call without its result, or a result without its call, was left out."""
        self.texts.append(f"message {placed.message_id!r}: {what}, so it was left out")

    def instruct(self, text: str) -> None:
        """Take a system message's text out of the conversation, for the call's own parameter."""
        if text and text not in self.instructions:
            self.instructions.append(text)


def _named(part: Part) -> str:
    if isinstance(part, Reasoning):
        return "the model's reasoning"
    if isinstance(part, Media):
        return f"media ({part.mime_type or part.kind}{', by file id' if part.file_id is not None else ''})"
    return f"a part of type {part.kind!r}" if isinstance(part, Other) else type(part).__name__


Trim = Callable[[Any, Sequence[bool]], Any]
"""Makes a message without some of its parts out of a message in its own format; the flags say which parts it keeps."""


def paired(conversation: Sequence[Placed], losses: Losses, trim: Trim) -> list[Placed]:
    """The conversation with an id for each tool call and a result for each call, as providers demand.

    Calls without ids (Gemini's) get one, and so do calls with an id that an earlier call has, unless they are passed on as
    they came. A result without a call is left out. So is a call that nobody answered, unless it is among the last messages:
    then its result is still to come. `ToolCalls` says which result belongs to which call. `trim` leaves them out of messages
    that are passed on as they came.
    """
    split = [part for placed in conversation for part in _split(placed)]
    given = [placed.parsed for placed in split if placed.raw is not None]
    tool_calls = ToolCalls([placed.parsed for placed in split], as_given=given)
    calls = [tool_calls.follow(at, each.parsed, as_given=each.raw is not None) for at, each in enumerate(split)]
    custom = _custom_calls(split, calls)
    open_from = _open_tail(split)
    kept: list[Placed] = []
    for at, placed in enumerate(split):
        keep = [True] * len(placed.parsed.parts)
        for place, (part, call) in enumerate(zip(placed.parsed.parts, calls[at], strict=True)):
            if isinstance(part, ToolResult) and call is None:
                losses.unpaired(placed, f"the result of tool call {part.call_id!r} has no call in what was asked for")
                keep[place] = False
            elif isinstance(part, ToolCall) and call is not None and not call.answered and at < open_from:
                losses.unpaired(placed, f"tool call {call.call_id!r} ({part.name}) has no result")
                keep[place] = False
        raw = placed.raw
        if raw is not None and not all(keep):
            _drop_last_thoughts(placed, keep, losses)
            raw = trim(raw, keep) if any(keep) else None
        parts = [
            _identified(part, call, custom)
            for part, call, stays in zip(placed.parsed.parts, calls[at], keep, strict=True)
            if stays
        ]
        if parts or not placed.parsed.parts:
            kept.append(replace(placed, raw=raw, parsed=replace(placed.parsed, parts=tuple(parts))))
    return _joined(kept)


def _drop_last_thoughts(placed: Placed, keep: list[bool], losses: Losses) -> None:
    """Leave out the reasoning that led to nothing but calls that are left out: providers refuse messages that end with
    it."""
    for place in range(len(keep) - 1, -1, -1):
        if keep[place]:
            if not isinstance(placed.parsed.parts[place], Reasoning):
                return
            losses.unpaired(placed, "the model's reasoning led to a tool call that has no result")
            keep[place] = False


def _custom_calls(conversation: Sequence[Placed], calls: Sequence[Sequence[Call | None]]) -> set[Call | None]:
    """The calls of custom tools."""
    return {
        call
        for placed, found in zip(conversation, calls, strict=True)
        for part, call in zip(placed.parsed.parts, found, strict=True)
        if isinstance(part, ToolCall) and part.custom
    }


def _identified(part: Part, call: Call | None, custom: Set[Call | None]) -> Part:
    """A call with its id, and a result with its call's id, the name of its tool and whether this is a custom tool."""
    if isinstance(part, ToolCall) and call is not None:
        return part if part.call_id == call.call_id else replace(part, call_id=call.call_id)
    if isinstance(part, ToolResult) and call is not None:
        return replace(part, call_id=call.call_id, name=part.name or call.name, custom=call in custom)
    return part


class Answers(Struct, frozen=True, kw_only=True):
    """The results in a message of a conversation."""

    calls: tuple[int | None, ...]
    """For each result, the place of the message with its call; `None` if no message before it has it."""
    only: bool
    """Whether the message consists of results."""
    by_user: bool
    """Whether the message is a user's, so that a turn begins."""


def answers(conversation: Sequence[Placed]) -> list[Answers]:
    """The results in each message."""
    split = [(at, part) for at, placed in enumerate(conversation) for part in _split(placed)]
    tool_calls = ToolCalls([placed.parsed for _, placed in split])
    found: list[list[int | None]] = [[] for _ in conversation]
    for at, placed in split:
        calls = tool_calls.follow(at, placed.parsed, as_given=True)
        for part, call in zip(placed.parsed.parts, calls, strict=True):
            if _is_answer(part):
                found[at].append(None if call is None else call.at)
    return [
        Answers(
            calls=tuple(calls),
            only=len(calls) == len(placed.parsed.parts),
            by_user=placed.parsed.role == "user" and not calls,
        )
        for placed, calls in zip(conversation, found, strict=True)
    ]


def _is_answer(part: Part) -> bool:
    return isinstance(part, ToolResult) or (isinstance(part, Other) and part.answers is not None)


def _split(placed: Placed) -> list[Placed]:
    """Split a message whose parts belong to several speakers into one message for each: instructions,
    results, then the other parts in their order. A call stays before its result."""
    parts = placed.parsed.parts
    instructions = tuple(part for part in parts if isinstance(part, Instruction))
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    rest = tuple(part for part in parts if not isinstance(part, (Instruction, ToolResult)))
    if placed.raw is not None or (not instructions and not (results and any(isinstance(p, ToolCall) for p in rest))):
        return [placed]
    said = replace(placed.parsed, parts=rest)
    told = Parsed(role="system", parts=instructions)
    answered = Parsed(role="tool", parts=results)
    order = (told, said, answered) if placed.parsed.role == "assistant" else (told, answered, said)
    split: list[Placed] = []
    pieces = 0
    for parsed in order:
        if parsed.parts:
            split.append(Placed(message_id=placed.message_id, parsed=parsed, piece=pieces))
            pieces += max(1, len(parsed.results()))
    return split


def _joined(conversation: Sequence[Placed]) -> list[Placed]:
    """The conversation with the calls of one turn in one message, as most formats want them."""
    joined: list[Placed] = []
    for placed in conversation:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.raw is None
            and placed.raw is None
            and before.parsed.role == placed.parsed.role == "assistant"
            and placed.parsed.calls()
            and placed.parsed.name in (None, before.parsed.name)
        ):
            parts = before.parsed.parts + placed.parsed.parts
            joined[-1] = replace(before, parsed=replace(before.parsed, parts=parts))
        else:
            joined.append(placed)
    return joined


def _open_tail(conversation: Sequence[Placed]) -> int:
    """The place of the last message that calls tools, if nothing but results follows it; the end otherwise."""
    for at in range(len(conversation) - 1, -1, -1):
        parsed = conversation[at].parsed
        if parsed.calls():
            while at and conversation[at - 1].parsed.role == "assistant":
                at -= 1
            return at
        if not parsed.results():
            return len(conversation)
    return len(conversation)


def grouped(
    conversation: Sequence[Placed],
    losses: Losses,
    *,
    as_given: Callable[[Any], Any],
    result: Callable[[ToolResult, Losses.Message], Any],
    part: Callable[[Part, Losses.Message], Any],
    message: Callable[[str, list[Any]], Any],
) -> list[Any]:
    """The conversation in a format that takes all answers to one turn's tool calls in one message of the user, and
    system messages as a parameter of the call.

    `message` makes a message of a role ("user" or "assistant") and its parts.
    """
    written: list[Any] = []
    answers: list[Any] | None = None
    for placed in conversation:
        if placed.raw is not None:
            written.append(as_given(placed.raw))
            answers = None
            continue
        said, parsed = losses.at(placed), placed.parsed
        said.lack_name()
        if parsed.role == "system":
            losses.instruct(parsed.text())
            for each in parsed.parts:
                if not isinstance(each, Text):
                    said.drop(each)
            continue
        if results := [result(each, said) for each in parsed.results()]:
            if answers is None:
                answers = []
                written.append(message("user", answers))
            answers += results
        parts = [made for each in parsed.parts if (made := part(each, said)) is not None]
        if parts:
            answers = None
            written.append(message("assistant" if parsed.role == "assistant" else "user", parts))
    return written
