"""Notes of simulated clients, in memory, and each client's knowledge of its own commits."""

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
    """The notes of one client. Like a file, they outlive the client's processes."""

    def __init__(self, writer: int, now: Callable[[], float]) -> None:
        self.writer = writer
        self.lines: list[Line] = []
        self._now = now
        self._numbers: Counter[str] = Counter()

    def started(self) -> None:
        self.lines.append(Started(self._now()))

    def attempt(self, thread: str, kind: Kind, removes: Sequence[Named] = (), *, number: int | None = None) -> int:
        """Note that an attempt begins. Returns its number."""
        if number is None:
            number = self._numbers[thread] + 1
        self._numbers[thread] = max(self._numbers[thread], number)
        self.lines.append(Tried(self._now(), thread, number, kind, tuple(removes)))
        return number

    def end(
        self, thread: str, number: int, error: str | None = None, *, early: float = 0.0, alone: bool = False
    ) -> None:
        """Note that the attempt was acknowledged, `early` seconds ago, or raised `error`."""
        self.lines.append(Ended(self._now() - early, thread, number, error, alone))

    def look(self, begun: float, thread: str, view: View, entries: Iterable[Entry] | None, *, elsewhere: bool) -> None:
        """Note the result of a read that began at `begun`."""
        seen = None if entries is None else in_rows(entries)
        self.lines.append(Looked(begun, self._now(), thread, view, seen, elsewhere))


@dataclass(slots=True)
class Knowledge:
    """A client's knowledge of its own commits to one thread, by their numbers.

    Commits in `messages`, `checkpoints` and `attachments` must be in the store. Those in `doubtful`
    may be, because their end or the end of their removal is unknown.
    """

    messages: dict[int, None] = field(default_factory=dict)
    checkpoints: dict[int, str] = field(default_factory=dict)
    attachments: dict[int, int] = field(default_factory=dict)
    """Maps each attachment to the number of its checkpoint."""
    attached: dict[int, int] = field(default_factory=dict)
    """The same for all attachments that were ever attempted."""
    doubtful: set[Named] = field(default_factory=set)
    said: set[int] = field(default_factory=set)
    """All messages that were ever attempted, including removed ones."""
    log: list[str] = field(default_factory=list)
    base: tuple[str, list[dict[str, str]]] | None = None
    """The last head that this client saw in a strict thread: its id and its log."""
