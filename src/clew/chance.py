"""The one module that draws from the system's randomness, and the place to put another source (a simulation's)."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Chance(Protocol):
    """Where ids and jitter come from. Secrets don't: keys and nonces are always the system's."""

    def randbytes(self, count: int) -> bytes: ...

    def uniform(self, least: float, most: float) -> float: ...

    def time_ns(self) -> int:
        """The time that new ids begin with."""


class SystemChance:
    """The operating system's."""

    def randbytes(self, count: int) -> bytes:
        return os.urandom(count)

    def uniform(self, least: float, most: float) -> float:
        return random.uniform(least, most)

    def time_ns(self) -> int:
        return time.time_ns()


_current: Chance = SystemChance()
drawn_ahead: list[str] = []
"""What was drawn before it is needed: emptied when the source changes, and in a child process, which must not draw what its
parent is going to draw."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=drawn_ahead.clear)


def chance() -> Chance:
    """The source that everything draws from now."""
    return _current


@contextmanager
def drawn_from(source: Chance) -> Iterator[None]:
    """Draw from `source` in the whole process until the block ends: for simulations, which must go the same way twice."""
    global _current
    before, _current = _current, source
    drawn_ahead.clear()
    try:
        yield
    finally:
        _current = before
        drawn_ahead.clear()
