"""Retries: storage calls are repeated after transient errors, and the log says so from the first one on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from clew.chance import chance
from clew.checkpointer.observer import Observer
from clew.clock import Clock
from clew.errors import TransientStorageError
from clew.os_threads import reset_after_fork
from clew.storage.execution import pause

R = TypeVar("R")

FIRST_PAUSE, LONGEST_PAUSE = 0.04, 1.0
"""Seconds between attempts after a transient error; doubled each time."""
LOG_EVERY: Final = 5.0
"""At most one warning in this many seconds, however many calls wait."""

_log = logging.getLogger("clew")


class Retries:
    """The retries of one checkpointer: their duration and their log."""

    def __init__(self, retry_for: float, clock: Clock) -> None:
        self._retry_for = retry_for
        self._clock = clock
        self.observer: Observer | None = None
        self.reset()
        reset_after_fork(self)

    def reset(self) -> None:
        """Forget the calls under way: at first, and in a forked child, whose parent has them."""
        self._lock = threading.Lock()
        self._calls = 0
        self._logged: float | None = None
        self._failing = False

    async def after(self, error: TransientStorageError, call: Callable[[], Awaitable[R]], doing: str) -> R:
        """Repeat `call`, whose first attempt raised `error`, with growing pauses. Raises its last error."""
        if not self._retry_for:
            raise error
        begun, waited, longest = self._clock.monotonic(), 0.0, FIRST_PAUSE
        with self._lock:
            self._calls += 1
        try:
            while True:
                # The attempts take time too; a fake clock may not show it.
                left = self._retry_for - max(waited, self._clock.monotonic() - begun)
                self._failed(doing, error, max(0.0, left))
                wait = chance().uniform(longest / 2, longest)
                await pause(max(0.0, min(wait, left)))
                waited, longest = waited + wait, min(2 * longest, LONGEST_PAUSE)
                try:
                    result = await call()
                except TransientStorageError as again:
                    if left <= wait:
                        raise
                    error = again
                else:
                    self._succeeded(doing, begun)
                    return result
        finally:
            with self._lock:
                self._calls -= 1

    def _failed(self, doing: str, error: TransientStorageError, left: float) -> None:
        if self.observer is not None:
            self.observer.retrying(doing, error)
        now = self._clock.monotonic()
        with self._lock:
            if self._logged is not None and now - self._logged < LOG_EVERY:
                return
            self._logged, self._failing, others = now, True, self._calls - 1
        reason = str(error).removesuffix("; try again") or type(error).__name__
        too = f" ({others} more calls wait)" if others > 1 else " (1 more call waits)" if others else ""
        _log.warning("%s failed: %s; retrying for up to %.3g s%s", doing, reason, left, too)

    def _succeeded(self, doing: str, begun: float) -> None:
        with self._lock:
            told, self._failing = self._failing, False
        if told:
            _log.info("storage answers again: %s succeeded after %.3g s", doing, self._clock.monotonic() - begun)
