"""Leases: one turn at a time in a thread, across processes."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

from clew.checkpointer.core import Core
from clew.errors import ClewError, ConfigError, LeaseError, shown
from clew.ids import new_id
from clew.model.config import Address, Config, checked_text, read_config
from clew.model.records import LeaseRecord
from clew.storage.finishing import finished
from clew.storage.locking import lease_held
from clew.storage.offload import pause
from clew.storage.protocol import LONGEST_TTL

_log = logging.getLogger("clew")
_LAST_MOMENT: Final = datetime.max.replace(tzinfo=UTC) - timedelta(seconds=2 * LONGEST_TTL)
"""After this moment, the end of a lease may be a date that Python can't express."""
_held: ContextVar[dict[tuple[int, str], int]] = ContextVar("clew_held_leases")


def held_token(core: Core, thread_id: str) -> int | None:
    """The fencing token under which the current task writes to the thread, if it holds a lease."""
    held = _held.get(None)
    return held.get((id(core), thread_id)) if held else None


class Lease:
    """The turn in a thread, held inside `async with` or `with`, and renewed until the block ends.

    What the block's task saves to the thread carries the lease's `token`, and the storage refuses it with LeaseError once
    somebody else has had the turn; `lost` says so without a save. Waiting for the turn ends with LeaseError after `wait`
    seconds.
    """

    def __init__(self, core: Core, address: Address, *, ttl: float, wait: float, holder: str | None) -> None:
        for name, seconds in (("ttl", ttl), ("wait", wait)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
                raise ConfigError(f"{name} must be a number of seconds; got {shown(seconds)}")
        if not 0 < ttl <= LONGEST_TTL:
            raise ConfigError(
                f"a lease needs a ttl of more than 0 seconds and at most {LONGEST_TTL:,}, not {shown(ttl)}; it is renewed "
                "while it is held, so it may be short: it is how long others wait for a holder that died"
            )
        self._core = core
        self._address = address
        self._ttl = ttl
        self._wait = wait
        self.holder = checked_text("holder", holder) if holder else f"{socket.gethostname()}:{os.getpid()}:{new_id()}"
        self.linger = 0.0
        """For how many seconds the turn stays taken when the block has ended."""
        self._record: LeaseRecord | None = None
        self._lost = False
        self._renewed = 0.0
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def token(self) -> int:
        """The fencing token: it grows with each new holder."""
        if self._record is None:
            raise LeaseError(
                f"the lease on thread {self._address.thread_id!r} is not held; use it inside its `with` block"
            )
        return self._record.token

    @property
    def lost(self) -> bool:
        """Whether the turn is, or may be, somebody else's: a renewal found that it is, or none got through for `ttl` seconds.

        For what the block does besides saving, which no storage can refuse.
        """
        return self._lost or (self._record is not None and self._core._clock.monotonic() - self._renewed >= self._ttl)

    async def __aenter__(self) -> Self:
        await self._take()
        self._mark()
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unmark()
        await finished(self._end())

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._give_back()

    def __enter__(self) -> Self:
        try:
            self._run(self._take())
            self._mark()
            self._stopped.clear()
            self._thread = threading.Thread(target=self._keep_in_thread, name="clew-lease", daemon=True)
            self._thread.start()
        except KeyboardInterrupt:
            # The block is not entered, so nobody would leave it.
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unmark()
        self._stopped.set()
        try:
            if self._thread is not None and self._thread.is_alive():
                self._thread.join()
        finally:
            self._run(finished(self._give_back()))

    async def _take(self) -> None:
        deadline = self._core._clock.monotonic() + self._wait
        while True:
            asked = self._core._clock.monotonic()
            try:
                record = await finished(self._ask(self._ttl))
            except asyncio.CancelledError:
                # It may have been granted to nobody who waits.
                await finished(self._give_back())
                raise
            if record.holder == self.holder:
                self._record, self._lost, self._renewed = record, False, asked
                return
            left = deadline - self._core._clock.monotonic()
            if left <= 0:
                raise lease_held(record, advice="wait= longer")
            await pause(min(left, 0.05))

    async def _ask(self, ttl: float) -> LeaseRecord:
        core, address = self._core, self._address
        now = core._clock.now()
        if now > _LAST_MOMENT:
            raise ConfigError(f"the clock says {now:%Y-%m-%d}: no lease can end after the year 9999; set the clock")
        return await core._try(
            lambda: core._storage.lease(
                address.thread_id, address.user, holder=self.holder, now=core._clock.now(), ttl=ttl
            )
        )

    async def _keep(self) -> None:
        while not self._lost:
            await asyncio.sleep(self._ttl / 3)
            # To its end: one that is still on its way when the turn is given back would take it anew.
            await finished(self._renew())

    def _keep_in_thread(self) -> None:
        while not self._lost and not self._stopped.wait(self._ttl / 3):
            self._run(self._renew())

    async def _renew(self) -> None:
        asked = self._core._clock.monotonic()
        try:
            record = await self._ask(self._ttl)
        except ClewError:
            # It may work the next time; if it does not, the fence keeps this holder from writing.
            return
        held = self._record
        if held is not None and (record.holder, record.token) == (self.holder, held.token):
            self._renewed = asked
            return
        self._lost = True
        _log.warning(
            "the turn in thread %r was lost: it was not renewed in time, and is of %s now",
            self._address.thread_id,
            "nobody" if record.holder == self.holder else record.holder,
        )
        if record.holder == self.holder:
            # It had ended, and this took it anew: somebody may have had it in between, so what was read under it is old.
            await self._give_back()

    async def _give_back(self) -> None:
        try:
            await self._ask(self.linger)
        except ClewError as error:
            # What the block did is done. The turn ends by itself.
            _log.warning(
                "the turn in thread %r can't be given back, and ends in %g seconds: %s",
                self._address.thread_id,
                self._ttl,
                error,
            )

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        self._core._runner.run(work, "lease")

    def _mark(self) -> None:
        held = _held.get(None) or {}
        _held.set({**held, (id(self._core), self._address.thread_id): self.token})

    def _unmark(self) -> None:
        mine = id(self._core), self._address.thread_id
        _held.set({key: token for key, token in (_held.get(None) or {}).items() if key != mine})
        self._record = None


class LeaseMethods(Core):
    """Methods that take turns."""

    def alease(self, config: Config | str, ttl: float = 30, *, wait: float = 0, holder: str | None = None) -> Lease:
        """Hold the thread's turn: `async with checkpointer.alease(config) as lease: …`.

        It is renewed while the block runs; if the process dies, it ends after `ttl` seconds. If somebody else has it,
        entering waits up to `wait` seconds and then raises LeaseError, which says who has it since when.
        """
        return Lease(self, read_config(config), ttl=ttl, wait=wait, holder=holder)

    def lease(self, config: Config | str, ttl: float = 30, *, wait: float = 0, holder: str | None = None) -> Lease:
        """Sync twin of `alease`: `with checkpointer.lease(config) as lease: …`."""
        return self.alease(config, ttl, wait=wait, holder=holder)
