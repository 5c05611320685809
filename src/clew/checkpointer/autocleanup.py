"""Automatic cleanup: a periodic `cleanup`, in one process at a time."""

from __future__ import annotations

import asyncio
import atexit
import logging
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from clew.answers import Answer
from clew.checkpointer.arguments import checked_policy
from clew.checkpointer.leases import StoreLease
from clew.errors import LeaseError, TransientStorageError
from clew.model.reports import CleanupReport
from clew.model.retention import RetentionPolicy
from clew.model.status import CleanupStatus
from clew.os_threads import OwnThread
from clew.storage.execution import may_block
from clew.storage.protocol import LONGEST_TTL, Own
from clew.validation import checked_number

if TYPE_CHECKING:
    from clew.checkpointer.base import BaseCheckpointer

TTL: Final = 30.0
"""After so many seconds, another process takes over from one that died during a cleanup."""

_log = logging.getLogger("clew")


class AutoCleanup:
    """Runs `checkpointer.acleanup(policy)` at once and then every `interval` seconds, inside `async
    with` or `with`.

    Of all processes that do this on one store, one cleans up in each interval. It runs in its own
    thread, so that it works in sync programs and blocks no event loop. An error is logged once,
    reported by `astatus`, and followed by another attempt at the next interval. Stopping is
    idempotent; a cleanup under way ends after the current thread.
    """

    def __init__(
        self, checkpointer: BaseCheckpointer, policy: RetentionPolicy | None = None, interval: float = 3600.0
    ) -> None:
        """`policy` defaults to the checkpointer's own (`retention=`). Without either, only the threads' own
        rules apply."""
        checked_policy(policy, "policy")
        checked_number("interval", interval, "number of seconds", more_than=0, at_most=LONGEST_TTL)
        self._checkpointer = checkpointer
        self._engine = checkpointer._engine
        self._clock = self._engine.clock
        self._policy = policy
        self._interval = interval
        self._thread = OwnThread(self._serve, "clew-cleanup")
        self._stopped: Answer[None] = Answer()
        self._interrupt: Callable[[], object] | None = None
        self.status = CleanupStatus()

    def start(self) -> None:
        """Start the thread. Idempotent."""
        if not self._thread.begun:
            self._checkpointer._auto_cleanup = self
            self._stopped = Answer()
            atexit.register(self.stop)
            self._thread.begin()

    def stop(self) -> None:
        """Stop, and wait until the thread has ended. Idempotent. Inside an event loop, use `await astop()`."""
        self._signal_stop()
        self._thread.wait()
        self._set_stopped()

    async def astop(self) -> None:
        """The same without blocking the event loop."""
        if may_block():
            self.stop()
        else:
            self._signal_stop()
            await self._thread.arrive()
            self._set_stopped()

    def _signal_stop(self) -> None:
        self._stopped.give(None)
        interrupt = self._interrupt
        if interrupt is not None:
            interrupt()

    def _set_stopped(self) -> None:
        atexit.unregister(self.stop)
        self.status = replace(self.status, running=False, next_run=None)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.astop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _serve(self) -> None:
        wait = 0.0
        while not self._stopped.comes_within(wait):
            begun = time.monotonic()
            held_for = self._try()
            wait = held_for if held_for is not None else max(0.0, self._interval - (time.monotonic() - begun))
            self.status = replace(self.status, running=False, next_run=self._clock.now() + timedelta(seconds=wait))

    def _try(self) -> float | None:
        """Clean up. If another process holds the lease, return the seconds until it ends. Errors are reported."""
        try:
            self._clean()
        except LeaseError as error:
            self.status = replace(self.status, skipped=self.status.skipped + 1)
            left: float = (error.expires_at - self._clock.now()).total_seconds()
            return min(max(left, 0.01), self._interval)
        except (_Stopping, CancelledError):
            return None
        except Exception as error:  # The edge of this thread: nobody else would report it.
            # A stop cancels the run, and the runner says so with a TransientStorageError.
            if not (self._stopped.done and isinstance(error, TransientStorageError)):
                self._failed(error)
        return None

    def _clean(self) -> None:
        begun = time.monotonic()
        with StoreLease(self._engine, Own.CLEANUP, ttl=TTL) as lease:
            self.status = replace(self.status, running=True, done=0, total=0)
            report = self._engine.runner.run(self._sweep(), "cleanup")
            # Other processes have nothing to do until the next interval.
            lease.linger = max(0.0, self._interval - (time.monotonic() - begun))
        self.status = replace(
            self.status, runs=self.status.runs + 1, last_run=self._clock.now(), last_report=report, last_error=None
        )

    async def _sweep(self) -> CleanupReport:
        task = None if may_block() else asyncio.current_task()
        if task is not None:
            self._interrupt = partial(task.get_loop().call_soon_threadsafe, task.cancel)
        try:
            self._progress(0, 0)
            return await self._checkpointer.acleanup(self._policy, progress=self._progress)
        finally:
            self._interrupt = None

    def _progress(self, done: int, total: int) -> None:
        if self._stopped.done:
            raise _Stopping
        self.status = replace(self.status, done=done, total=total)

    def _failed(self, error: Exception) -> None:
        told = str(error) or type(error).__name__
        if self.status.last_error is None:
            # Logged once until a cleanup succeeds: a store that is down for a day would fill the log.
            _log.warning("automatic cleanup failed; retrying in %g s: %s", self._interval, told)
        self.status = replace(self.status, last_error=told)


class _Stopping(Exception):
    """Ends the cleanup under way."""
