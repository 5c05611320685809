"""Neutral parts of a message: the terms in which one provider's format is turned into another's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from clew.errors import shown
from clew.model.message import USUAL_ROLES, usual_role

Role = Literal["system", "user", "assistant", "tool"]
MediaKind = Literal["image", "audio", "video", "file"]


class Text(Struct, frozen=True):
    """Text that was said."""

    text: str


class Instruction(Text, frozen=True):
    """A system prompt inside of a user's request."""


class Reasoning(Struct, frozen=True):
    """A model's reasoning before its answer. Signed or encrypted by its provider, so no other provider takes it."""

    text: str


class Media(Struct, frozen=True, kw_only=True):
    """An image, a recording or a file: one of `data` (base64), `url` and `file_id` is set.

    `uploaded_to` names the provider whose `file_id` it is. `detail` says how closely a model looks at an image; `None` leaves
    it to the model.
    """

    kind: MediaKind
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    name: str | None = None
    uploaded_to: Literal["openai"] | None = None
    detail: str | None = None

    @property
    def data_url(self) -> str | None:
        """The `url`, or `data` as a data URL."""
        if self.data is None:
            return self.url
        return f"data:{self.mime_type or 'application/octet-stream'};base64,{self.data}"


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call that the model made. `arguments` is a mapping, or text if the model wrote no valid JSON object.

    A `custom` tool takes any text: OpenAI's custom tools.
    """

    call_id: str | None
    name: str
    arguments: Any
    custom: bool = False


class ToolResult(Struct, frozen=True, kw_only=True):
    """A tool's answer to a call. `custom` says that the call was one of a custom tool."""

    call_id: str | None
    name: str | None
    parts: tuple[Text | Media | Other, ...]
    is_error: bool = False
    custom: bool = False


class Other(Struct, frozen=True):
    """A part that only its own provider knows, such as a search that ran on its servers.

    Some of them are a call that the client answers (`computer_call`), and its answer: `calls` and `answers` are the id.
    """

    kind: str
    calls: str | None = None
    answers: str | None = None


Part = Text | Reasoning | Media | ToolCall | ToolResult | Other


class Parsed(Struct, frozen=True, kw_only=True):
    """A message in neutral terms. `usage` has `input_tokens` and `output_tokens`, if the message carries them.

    `developer` marks a system message that has OpenAI's role "developer".
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    usage: Mapping[str, int] | None = None
    developer: bool = False

    def text(self) -> str:
        """The text that was said, without reasoning, tool calls and tool results."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text) and part.text)

    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def result_text(result: ToolResult) -> str:
    """The text of a tool's answer."""
    return "\n".join(part.text for part in result.parts if isinstance(part, Text))


def loaded_arguments(arguments: Any) -> Any:
    """Arguments as data: JSON text that holds an object becomes a mapping; anything else stays as it is."""
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            loaded = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        return loaded if isinstance(loaded, dict) else arguments
    return {} if arguments is None else arguments


def dumped(value: Any) -> str:
    """`value` as JSON text, as providers expect arguments and results; text stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        # Not JSON: keys of other types, a cycle, or nested too deeply.
        return shown(value)


def as_list(value: Any) -> list[Any]:
    """`value` if it is a list of blocks; nothing otherwise."""
    return list(value) if isinstance(value, (list, tuple)) else []


def trimmed_list(blocks: Any, keep: Sequence[bool]) -> Any:
    """The blocks that are kept. `keep` may have flags for further parts behind them."""
    return [block for block, stays in zip(blocks, keep, strict=False) if stays]


def as_mapping(value: Any) -> Mapping[str, Any]:
    """`value` if it is a mapping; an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def as_text(value: Any) -> str | None:
    """`value` if it is text that is not empty."""
    return value if isinstance(value, str) and value else None


def as_base64(value: Any) -> str | None:
    """Base64 as most providers write it, also if it came in its URL-safe form."""
    return value.replace("-", "+").replace("_", "/") if isinstance(value, str) and value else None


def from_data_url(url: Any, kind: MediaKind, **more: Any) -> Media:
    """Media that a URL names; a data URL is taken apart."""
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url:
        head, _, data = url.partition(",")
        return Media(kind=kind, mime_type=head[5:].partition(";")[0] or None, data=data, **more)
    return Media(kind=kind, url=as_text(url), **more)


def role_of(name: Any) -> Role:
    """The neutral role that a message's role means. A role that is not known counts as a user's."""
    role = usual_role(name)
    if role == "developer":
        return "system"
    return role if isinstance(role, str) and role in USUAL_ROLES else "user"  # type: ignore[return-value]


def is_developer(name: Any) -> bool:
    """Return whether a message's role is OpenAI's "developer"."""
    return bool(usual_role(name) == "developer")


def detail_of(value: Any) -> str | None:
    """OpenAI's detail of an image; `None` if it is the default."""
    return None if value == "auto" else as_text(value)


def media_kind(mime_type: Any) -> MediaKind:
    """The kind of media that a MIME type names."""
    main = mime_type.partition("/")[0] if isinstance(mime_type, str) else ""
    return main if main in ("image", "audio", "video") else "file"  # type: ignore[return-value]
