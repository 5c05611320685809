"""Does what `failover` decides: asks the stores for the roles, changes them, and tells operations which store to use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from clew.clock import Clock
from clew.errors import StorageError, TransientStorageError
from clew.storage.offload import may_block, pause
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
from clew.storage.replicated.roles import read_roles, write_roles
from clew.storage.replicated.watching import WatchedStorage, answers

_T = TypeVar("_T")
_TRIES = 8
"""How often an operation looks again because the roles have changed under it."""


class Steering:
    """What this process knows of the roles, and how it comes to know it. Safe in any number of OS threads and event loops."""

    def __init__(
        self, primary: WatchedStorage, secondary: WatchedStorage, settings: Settings, *, patience: float, clock: Clock
    ) -> None:
        self.stores: dict[Side, WatchedStorage] = {"primary": primary, "secondary": secondary}
        self.settings = settings
        self.state = State()
        self.last_error: str | None = None
        self._patience = patience
        # A store that hangs must not keep what is known of the roles from being renewed in time.
        self._ask_for = settings.interval / 4
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    def tell(self, event: Event) -> None:
        """Take note of what has happened."""
        with self._lock:
            self.state = after(self.state, event, self._clock.monotonic(), self.settings)

    def note(self, error: BaseException) -> None:
        """Remember an error for `astatus`."""
        self.last_error = str(error) or type(error).__name__

    async def serve(self, work: Callable[[WatchedStorage, Use], Awaitable[_T]]) -> _T:
        """The result of `work` on the store that serves, by roles that held until it was done.

        Only a store that can't be reached makes it go on with the other one. Raises TransientStorageError if none can serve
        now; whatever was written is recognised when it comes again.
        """
        for _ in range(_TRIES):
            use = await self.active()
            try:
                result = await work(self.stores[use.side], use)
            except UnreplicatedError:
                if await self._held(use):
                    raise
                # The roles have changed meanwhile: the store that serves now has to have it.
                continue
            except TransientStorageError as error:
                self.note(error)
                if await answers(self.stores[use.side]):
                    raise
                self.tell(Lost(use.side))
                continue
            if await self._held(use):
                return result
        raise TransientStorageError("the store that serves has changed while this went on; try again")

    async def active(self) -> Use:
        """The store that serves; waits while nobody may. Raises TransientStorageError if there is none."""
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
                    raise TransientStorageError(f"{reason} (last error: {self.last_error})")

    async def _held(self, use: Use) -> bool:
        """Whether the roles by which an operation was done still hold, now that it is done: if not, another store may have
        answered others meanwhile."""
        held = holds(self.state, use, self._clock.monotonic(), self.settings)
        if held is None:
            await self.ask()
            held = holds(self.state, use, self._clock.monotonic(), self.settings)
        return bool(held)

    async def ask(self) -> None:
        """Ask both stores for the roles; many who ask on one event loop at once share the answer."""
        if may_block():
            return await self._ask()
        loop = asyncio.get_running_loop()
        task = self._asking.get(loop)
        # Awaiting one that is done gives nobody else a turn: if its answer is too old already, that would go on forever.
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
        # One answer that is lost is no store that is: once more, unless it is known not to answer.
        tries = 1 if self.state.asked is not None and isinstance(known_answer(self.state, side), Silent) else 2
        for _ in range(tries):
            try:
                return await self.stores[side].within(self._ask_for, read_roles)
            except StorageError as error:
                self.note(error)
        return SILENT

    async def change(self, step: Change) -> None:
        """Write the roles to a store, if nobody changed them first."""
        try:
            done = await write_roles(self.stores[step.side], step.roles)
        except StorageError as error:
            self.note(error)
            self.tell(Missed(step.side))
        else:
            self.tell(Changed(step.side, step.roles) if done else Beaten())

    def duty(self) -> Ask | Change | Finish | Rest:
        """What the health check has to do next."""
        return next_duty(self.state, self._clock.monotonic(), self.settings)

    def backlog(self, count: int) -> None:
        """Say how many entries the secondary still has for the primary."""
        self.tell(Backlog(count))

    def roles(self) -> Roles | None:
        return self.state.roles


class UnreplicatedError(TransientStorageError):
    """The commit is safe in the primary, and the secondary could not be reached: trying again is safe, and needed."""
