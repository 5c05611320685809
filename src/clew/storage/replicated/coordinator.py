"""Role coordination: carries out what `failover` decides and routes operations to a store.

Each store keeps the roles in an own record, which is changed by compare-and-swap.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from clew.clock import Clock
from clew.errors import CorruptRecordError, StorageError, StoreUnreachableError, TransientStorageError
from clew.ids import new_id
from clew.storage.conversions import UNDECODABLE
from clew.storage.execution import may_block, pause
from clew.storage.protocol import Own, Storage
from clew.storage.replicated.failover import (
    SILENT,
    Answer,
    Ask,
    Backlog,
    Beaten,
    Change,
    Changed,
    Event,
    Fail,
    Finish,
    Heard,
    Lost,
    Missed,
    Rest,
    Roles,
    Settings,
    Side,
    Silent,
    State,
    Use,
    Wait,
    after,
    holds,
    known_answer,
    next_duty,
    next_step,
)
from clew.storage.replicated.timeout import TimeoutStorage

_T = TypeVar("_T")
_TRIES = 8
"""How often an operation is repeated because the roles changed while it ran."""


class Coordinator:
    """This process's view of the roles. Safe to use from several OS threads and event loops."""

    def __init__(
        self, primary: TimeoutStorage, secondary: TimeoutStorage, settings: Settings, *, patience: float, clock: Clock
    ) -> None:
        self.stores: dict[Side, TimeoutStorage] = {"primary": primary, "secondary": secondary}
        self.settings = settings
        self.state = State()
        self.last_error: str | None = None
        self._patience = patience
        # The roles must be refreshed within the interval, even if one of the stores hangs.
        self._ask_for = settings.interval / 4
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    def tell(self, event: Event) -> None:
        """Update the state with `event`."""
        with self._lock:
            self.state = after(self.state, event, self._clock.monotonic(), self.settings)

    def note(self, error: BaseException) -> None:
        """Record an error for `astatus`."""
        self.last_error = str(error) or type(error).__name__

    async def serve(self, work: Callable[[TimeoutStorage, Use], Awaitable[_T]]) -> _T:
        """Return the result of `work` on the serving store, if the roles stayed valid until its end.

        Continues with the other store only if the serving store can't be reached. Raises
        TransientStorageError if no store can serve now. A retry is safe: commits are idempotent.
        """
        for _ in range(_TRIES):
            use = await self.active()
            try:
                result = await work(self.stores[use.side], use)
            except UnreplicatedError:
                if await self._held(use):
                    raise
                # The roles have changed: the new serving store needs the commit.
                continue
            except TransientStorageError as error:
                self.note(error)
                if await _answers(self.stores[use.side]):
                    raise
                self.tell(Lost(use.side))
                continue
            if await self._held(use):
                return result
        raise TransientStorageError("the serving store changed while the operation ran; try again")

    async def active(self) -> Use:
        """Return the serving store; wait while the roles change. Raises TransientStorageError."""
        waited = 0.0
        while True:
            step = next_step(self.state, self._clock.monotonic(), self.settings)
            match step:
                case Use():
                    return step
                case Ask():
                    await self.ask()
                case Change():
                    await self.change(step)
                case Wait(seconds=seconds):
                    if waited > self._patience:
                        raise TransientStorageError("the stores are changing roles; try again")
                    await pause(seconds)
                    waited += seconds
                case Fail(reason=reason):
                    raise StoreUnreachableError(f"{reason} (last error: {self.last_error})")

    async def _held(self, use: Use) -> bool:
        """Return whether the roles that an operation used are still valid after it ended. If not, the
        other store may have served other processes in the meantime."""
        held = holds(self.state, use, self._clock.monotonic(), self.settings)
        if held is None:
            await self.ask()
            held = holds(self.state, use, self._clock.monotonic(), self.settings)
        return bool(held)

    async def ask(self) -> None:
        """Ask both stores for the roles. Concurrent callers on one event loop share the answers."""
        if may_block():
            return await self._ask()
        loop = asyncio.get_running_loop()
        task = self._asking.get(loop)
        # Awaiting a task that is done does not yield to the event loop. If its answer were too old,
        # the caller would ask again and spin forever.
        if task is None or task.done():
            task = self._asking[loop] = asyncio.ensure_future(self._ask())
            task.add_done_callback(partial(self._asked, loop))
        return await asyncio.shield(task)

    def _asked(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
        if self._asking.get(loop) is task:
            del self._asking[loop]

    async def _ask(self) -> None:
        asked = self._clock.monotonic()
        if may_block():
            primary, secondary = [await self._answer(side) for side in ("primary", "secondary")]
        else:
            primary, secondary = await asyncio.gather(self._answer("primary"), self._answer("secondary"))
        self.tell(Heard(primary=primary, secondary=secondary, asked=asked))

    async def _answer(self, side: Side) -> Answer:
        # One lost answer does not mean a lost store: try twice, unless the store is known not to
        # answer.
        tries = 1 if self.state.asked is not None and isinstance(known_answer(self.state, side), Silent) else 2
        for _ in range(tries):
            try:
                return await self.stores[side].within(self._ask_for, _read_roles)
            except StorageError as error:
                self.note(error)
        return SILENT

    async def change(self, step: Change) -> None:
        """Write the roles to a store, unless another process changed them first."""
        try:
            done = await _write_roles(self.stores[step.side], step.roles)
        except StorageError as error:
            self.note(error)
            self.tell(Missed(step.side))
        else:
            self.tell(Changed(step.side, step.roles) if done else Beaten())

    def duty(self) -> Ask | Change | Finish | Rest:
        """Return what the health check has to do next."""
        return next_duty(self.state, self._clock.monotonic(), self.settings)

    def backlog(self, count: int) -> None:
        """Report how many entries the secondary still has for the primary."""
        self.tell(Backlog(count))

    def roles(self) -> Roles | None:
        return self.state.roles


class UnreplicatedError(TransientStorageError):
    """The primary has the commit, but the secondary could not be reached: retry, which is safe."""


async def _answers(store: Storage) -> bool:
    """Return whether `store` answers a ping."""
    try:
        await store.ping()
    except StorageError:
        return False
    return True


class _Record(Struct, frozen=True):
    """The roles, with a unique id of the change: if two processes write the same roles at once, one
    of them loses the compare-and-swap."""

    change_id: str
    roles: Roles


async def _read_roles(store: Storage) -> Roles | None:
    """Return the roles in `store`."""
    stored = await store.own(Own.ROLES)
    return None if stored is None else _roles(stored)


async def _write_roles(store: Storage, roles: Roles) -> bool:
    """Write the roles unless `store` has the same or newer ones. Returns whether it did."""
    stored = await store.own(Own.ROLES)
    if stored is not None and not roles.follows(_roles(stored)):
        return False
    made = msgspec.msgpack.encode(_Record(new_id(), roles))
    return await store.put_own(Own.ROLES, made, instead_of=stored)


def _roles(stored: bytes) -> Roles:
    try:
        return msgspec.msgpack.decode(stored, type=_Record).roles
    except UNDECODABLE as error:
        raise CorruptRecordError(
            f"the record of which store serves is damaged: {error}; restore this store from a backup, or replace it with "
            "an empty one and call aresync"
        ) from error
