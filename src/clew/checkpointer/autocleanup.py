"""Cleanup that goes on by itself, in one process of many."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from clew.errors import ConfigError, LeaseError, shown
from clew.model.config import ANY_USER
from clew.model.reports import CleanupReport
from clew.model.retention import RetentionPolicy
from clew.model.status import CleanupStatus
from clew.storage.offload import inline
from clew.storage.protocol import LONGEST_TTL

if TYPE_CHECKING:
    from clew.checkpointer.base import BaseCheckpointer

TURN: Final = {"thread_id": "clew:cleanup", "user_id": ANY_USER}
"""Whose lease says which process cleans up. There is no such thread, and a lease makes none."""
TTL: Final = 30.0
"""After so many seconds another process takes over from one that died in the middle."""

_log = logging.getLogger("clew")


class AutoCleanup:
    """`checkpointer.acleanup(policy)` at once and then every `interval` seconds, while `async with` or `with` lasts.

    Of all processes that do this on one store, one cleans up in each interval. It runs in a thread of its own, so that sync
    programs have it too and no event loop is held up. What fails is logged once, told by `astatus`, and tried again at the
    next time. Stopping twice is fine; what is under way then ends after the thread that it is at.
    """

    def __init__(
        self, checkpointer: BaseCheckpointer, policy: RetentionPolicy | None = None, interval: float = 3600.0
    ) -> None:
        """`policy=None` is the checkpointer's own (`retention=`)."""
        if policy is not None and not isinstance(policy, RetentionPolicy):
            raise ConfigError(f"AutoCleanup takes a clew.RetentionPolicy, not {type(policy).__name__}")
        if policy is None and checkpointer._retention is None:
            raise ConfigError("AutoCleanup needs a policy: its own, or the checkpointer's (retention=)")
        if isinstance(interval, bool) or not isinstance(interval, (int, float)) or not 0 < interval <= LONGEST_TTL:
            raise ConfigError(
                f"the interval must be a number of seconds, more than 0 and at most {LONGEST_TTL:,}; got {shown(interval)}"
            )
        self._checkpointer = checkpointer
        self._policy = policy
        self._interval = interval
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._interrupt: Callable[[], object] | None = None
        self.status = CleanupStatus()

    def start(self) -> None:
        """Begin; a second time is fine."""
        with self._lock:
            if self._thread is None:
                self._checkpointer._auto_cleanup = self
                self._stopped.clear()
                self._thread = threading.Thread(target=self._serve, name="clew-cleanup", daemon=True)
                self._thread.start()
                atexit.register(self.stop)

    def stop(self) -> None:
        """End, and wait until it has; a second time is fine. Inside an event loop: `await astop()`."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self.stop)
        self._stopped.set()
        interrupt = self._interrupt
        if interrupt is not None:
            interrupt()
        thread.join()
        self.status = replace(self.status, running=False, next_run=None)

    async def astop(self) -> None:
        """The same without holding up the event loop."""
        if inline.get():
            self.stop()
        else:
            await asyncio.to_thread(self.stop)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.astop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        wait = 0.0
        while not self._stopped.wait(wait):
            begun = time.monotonic()
            held_for = self._try()
            wait = held_for if held_for is not None else max(0.0, self._interval - (time.monotonic() - begun))
            now = self._checkpointer._clock.now()
            self.status = replace(self.status, running=False, next_run=now + timedelta(seconds=wait))

    def _try(self) -> float | None:
        """Clean up, if it is this process's turn; else for how many seconds it is another's. What fails is reported."""
        try:
            self._clean()
        except LeaseError as error:
            self.status = replace(self.status, skipped=self.status.skipped + 1)
            left: float = (error.expires_at - self._checkpointer._clock.now()).total_seconds()
            return min(max(left, 0.01), self._interval)
        except (_Stopping, CancelledError):
            return None
        except Exception as error:  # The edge of this thread: nobody else would hear of it.
            self._failed(error)
        return None

    def _clean(self) -> None:
        checkpointer, begun = self._checkpointer, time.monotonic()
        with checkpointer.lease(TURN, ttl=TTL) as turn:
            self.status = replace(self.status, running=True, done=0, total=0)
            report = checkpointer._runner.run(self._sweep(), "cleanup")
            # The others have nothing to do until the next time.
            turn.linger = max(0.0, self._interval - (time.monotonic() - begun))
        self.status = replace(
            self.status,
            runs=self.status.runs + 1,
            last_run=checkpointer._clock.now(),
            last_report=report,
            last_error=None,
        )

    async def _sweep(self) -> CleanupReport:
        task = None if inline.get() else asyncio.current_task()
        if task is not None:
            self._interrupt = partial(task.get_loop().call_soon_threadsafe, task.cancel)
        try:
            self._go_on(0, 0)
            return await self._checkpointer.acleanup(self._policy, progress=self._go_on)
        finally:
            self._interrupt = None

    def _go_on(self, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _Stopping
        self.status = replace(self.status, done=done, total=total)

    def _failed(self, error: Exception) -> None:
        told = str(error) or type(error).__name__
        if self.status.last_error is None:
            # Once, until it works again: a store that is down for a day says nothing new every minute.
            _log.warning("the cleanup that goes on by itself failed, and will be tried again: %s", told)
        self.status = replace(self.status, last_error=told)


class _Stopping(Exception):
    """The cleanup under way ends here."""
