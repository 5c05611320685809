"""Limits on a call: bounded memory, bounded time, and only ClewErrors."""

from __future__ import annotations

import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from clew.errors import ClewError

MEMORY: Final = 512 << 20
"""Memory limit of a process, in bytes."""
SECONDS: Final = 5.0
"""CPU time limit of a call. Not wall time, because the machine may be busy."""


class OverdueError(BaseException):
    """A call took too long. Clew must not catch this."""


class Outcome:
    """The result of a case: the number of calls, how many Clew refused, and the findings."""

    def __init__(self) -> None:
        self.calls = 0
        self.refused = 0
        self.findings: list[str] = []

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        """Return `work()`, or `None` if it raises. An error other than ClewError is a finding."""
        self.calls += 1
        try:
            with _within(SECONDS):
                return work()
        except ClewError:
            self.refused += 1
        except (Exception, OverdueError) as error:
            self.findings.append(f"{name}: {_told(error)}")
        return None


def limit_memory(most: int = MEMORY) -> None:
    """Limit the memory of this process. Exceeding it raises MemoryError."""
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Interrupt the block after `seconds` of CPU time."""

    def interrupt(*_: object) -> None:
        raise OverdueError(f"took more than {seconds} s of CPU time")

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _told(error: BaseException) -> str:
    """Return the error and its location in Clew."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "clew" in frame.filename]
    places = [
        f"{frame.filename.rpartition('/clew/')[2]}:{frame.lineno}" for frame in frames if "fuzz" not in frame.filename
    ]
    text = str(error).encode("ascii", "backslashreplace").decode()
    return f"{type(error).__name__}: {text[:200]} ({' > '.join(places[-4:])})"


def peak_memory() -> int:
    """Return the peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
