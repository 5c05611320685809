"""Ledger of a writer: its attempts, acknowledgements and reads, in a file.

A line is written before each attempt and right after its end, so the process may be killed
anywhere. A commit noted as acknowledged must be in the store. A commit whose end is not noted may
be there or not. Times are from the machine's monotonic clock, which all processes share, so they
show which commits were acknowledged before a read began.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec

from clew.testing.verdict.history import Ended, Entry, Kind, Line, Looked, Started, Tried, View, in_rows

_DECODER = msgspec.json.Decoder(Line)


class Ledger:
    """The ledger of one writer. A new process continues the numbers of the previous one."""

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
        """Note that an attempt begins. Returns its number."""
        self._numbers[thread] += 1
        self._note(Tried(now(), thread, self._numbers[thread], kind))
        return self._numbers[thread]

    def end(self, thread: str, number: int, error: str | None = None) -> None:
        """Note that the attempt was acknowledged, or raised `error`."""
        self._note(Ended(now(), thread, number, error))

    def look(self, begun: float, thread: str, view: View, entries: Iterable[Entry] | None, *, elsewhere: bool) -> None:
        """Note the result of a read that began at `begun`."""
        seen = None if entries is None else in_rows(entries)
        self._note(Looked(begun, now(), thread, view, seen, elsewhere))

    def _note(self, line: Line) -> None:
        # One system call, so that a killed process leaves whole lines.
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
    """Return the complete lines of a ledger; none if there is no such file."""
    return [_DECODER.decode(line) for line in _whole(path).splitlines()]


def is_acknowledgement(line: bytes) -> bool:
    """Whether the line notes an acknowledged commit."""
    noted = _DECODER.decode(line)
    return isinstance(noted, Ended) and noted.error is None


def _whole(path: Path) -> bytes:
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1]
