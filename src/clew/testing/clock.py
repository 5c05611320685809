"""A fake clock."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A clock for tests: `advance` moves both clocks, `set` only the wall clock."""

    def __init__(self, now: datetime = datetime(2026, 1, 31, 12, tzinfo=UTC)) -> None:
        self._lock = threading.Lock()
        self._monotonic = 0.0
        self._now = _aware(now)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def set(self, now: datetime) -> None:
        """Set the wall clock, also backwards, like an operator or NTP. Durations don't change."""
        self._now = _aware(now)

    def advance(self, seconds: float) -> datetime:
        """Advance by `seconds` and return the new time."""
        if seconds < 0:
            raise ValueError(f"advance() needs 0 or more seconds, not {seconds}; use set() to move the wall clock")
        with self._lock:
            self._monotonic += seconds
            self._now += timedelta(seconds=seconds)
            return self._now


def _aware(now: datetime) -> datetime:
    if now.tzinfo is None:
        raise ValueError(f"{now!r} has no time zone")
    return now
