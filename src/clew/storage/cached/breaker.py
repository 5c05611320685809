"""Circuit breaker: suspends the hot storage after a failure, until it answers again."""

from __future__ import annotations

import logging
import math
import threading
from typing import Final

from clew.clock import Clock

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds between attempts, doubled each time."""

_log = logging.getLogger("clew")


class Breaker:
    """Opens at the first failure and logs it once; lets one caller retry after a growing pause."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._pause = FIRST_PAUSE
        self._try_at = 0.0
        self._back_since = -math.inf
        self.available = True
        self.untried = True
        """Whether no call was made yet: the first one connects and may take longer."""
        self.errors = 0
        self.last_error: str | None = None

    def failed(self, error: BaseException) -> None:
        """Record a failure, and suspend the hot storage for a while."""
        with self._lock:
            self.errors += 1
            self.untried = False
            self.last_error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            was_available, self.available = self.available, False
            now = self._clock.monotonic()
            # A storage that answers but refuses writes comes back for moments: one warning will do.
            is_new = was_available and now - self._back_since > LONGEST_PAUSE
            if is_new:
                self._pause = FIRST_PAUSE
            self._try_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if is_new:
            _log.warning(
                "cache unavailable: %s does not answer (%s); continuing without it and retrying automatically",
                self._name,
                self.last_error,
            )

    def record_error(self, error: BaseException) -> None:
        """Record a failure that does not suspend the hot storage."""
        with self._lock:
            self.errors += 1
            self.last_error = f"{type(error).__name__}: {error}"

    def answered(self) -> None:
        """Record a success."""
        if self.available:
            self.untried = False
            return
        with self._lock:
            was_available, self.available = self.available, True
            self._back_since = self._clock.monotonic()
        if not was_available:
            _log.info("cache available: %s answers again", self._name)

    def may_try(self) -> bool:
        """Return whether the caller should retry: true for one caller after each pause."""
        with self._lock:
            now = self._clock.monotonic()
            if self.available or now < self._try_at:
                return False
            self._try_at = now + self._pause
            return True
