"""The ledger of a writer: what it tried, what was acknowledged and what it read, in a file that outlives the process.

A line is written before each attempt and right after its end, so a process may be killed anywhere: a commit without a note of
its end may or may not be there, one that is noted as acknowledged must be. The times are those of the machine's monotonic
clock, which all processes share: so it shows which commits were acknowledged before a read began.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import msgspec
from msgspec import Struct

Kind = Literal["save", "append", "message", "clear", "delete"]
"""`save` puts a whole state and its message, `append` adds to the state's log and a message, `message` is one alone."""
View = Literal["head", "log", "messages"]
"""What was read: whose state is the head, the entries in the head's log, the entries among the messages."""
Seen = dict[int, list[tuple[int, int]]]
"""Entries, as the first and last of the numbers in a row, by writer."""
Entry = tuple[int, int]
"""A writer, and the number that it gave to its attempt in this thread."""


class Started(Struct, frozen=True, array_like=True, tag="start"):
    """A process began: it has not seen any thread yet."""

    at: float


class Tried(Struct, frozen=True, array_like=True, tag="try"):
    at: float
    thread: str
    number: int
    kind: Kind


class Ended(Struct, frozen=True, array_like=True, tag="end"):
    """The attempt was acknowledged, or `error` was raised."""

    at: float
    thread: str
    number: int
    error: str | None = None


class Looked(Struct, frozen=True, array_like=True, tag="read"):
    """`seen` is `None` if the thread was not there. `elsewhere`: the second store served while it was read."""

    begun: float
    ended: float
    thread: str
    view: View
    seen: Seen | None
    elsewhere: bool = False


Line = Started | Tried | Ended | Looked
_DECODER = msgspec.json.Decoder(Line)


class Ledger:
    """The ledger of writer `writer`, for its process: a new one goes on with the numbers of the one before."""

    def __init__(self, path: Path, writer: int) -> None:
        self.writer = writer
        self._numbers: Counter[str] = Counter()
        for line in read_lines(path):
            if isinstance(line, Tried):
                self._numbers[line.thread] = line.number
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.ftruncate(self._file, len(_whole(path)))
        self._note(Started(now()))

    def attempt(self, thread: str, kind: Kind) -> int:
        """Note that a commit is about to be tried; returns its number."""
        self._numbers[thread] += 1
        self._note(Tried(now(), thread, self._numbers[thread], kind))
        return self._numbers[thread]

    def end(self, thread: str, number: int, error: str | None = None) -> None:
        """Note that the attempt was acknowledged, or what was raised instead."""
        self._note(Ended(now(), thread, number, error))

    def look(self, begun: float, thread: str, view: View, entries: Iterable[Entry] | None, *, elsewhere: bool) -> None:
        """Note what a read that began at `begun` has found."""
        seen = None if entries is None else in_rows(entries)
        self._note(Looked(begun, now(), thread, view, seen, elsewhere))

    def _note(self, line: Line) -> None:
        # One call: a process that is killed leaves whole lines.
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def now() -> float:
    return time.monotonic()


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a ledger; none if there is no such file."""
    return [_DECODER.decode(line) for line in _whole(path).splitlines()]


def _whole(path: Path) -> bytes:
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1]


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
    """What all the writers did, as their ledgers tell. `starts` are by writer."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    starts: dict[int, list[float]] = field(default_factory=dict)

    def add(self, writer: int, lines: Iterable[Line]) -> None:
        """Add the lines of one writer's ledger."""
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
        write = Write((writer, tried.number), tried.thread, tried.kind, tried.at, ended, error)
        self.writes.append(write)
