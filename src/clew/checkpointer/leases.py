"""Leases: mutual exclusion across processes, for a thread or for work on the whole store."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar

from clew.answers import Answer
from clew.checkpointer.engine import Engine, Fence
from clew.errors import BlockingCallError, ClewError, ConfigError, LeaseError
from clew.ids import new_id
from clew.model.config import Address, Config, checked_text
from clew.model.records import LeaseRecord, TurnRecord
from clew.os_threads import OwnThread
from clew.storage.execution import pause, run_to_end
from clew.storage.holders import ask_turn
from clew.storage.locked import lease_held
from clew.storage.protocol import LONGEST_TTL, Own
from clew.validation import checked_number

_log = logging.getLogger("clew")
_LAST_MOMENT: Final = datetime.max.replace(tzinfo=UTC) - timedelta(seconds=2 * LONGEST_TTL)
"""After this moment, Python may be unable to express the end of a lease."""
_Record = TypeVar("_Record", bound=TurnRecord)


class HeldLease(ABC, Generic[_Record]):
    """A lease that is held inside `async with` or `with`, and renewed until the block ends.

    Entering raises LeaseError if somebody else still holds it after `wait` seconds. `subject` names
    what is leased, for messages.
    """

    def __init__(self, engine: Engine, subject: str, *, ttl: float, wait: float, holder: str | None) -> None:
        checked_number("wait", wait, "number of seconds", at_least=0, at_most=LONGEST_TTL)
        # The lease is renewed while it is held. So `ttl` only decides how long others wait after the holder died.
        checked_number("ttl", ttl, "number of seconds", more_than=0, at_most=LONGEST_TTL)
        self._engine = engine
        self._clock = engine.clock
        self._subject = subject
        self._ttl = ttl
        self._wait = wait
        self.holder = checked_text("holder", holder) if holder else f"{socket.gethostname()}:{os.getpid()}:{new_id()}"
        self.method = "lease"
        """The sync method that the caller used, for messages."""
        self.linger = 0.0
        """How many seconds the lease stays taken after the block has ended."""
        self._record: _Record | None = None
        self._lost = False
        self._renewed = 0.0
        self._process = 0
        """The process that holds the lease. A forked child leaves the block, too, and must not return it."""
        self._task: asyncio.Task[None] | None = None
        self._thread: OwnThread | None = None
        self._stopped: Answer[None] = Answer()

    @property
    def token(self) -> int:
        """The fencing token. It grows with each new holder."""
        if self._record is None:
            raise LeaseError(f"the lease on {self._subject} is not held; use it inside its `with` block")
        return self._record.token

    @property
    def lost(self) -> bool:
        """Whether somebody else has the lease, or may have it because no renewal succeeded for `ttl` seconds.

        Check it before side effects other than saves: the storage refuses those.
        """
        return self._lost or (self._record is not None and self._clock.monotonic() - self._renewed >= self._ttl)

    async def __aenter__(self) -> Self:
        await self._take()
        self._mark()
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unmark()
        if self._is_mine:
            await run_to_end(self._end())

    @property
    def _is_mine(self) -> bool:
        return self._process in (0, os.getpid())

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._give_back()

    def __enter__(self) -> Self:
        try:
            self._run(self._take())
            self._mark()
            stopped: Answer[None] = Answer()
            self._stopped = stopped
            # An interrupt may keep the caller from completing `__exit__`: then the lease ends with
            # this object.
            mine = weakref.ref(self, lambda _: stopped.give(None))
            self._thread = OwnThread(partial(_keep_in_thread, mine, stopped, self._ttl / 3), "clew-lease")
            self._thread.begin()
        except BlockingCallError:
            # The storage was not called yet, and the lease could not be released from here.
            raise
        except (KeyboardInterrupt, RuntimeError):
            # The block is not entered, so Python does not call `__exit__`.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.give(None)
        self._unmark()
        try:
            if self._thread is not None:
                self._thread.wait()
        finally:
            if self._is_mine:
                self._run(self._give_back_to_end())

    async def _take(self) -> None:
        deadline = self._clock.monotonic() + self._wait
        while True:
            asked = self._clock.monotonic()
            try:
                record = await run_to_end(self._ask(self._ttl))
            except asyncio.CancelledError:
                # It may have been granted after the caller gave up.
                await run_to_end(self._give_back())
                raise
            if record.holder == self.holder:
                self._record, self._lost, self._renewed, self._process = record, False, asked, os.getpid()
                return
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise self._refused(record)
            await pause(min(left, 0.05))

    async def _ask(self, ttl: float) -> _Record:
        now = self._clock.now()
        if now > _LAST_MOMENT:
            raise ConfigError(f"the clock says {now:%Y-%m-%d}: no lease can end after the year 9999; set the clock")
        return await self._engine.retry(lambda: self._request(self._clock.now(), ttl), "lease")

    @abstractmethod
    async def _request(self, now: datetime, ttl: float) -> _Record:
        """Take, renew or return (`ttl=0`) the lease in the storage; returns its record after that."""

    @abstractmethod
    def _refused(self, record: _Record) -> LeaseError:
        """The error if somebody else still holds the lease."""

    async def _keep(self) -> None:
        while not self._lost:
            await asyncio.sleep(self._ttl / 3)
            # Not cancelled halfway: a renewal that is still on its way when the lease is released would take it again.
            await run_to_end(self._renew())

    def _renew_now(self) -> bool:
        """Renew the lease of a sync caller from a thread; False once it is lost."""
        self._run(self._renew())
        return not self._lost

    async def _renew(self) -> None:
        asked = self._clock.monotonic()
        try:
            record = await self._ask(self._ttl)
        except ClewError:
            # The next renewal may succeed. If none does, the fence keeps this holder from writing.
            return
        held = self._record
        if held is None:
            # The block ended meanwhile, and its end returns the lease.
            return
        if (record.holder, record.token) == (self.holder, held.token):
            self._renewed = asked
            return
        self._lost = True
        _log.warning(
            "lease lost: %s, not renewed in time, now held by %s",
            self._subject,
            "nobody" if record.holder == self.holder else record.holder,
        )
        if record.holder == self.holder:
            # It had expired and was just taken again. Somebody may have held it in between, so what
            # was read is old.
            await self._give_back()

    async def _give_back(self) -> None:
        try:
            await self._ask(self.linger)
        except ClewError as error:
            # The block's work is done, and the lease expires anyway.
            _log.warning("lease not returned: %s; it expires in %g seconds: %s", self._subject, self._ttl, error)

    async def _give_back_to_end(self) -> None:
        # A separate coroutine: if a runner refuses it, no inner coroutine exists that was never awaited.
        await run_to_end(self._give_back())

    def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        self._engine.runner.run(work, self.method)

    def _mark(self) -> None:
        """Note that the current task holds the lease."""

    def _unmark(self) -> None:
        """Note that the current task no longer holds the lease."""
        self._record = None


def _keep_in_thread(of: Callable[[], HeldLease[Any] | None], stopped: Answer[None], pause: float) -> None:
    while not stopped.comes_within(pause):
        lease = of()
        if lease is None or not lease._renew_now():
            return
        del lease


class Lease(HeldLease[LeaseRecord]):
    """The lease on a thread, held inside `async with` or `with`, and renewed until the block ends.

    Saves by the block's task carry the lease's `token`. If somebody else took the lease over, the
    storage refuses them with LeaseError, and `lost` is true. Entering raises LeaseError if somebody
    else still holds the lease after `wait` seconds.
    """

    def __init__(self, engine: Engine, address: Address, *, ttl: float, wait: float, holder: str | None) -> None:
        super().__init__(engine, f"thread {address.thread_id!r}", ttl=ttl, wait=wait, holder=holder)
        self._address = address
        self._fence: Fence | None = None

    async def _request(self, now: datetime, ttl: float) -> LeaseRecord:
        address = self._address
        return await self._engine.storage.lease(address.thread_id, address.user, holder=self.holder, now=now, ttl=ttl)

    def _refused(self, record: LeaseRecord) -> LeaseError:
        return lease_held(record, advice="wait= longer")

    def _mark(self) -> None:
        self._fence = self._engine.set_fence(self._address.thread_id, self.token)

    def _unmark(self) -> None:
        if self._fence is not None:
            self._engine.clear_fence(self._fence)
            self._fence = None
        super()._unmark()


class StoreLease(HeldLease[TurnRecord]):
    """The lease on work that one process does for the whole store.

    It is stored apart from threads and their leases.
    """

    def __init__(self, engine: Engine, name: Own, *, ttl: float) -> None:
        super().__init__(engine, f"the {name.value} of the store", ttl=ttl, wait=0, holder=None)
        self._name = name

    async def _request(self, now: datetime, ttl: float) -> TurnRecord:
        return await ask_turn(self._engine.storage, self._name, holder=self.holder, now=now, ttl=ttl)

    def _refused(self, record: TurnRecord) -> LeaseError:
        return LeaseError(
            f"{self._subject} is leased by {record.holder}", holder=record.holder, expires_at=record.expires_at
        )


class LeaseMethods:
    """Methods that lease threads."""

    _engine: Engine

    def alease(self, config: Config | str, ttl: float = 30, *, wait: float = 0, holder: str | None = None) -> Lease:
        """Hold the thread's lease: `async with checkpointer.alease(config) as lease: …`.

        It is renewed while the block runs. If the process dies, it expires after `ttl` seconds. If
        somebody else holds it, entering waits up to `wait` seconds and then raises LeaseError,
        which names the holder.
        """
        return Lease(self._engine, self._engine.address(config), ttl=ttl, wait=wait, holder=holder)

    def lease(self, config: Config | str, ttl: float = 30, *, wait: float = 0, holder: str | None = None) -> Lease:
        """Hold the thread's lease: `with checkpointer.lease(config) as lease: …`.

        It is renewed while the block runs. If the process dies, it expires after `ttl` seconds. If
        somebody else holds it, entering waits up to `wait` seconds and then raises LeaseError,
        which names the holder.

        Sync twin of `alease`.
        """
        return self.alease(config, ttl, wait=wait, holder=holder)
