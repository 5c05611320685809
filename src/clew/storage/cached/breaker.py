"""Whether the hot storage is used: after a failure not, until it has been seen to answer again."""

from __future__ import annotations

import logging
import math
import threading
from typing import Final

from clew.clock import Clock

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds between tries, doubled each time."""

_log = logging.getLogger("clew")


class Breaker:
    """Opens at the first failure, with one warning in the log; lets one caller at a time try again after a growing pause."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._pause = FIRST_PAUSE
        self._try_at = 0.0
        self._back_since = -math.inf
        self.available = True
        self.untried = True
        """Whether nothing is known yet: the first call connects, and may take longer."""
        self.errors = 0
        self.last_error: str | None = None

    def failed(self, error: BaseException) -> None:
        """Take note of a failure: the hot storage is left alone for a while."""
        with self._lock:
            self.errors += 1
            self.untried = False
            self.last_error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            was_available, self.available = self.available, False
            now = self._clock.monotonic()
            # Back for a moment only (it answers, and takes no writes): that is the same trouble, and was warned of.
            is_new = was_available and now - self._back_since > LONGEST_PAUSE
            if is_new:
                self._pause = FIRST_PAUSE
            self._try_at = now + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if is_new:
            _log.warning(
                "the cache in %s does not answer (%s): everything goes on without it, and it is tried again by itself",
                self._name,
                self.last_error,
            )

    def hurt(self, error: BaseException) -> None:
        """Take note of a failure that concerns one thread only."""
        with self._lock:
            self.errors += 1
            self.last_error = f"{type(error).__name__}: {error}"

    def answered(self) -> None:
        """Take note that it works."""
        if self.available:
            self.untried = False
            return
        with self._lock:
            was_available, self.available = self.available, True
            self._back_since = self._clock.monotonic()
        if not was_available:
            _log.info("the cache in %s answers again", self._name)

    def may_try(self) -> bool:
        """Whether the caller is to find out if it answers again: true for one caller after each pause."""
        with self._lock:
            now = self._clock.monotonic()
            if self.available or now < self._try_at:
                return False
            self._try_at = now + self._pause
            return True
