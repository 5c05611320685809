"""Branches of a conversation: each checkpoint has the messages that its state was saved with.

In threads `back-…`, a state's log has the entries of all messages on its branch. Writers add to any
earlier checkpoint, and go back to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any

import clew
from clew.testing.verdict.entries import check, message_entries, parsed
from clew.testing.verdict.history import Entry

PREFIX = "back-"


def log_of(state: Any) -> list[Entry]:
    """Return the entries of the messages on a state's branch. Raises StrangeError if one has changed."""
    log = [] if state is None else state["log"]
    check(log)
    return [parsed(each["entry"]) for each in log]


async def said(checkpointer: clew.BaseCheckpointer, thread: str, checkpoint_id: str) -> list[Entry]:
    """Return the entries of the messages on a checkpoint's branch, up to it."""
    at = {"thread_id": thread, "checkpoint_id": checkpoint_id}
    return message_entries(await checkpointer.alist_messages(at, limit=None))


@dataclass(frozen=True, slots=True)
class Crossing:
    """A checkpoint whose branch has other messages than its state."""

    thread: str
    checkpoint_id: str
    log: list[Entry]
    found: list[Entry]

    def is_fault(self, kept: Collection[Entry]) -> bool:
        """Return whether the branch lacks more than entries that may be lost, or has more than the state.

        `kept` are the entries that may not be lost. In a pair, a commit that was read but never acknowledged may be.
        """
        found = set(self.found)
        return self.found != [each for each in self.log if each in found or each in kept]

    def __str__(self) -> str:
        log, found = _shown(self.log), _shown(self.found)
        saved = f"{self.thread}: checkpoint {self.checkpoint_id!r} was saved with the messages {log}"
        return f"{saved}, but its branch has {found}"


async def crossings(checkpointer: clew.BaseCheckpointer, thread: str) -> AsyncIterator[Crossing]:
    """Yield the checkpoints whose branch has other messages than their state."""
    for info in await checkpointer.alist_checkpoints(thread, limit=None):
        name = info.checkpoint_id
        log = log_of(await checkpointer.aget_state({"thread_id": thread, "checkpoint_id": name}))
        if (found := await said(checkpointer, thread, name)) != log:
            yield Crossing(thread, name, log, found)


def _shown(entries: list[Entry]) -> str:
    return " ".join(f"{writer}/{number}" for writer, number in entries[-20:])
