"""Notes of writers: attempts, their ends and reads, with the time of a clock that all writers share.

A note is taken before each attempt and right after its end, so a writer may die anywhere: a commit without a note of its end
may or may not be there, one that is noted as acknowledged must be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

Kind = Literal[
    "save", "append", "message", "attach", "describe", "state", "remove", "thin", "compact", "clear", "delete"
]
"""`save` puts a whole state and its message, `append` adds to the state's log and a message, `message` is one alone, `state` is
a checkpoint without a message (a fork's first one), `attach` adds an attachment, `describe` replaces the thread's description.
`remove` takes out what it names, `thin` may take out what it names (a cleanup), `compact` changes nothing that shows, `clear`
takes all checkpoints, `delete` the whole thread."""
Part = Literal["checkpoints", "messages", "attachments", "description"]
View = Literal["head", "log", "messages", "description"]
"""What was read: whose state is the head, the entries in the head's log, the entries among the messages, whose description
the thread has."""
Seen = dict[int, list[tuple[int, int]]]
"""Entries, as the first and last of the numbers in a row, by writer."""
Entry = tuple[int, int]
"""A writer, and the number that it gave to its attempt in this thread."""
Named = tuple[Part, Entry]
"""The part that a commit brought."""


class Started(Struct, frozen=True, array_like=True, tag="start"):
    """A process began: it has not seen any thread yet."""

    at: float


class Tried(Struct, frozen=True, array_like=True, tag="try"):
    """An attempt. `removes` are what it takes out by name, beside what its kind does."""

    at: float
    thread: str
    number: int
    kind: Kind
    removes: tuple[Named, ...] = ()


class Ended(Struct, frozen=True, array_like=True, tag="end"):
    """The attempt was acknowledged, or `error` was raised."""

    at: float
    thread: str
    number: int
    error: str | None = None


class Looked(Struct, frozen=True, array_like=True, tag="read"):
    """`seen` is `None` if the thread was not there. `elsewhere`: the second store served while it was read, or may have."""

    begun: float
    ended: float
    thread: str
    view: View
    seen: Seen | None
    elsewhere: bool = False


Line = Started | Tried | Ended | Looked


def in_rows(entries: Iterable[Entry]) -> Seen:
    rows: Seen = {}
    for writer, number in sorted(set(entries)):
        mine = rows.setdefault(writer, [])
        if mine and mine[-1][1] == number - 1:
            mine[-1] = mine[-1][0], number
        else:
            mine.append((number, number))
    return rows


def out_of_rows(seen: Seen) -> set[Entry]:
    return {
        (writer, number) for writer, rows in seen.items() for first, last in rows for number in range(first, last + 1)
    }


@dataclass(frozen=True, slots=True)
class Write:
    """An attempt of a writer. `ended` is infinite if that was never noted."""

    entry: Entry
    thread: str
    kind: Kind
    begun: float
    ended: float
    error: str | None
    removes: frozenset[Named] = frozenset()

    @property
    def acknowledged(self) -> bool:
        return self.error is None and self.ended != float("inf")


@dataclass(frozen=True, slots=True)
class Read:
    """What one process found."""

    writer: int
    thread: str
    view: View
    begun: float
    ended: float
    seen: Seen | None
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class History:
    """What all the writers did, as their notes tell. `starts` are by writer."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    starts: dict[int, list[float]] = field(default_factory=dict)

    def add(self, writer: int, lines: Iterable[Line]) -> None:
        """Add the notes of one writer."""
        open_: dict[tuple[str, int], Tried] = {}
        for line in lines:
            match line:
                case Started():
                    self.starts.setdefault(writer, []).append(line.at)
                case Tried():
                    open_[line.thread, line.number] = line
                case Ended():
                    self._write(writer, open_.pop((line.thread, line.number)), line.at, line.error)
                case Looked():
                    self.reads.append(
                        Read(writer, line.thread, line.view, line.begun, line.ended, line.seen, line.elsewhere)
                    )
        for tried in open_.values():
            self._write(writer, tried, float("inf"), None)

    def _write(self, writer: int, tried: Tried, ended: float, error: str | None) -> None:
        entry = writer, tried.number
        self.writes.append(
            Write(entry, tried.thread, tried.kind, tried.at, ended, error, frozenset(map(_tuples, tried.removes)))
        )


def _tuples(named: Named) -> Named:
    part, (writer, number) = named
    return part, (writer, number)
