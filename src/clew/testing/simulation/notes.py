"""Notes of simulated clients, in memory, and what each client knows of what it wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from clew.testing.verdict.history import (
    Ended,
    Entry,
    Kind,
    Line,
    Looked,
    Named,
    Started,
    Tried,
    View,
    in_rows,
)


class Notes:
    """The notes of one client. It outlives the client's process, as a file would."""

    def __init__(self, writer: int, now: Callable[[], float]) -> None:
        self.writer = writer
        self.lines: list[Line] = []
        self._now = now
        self._numbers: Counter[str] = Counter()

    def started(self) -> None:
        self.lines.append(Started(self._now()))

    def attempt(self, thread: str, kind: Kind, removes: Sequence[Named] = (), *, number: int | None = None) -> int:
        """Note that a commit is about to be tried; returns its number."""
        if number is None:
            number = self._numbers[thread] + 1
        self._numbers[thread] = max(self._numbers[thread], number)
        self.lines.append(Tried(self._now(), thread, number, kind, tuple(removes)))
        return number

    def end(
        self, thread: str, number: int, error: str | None = None, *, early: float = 0.0, alone: bool = False
    ) -> None:
        """Note that the attempt was acknowledged, so many seconds earlier, or what was raised instead."""
        self.lines.append(Ended(self._now() - early, thread, number, error, alone))

    def look(self, begun: float, thread: str, view: View, entries: Iterable[Entry] | None, *, elsewhere: bool) -> None:
        """Note what a read that began at `begun` has found."""
        seen = None if entries is None else in_rows(entries)
        self.lines.append(Looked(begun, self._now(), thread, view, seen, elsewhere))


@dataclass(slots=True)
class Knowledge:
    """What a client knows of its own commits to one thread, by their numbers: those that must be there, and in `doubtful` those
    that may be there or not, because their end or the end of their removal is not known."""

    messages: dict[int, None] = field(default_factory=dict)
    checkpoints: dict[int, str] = field(default_factory=dict)
    attachments: dict[int, int] = field(default_factory=dict)
    """The number of the checkpoint that each is attached to."""
    attached: dict[int, int] = field(default_factory=dict)
    """The same of all that were ever tried."""
    doubtful: set[Named] = field(default_factory=set)
    said: set[int] = field(default_factory=set)
    """All messages that were ever tried, removed ones too."""
    log: list[str] = field(default_factory=list)
