"""Token counts, under the names that providers use for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_INPUT: Final = (
    "input_tokens",
    "prompt_tokens",
    "prompt_token_count",
    "promptTokenCount",
    "inputTokens",
    "request_tokens",
)
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "outputTokens",
    "response_tokens",
)
_MORE_INPUT: Final = (
    # Anthropic counts what it reads from and writes to its cache apart.
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "tool_use_prompt_token_count",
    "toolUsePromptTokenCount",
)
_MORE_OUTPUT: Final = ("thoughts_token_count", "thoughtsTokenCount")
NAMES: Final = frozenset({*_INPUT, *_OUTPUT, *_MORE_INPUT, *_MORE_OUTPUT})
"""Every field that counts tokens."""


def counted(usage: Any) -> Mapping[str, int] | None:
    """The counts in `usage` as `input_tokens` and `output_tokens`; `None` if it has none.

    The first known name counts, and tokens that the provider counts separately are added. Negative
    numbers and values that are not integers are ignored.
    """
    if not isinstance(usage, Mapping):
        return None
    found: dict[str, int] = {}
    for name, names, more in (("input_tokens", _INPUT, _MORE_INPUT), ("output_tokens", _OUTPUT, _MORE_OUTPUT)):
        first = next((count for each in names if (count := _count(usage, each)) is not None), None)
        others = [count for each in more if (count := _count(usage, each)) is not None]
        if first is not None or others:
            found[name] = (first or 0) + sum(others)
    return found or None


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    count = usage.get(name)
    return count if type(count) is int and count >= 0 else None
