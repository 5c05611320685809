"""Randomness for ids and jitter, with a replaceable source for simulations.

This is the only module that uses the system's randomness, apart from keys and nonces.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Chance(Protocol):
    """A source of randomness for ids and jitter. Keys and nonces always come from the system."""

    def randbytes(self, count: int) -> bytes: ...

    def uniform(self, least: float, most: float) -> float: ...

    def time_ns(self) -> int:
        """Return the time that new ids begin with."""


class SystemChance:
    """The operating system's randomness and time."""

    def randbytes(self, count: int) -> bytes:
        return os.urandom(count)

    def uniform(self, least: float, most: float) -> float:
        return random.uniform(least, most)

    def time_ns(self) -> int:
        return time.time_ns()


_current: Chance = SystemChance()
drawn_ahead: list[str] = []
"""Random text drawn in advance. It is discarded when the source changes, and in a forked child,
which must not reuse its parent's."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=drawn_ahead.clear)


def chance() -> Chance:
    """Return the current source."""
    return _current


@contextmanager
def drawn_from(source: Chance) -> Iterator[None]:
    """Use `source` in the whole process until the block ends, for repeatable simulations."""
    global _current
    before, _current = _current, source
    drawn_ahead.clear()
    try:
        yield
    finally:
        _current = before
        drawn_ahead.clear()
