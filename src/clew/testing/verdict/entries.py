"""Entries in the content of commits: each state, message and so on names its commit.

An entry is `writer/number`, with a text derived from it. It shows which commits are in a store, and
that their content is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal

import clew
from clew.testing.verdict.history import Entry


class StrangeError(Exception):
    """Content was read that nobody wrote."""


def item(entry: str) -> dict[str, str]:
    """Return the item that represents a commit in a state."""
    return {"entry": entry, "text": text_of(entry)}


def message(entry: str) -> dict[str, str]:
    return {"message_id": entry, "role": "user", "content": text_of(entry)}


def text_of(entry: str) -> str:
    return blake2b(entry.encode()).hexdigest() * 2


def parsed(entry: str) -> Entry:
    writer, _, number = entry.partition("/")
    return int(writer), int(number)


def state_entries(
    thread: str, state: Any, *, last: int | None = None
) -> tuple[Literal["head", "log"], list[Entry] | None]:
    """Return the entries in a state. Raises StrangeError if one of the `last` ones has changed.

    The state of a thread `own-…` or `fork-…` is written as a whole, so its head has one entry.
    Other states have a log of entries.
    """
    alone = thread.startswith(("own-", "fork-"))
    view: Literal["head", "log"] = "head" if alone else "log"
    if state is None:
        return view, None
    check(state["log"][-last:] if last else state["log"])
    if alone:
        if state["log"][-1]["entry"] != state["entry"]:
            raise StrangeError(f"{thread}: the head {state['entry']} has the log of {state['log'][-1]['entry']}")
        return view, [parsed(state["entry"])]
    return view, [parsed(each["entry"]) for each in state["log"]]


def message_entries(messages: Sequence[clew.Message], *, last: int | None = None) -> list[Entry]:
    """Return the entries of messages. Raises StrangeError if one of the `last` ones has changed."""
    looked_at = messages[-last:] if last else messages
    check([{"entry": each.message_id, "text": each.text()} for each in looked_at])
    return [parsed(each.message_id) for each in messages]


def check(items: Iterable[dict[str, str]]) -> None:
    """Raise StrangeError if an item's text is not what was written."""
    for each in items:
        if each["text"] != text_of(each["entry"]):
            raise StrangeError(f"the text of {each['entry']} is not what was written: {each['text']!r:.80}")
