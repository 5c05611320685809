"""The formats: which one a message has, and how each is read and written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from clew.dialects import anthropic, gemini, langchain, openai, pydantic_ai, responses
from clew.dialects.conversation import Trim
from clew.dialects.parts import Parsed, as_list
from clew.errors import ConfigError, shown

Dialect = Literal["openai", "openai-responses", "anthropic", "gemini", "langchain"]
"""The formats that a conversation can be rendered in."""

_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Parsed]]] = {
    each.NAME: each.read for each in (openai, responses, anthropic, gemini, langchain, pydantic_ai)
}
_WRITTEN: Final = (openai, responses, anthropic, gemini, langchain)
WRITERS: Final = {each.NAME: each.write for each in _WRITTEN}
TRIMMERS: Final[Mapping[str, Trim]] = {each.NAME: each.trim for each in _WRITTEN}


def dialect_of(raw: Mapping[str, Any]) -> str | None:
    """The name of the format that `raw` has; `None` if it is not a message in a known format."""
    if raw.get("kind") in ("request", "response") and isinstance(raw.get("parts"), (list, tuple)):
        return pydantic_ai.NAME
    if langchain.recognises(raw):
        return langchain.NAME
    if isinstance(raw.get("parts"), (list, tuple)):
        return gemini.NAME
    kind = raw.get("type")
    if isinstance(kind, str) and kind:
        if kind == "message" and "stop_reason" in raw:
            return anthropic.NAME
        if kind == "message" or ("role" not in raw and responses.is_item(kind)):
            return responses.NAME
    if not isinstance(raw.get("role"), str):
        return None
    blocks = as_list(raw.get("content"))
    if "stop_reason" in raw or any(anthropic.is_block(block) for block in blocks):
        return anthropic.NAME
    if any(responses.is_block(block) for block in blocks):
        return responses.NAME
    return openai.NAME


def parse(raw: Mapping[str, Any], dialect: str) -> Parsed:
    """Parse `raw` into neutral terms. `raw` may contain anything: content that its format does not allow
    becomes an unknown part."""
    reader = _READERS.get(dialect, openai.read)
    return reader(raw)


def plain(message: Any) -> Mapping[str, Any] | None:
    """A provider's message as the dict that its own package makes of it; `None` if it is not one.

    Lists in a dict may hold a provider's objects, as in `{"role": "assistant", "content": response.content}`.
    """
    if isinstance(message, Mapping):
        return {key: _dumped_items(value) for key, value in message.items()}
    found = _dumped(message)
    return found if isinstance(found, Mapping) else None


def _dumped_items(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(hasattr(each, "model_dump") for each in value):
        return [each if (found := _dumped(each)) is None else found for each in value]
    return value


def _dumped(value: Any) -> Any:
    """Return the object as data, by its own package; `None` if it is not a provider's object."""
    if isinstance(value, type):
        return None
    packages = {each.__module__.partition(".")[0] for each in type(value).__mro__}
    if "pydantic_ai" in packages:
        return sys.modules["pydantic_ai.messages"].ModelMessagesTypeAdapter.dump_python([value], mode="json")[0]
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        return None
    if "langchain_core" in packages:
        return dump()
    if "google" in packages:
        return dump(mode="json", exclude_none=True)
    return dump(mode="json", exclude_unset=True, by_alias=True)


def checked_dialect(name: Any) -> str:
    """Return `name` if a conversation can be rendered in this format; otherwise raise ConfigError."""
    if not isinstance(name, str) or name not in WRITERS:
        raise ConfigError(f"unknown format {shown(name)}; as_ takes {', '.join(map(repr, get_args(Dialect)))}")
    return name
