"""Trace of a run: the requests to each store, their results, and the faults."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError
from clew.model.commit import Applied, Commit

if TYPE_CHECKING:
    from clew.testing.simulation.loop import VirtualLoop
    from clew.testing.simulation.network import Request

Event = tuple[float, str, str, str, str]
"""Virtual time, process, store (or empty), thread (or empty), and what happened."""


class Trace:
    """Records events while it is `on`. It does not change the run."""

    def __init__(self, loop: VirtualLoop, *, on: bool) -> None:
        self._loop = loop
        self.on = on
        self.events: list[Event] = []

    def note(self, who: str, what: str, thread: str = "", store: str = "") -> None:
        if self.on:
            self.events.append((self._loop.time(), who, store, thread, what))

    def done(self, request: Request, result: Any, error: ClewError | None, note: str = "") -> None:
        """Record a store's answer to a request."""
        link = request.link
        if request.name == "apply":
            outcomes = result if error is None and result is not None else [error] * len(request.args[0])
            for commit, outcome in zip(request.args[0], outcomes, strict=True):
                text = f"{described(commit)} -> {_told(outcome)}"
                self.note(link.client, f"{text} ({note})" if note else text, commit.thread_id, link.server.name)
        else:
            self.note(link.client, f"{request.name} -> {_told(error or result)}", request.thread, link.server.name)

    def digest(self) -> str:
        """Return a short text that identifies the run."""
        seen = blake2b(digest_size=16)
        for at, *words in self.events:
            seen.update(f"{at!r} {words}\n".encode())
        return seen.hexdigest()

    def lines(self, threads: Collection[str] | None = None) -> Iterable[str]:
        """Yield the trace as text: all of it, or some threads, role changes and global faults."""
        for at, who, store, of, what in self.events:
            if threads is None or of in threads or (not of and not store) or what.startswith("put_own"):
                yield f"{at:9.3f}  {who:<10} {store:<10} {of:<12} {what}"


def described(commit: Commit) -> str:
    """Return a commit in a few words."""
    parts = [f"apply {commit.commit_id[-6:]}"]
    if commit.remove is not None:
        removal = commit.remove
        gone = [name for name in ("thread", "state") if getattr(removal, name)]
        gone += [f"message {each}" for each in removal.messages]
        gone += [f"checkpoint {each[-6:]}" for _, each in removal.checkpoints]
        gone += [f"{len(removal.values)} ranges of values"] if removal.values else []
        parts.append(f"removes {', '.join(gone) or 'nothing'}")
    if commit.fork is not None:
        parts.append(f"forks {commit.fork.thread_id}")
    if commit.checkpoint is not None:
        parts.append(f"checkpoint {commit.checkpoint.checkpoint_id[-6:]}")
    if commit.attachments:
        parts.append(f"attachments {', '.join(each.key for each in commit.attachments)}")
    if commit.messages:
        parts.append(f"messages {', '.join(each.message_id for each in commit.messages)}")
    if commit.thread is not None:
        parts.append("description")
    if commit.merge:
        parts.append(f"merges {len(commit.merge)} rows")
    if commit.after is not None:
        parts.append(f"after {(commit.after.commit_id or 'nothing')[-6:]}")
    if commit.receipts:
        parts.append(f"receipts {len(commit.receipts)}")
    if commit.fence is not None:
        parts.append(f"fence {commit.fence}")
    return ", ".join(parts)


def _told(outcome: Any) -> str:
    if isinstance(outcome, Applied):
        return "repeated" if outcome.repeated else "applied"
    if isinstance(outcome, ClewError):
        return f"{type(outcome).__name__}: {str(outcome)[:120]}"
    if isinstance(outcome, list):
        return f"{len(outcome)} found"
    return type(outcome).__name__ if outcome is not None else "done"
