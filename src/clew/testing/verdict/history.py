"""Notes of writers: attempts, their ends and reads, with times from a clock that all writers share.

A writer takes a note before each attempt and right after its end, so it may be killed anywhere. A
commit noted as acknowledged must be in the store. A commit whose end is not noted may be there or
not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

Kind = Literal[
    "save", "append", "follow", "message", "attach", "describe", "state", "remove", "thin", "compact", "clear", "delete",
]  # fmt: skip
"""`save` writes a whole state with a message, `append` adds to the state's log with a message,
`follow` is an append that is refused with ConflictError if the head has moved,
`message` adds only a message, `state` is a checkpoint without a message (a fork's first one),
`attach` adds an attachment, `describe` replaces the thread's description. `remove` removes what it
names, `thin` (a cleanup) may remove what it names, `compact` changes nothing visible, `clear`
removes all checkpoints, `delete` the whole thread."""
Part = Literal["checkpoints", "messages", "attachments", "description"]
View = Literal["head", "log", "messages", "description"]
"""What was read: the entry of the head's state, the entries in the head's log, the entries of the
messages, or the entry of the thread's description."""
Seen = dict[int, list[tuple[int, int]]]
"""Entries by writer, as ranges of numbers: first and last."""
Entry = tuple[int, int]
"""A writer, and the number of its attempt in the thread."""
Named = tuple[Part, Entry]
"""A part of a commit's content."""


class Started(Struct, frozen=True, array_like=True, tag="start"):
    """A process started: it has not seen any thread yet."""

    at: float


class Tried(Struct, frozen=True, array_like=True, tag="try"):
    """An attempt. `removes` is what it removes by name, in addition to what its kind removes."""

    at: float
    thread: str
    number: int
    kind: Kind
    removes: tuple[Named, ...] = ()


class Ended(Struct, frozen=True, array_like=True, tag="end"):
    """The attempt was acknowledged, or `error` was raised. `alone`: its process did not reach the
    secondary."""

    at: float
    thread: str
    number: int
    error: str | None = None
    alone: bool = False


class Looked(Struct, frozen=True, array_like=True, tag="read"):
    """A read. `seen` is `None` if there was no thread. `elsewhere`: the secondary served the read,
    or may have."""

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
    """An attempt of a writer. `ended` is infinite if its end was not noted."""

    entry: Entry
    thread: str
    kind: Kind
    begun: float
    ended: float
    error: str | None
    removes: frozenset[Named] = frozenset()
    alone: bool = False

    @property
    def acknowledged(self) -> bool:
        return self.error is None and self.ended != float("inf")


@dataclass(frozen=True, slots=True)
class Read:
    """The reads of one process."""

    writer: int
    thread: str
    view: View
    begun: float
    ended: float
    seen: Seen | None
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class History:
    """The actions of all writers, according to their notes. `starts` has the start times by writer."""

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
                    self._write(writer, open_.pop((line.thread, line.number)), line.at, line.error, alone=line.alone)
                case Looked():
                    self.reads.append(
                        Read(writer, line.thread, line.view, line.begun, line.ended, line.seen, line.elsewhere)
                    )
        for tried in open_.values():
            self._write(writer, tried, float("inf"), None)

    def _write(self, writer: int, tried: Tried, ended: float, error: str | None, *, alone: bool = False) -> None:
        removes = frozenset(map(_tuples, tried.removes))
        self.writes.append(
            Write((writer, tried.number), tried.thread, tried.kind, tried.at, ended, error, removes, alone)
        )


def _tuples(named: Named) -> Named:
    part, (writer, number) = named
    return part, (writer, number)
