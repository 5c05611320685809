"""What goes on in the background: the health check, taking entries over, and giving the primary its role back."""

from __future__ import annotations

import logging
import threading

from clew.clock import Clock
from clew.errors import ClewError, StorageError
from clew.ids import new_id
from clew.model.config import ANY_USER
from clew.model.queries import JournalQuery
from clew.storage.protocol import RESERVED, Storage
from clew.storage.replicated.copies import BusyError
from clew.storage.replicated.failover import NEARLY, Ask, Change, Finish, Rest, Roles, Side, Silent
from clew.storage.replicated.shipping import PAGE, Shipping, What
from clew.storage.replicated.steering import Steering

_log = logging.getLogger("clew.replication")


class Upkeep:
    """One round of background work at a time in this process; among processes, one takes entries over (a lease, to save work:
    doing it twice would be right too)."""

    def __init__(self, steering: Steering, shipping: Shipping, *, what: What | None, clock: Clock) -> None:
        self._steering = steering
        self._shipping = shipping
        self._what = what
        self._clock = clock
        self._holder = f"replication:{new_id()}"
        self._ttl = max(3.0, 3 * steering.settings.interval)
        self._busy = threading.Lock()
        self._looked: float | None = None
        self._counted: Side = "primary"
        self.queued = 0
        """About how many entries wait in the store that serves."""
        self.ceiling: int | None = None
        """How many of them there may be at most, while the primary catches up."""
        self.oldest: float | None = None
        """The time of the oldest of them, in seconds of the wall clock."""

    async def round(self) -> None:
        """Look after everything once. Errors are noted, not raised: the next round may find things better."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            await self._attend()
            while await self.drain():
                await self._attend()
        except (ClewError, BusyError) as error:
            self._steering.note(error)
        finally:
            self._busy.release()

    async def _attend(self) -> None:
        """The health check, and what follows from it."""
        steering, interval = self._steering, self._steering.settings.interval
        asked = steering.state.asked
        if asked is None or self._clock.monotonic() - asked >= interval / 3:
            await steering.ask()
        for _ in range(5):
            duty = steering.duty()
            match duty:
                case Ask():
                    await steering.ask()
                case Change():
                    await self._change(duty)
                case Finish(roles=roles):
                    await self._finish(roles)
                case Rest():
                    return

    async def _change(self, duty: Change) -> None:
        before = self._steering.state.roles
        await self._steering.change(duty)
        now = self._steering.state.roles
        if now is not None and (before is None or now.order[:2] != before.order[:2]):
            level = logging.INFO if duty.roles.term == 1 else logging.WARNING
            _log.log(level, "replication: %s", _told(duty.roles))

    async def drain(self) -> bool:
        """Take over what waits, as far as the stores answer; whether there is more that can be taken over at once."""
        steering, shipping = self._steering, self._shipping
        roles = steering.state.roles
        if roles is None or roles.closing:
            return False
        both = not isinstance(steering.state.primary, Silent) and not isinstance(steering.state.secondary, Silent)
        serving = steering.stores[roles.active]
        page = await serving.journal(JournalQuery(limit=1))
        self.count(roles.active, page.count)
        self.oldest = page.entries[0].at.timestamp() if page.entries else None
        more, left = False, page.count
        self._lower(left if roles.active == "secondary" and both else None)
        # In sync mode each process brings its own to the secondary. Merging is for one at a time: of two, the slower would
        # bring back what the faster has seen deleted since.
        own = self._what is not None and roles.active == "primary"
        if both and page.count and (own or await self._has_turn(serving)):
            more, left = await self._until_done(roles.active, self._steering.settings.interval / 3)
        self._lower(left if roles.active == "secondary" and both else None)
        if roles.active == "secondary":
            # Until the primary is there to take it over, it has not caught up, however little there is.
            steering.backlog(left if both and shipping.problem is None else NEARLY + 1)
        elif both:
            await self._late_writers()
        return more

    def _lower(self, left: int | None) -> None:
        """While the primary catches up, let the journal not get longer than it has been: writers who are faster than what can
        be taken over would keep the primary from ever serving again."""
        since = self._steering.state.primary_since
        due = since is not None and self._clock.monotonic() - since >= self._steering.settings.delay
        if left is None or not due:
            self.ceiling = None
        else:
            self.ceiling = max(NEARLY, left if self.ceiling is None else min(self.ceiling, left))

    async def _late_writers(self) -> None:
        """Look now and then for what writers left in the secondary who did not know that the primary serves again."""
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < self._steering.settings.interval / 3:
            return
        secondary = self._steering.stores["secondary"]
        if (await secondary.journal(JournalQuery(limit=1))).count:
            await self._shipping.to_primary(serving=False)
        else:
            self._looked = now

    async def _until_done(self, source: Side, seconds: float) -> tuple[bool, int]:
        """Take over what the journal of `source` has, until nothing is left, nothing gets less or the time is over: whether
        there is more to do at once, and how much is left."""
        began = self._clock.monotonic()
        left = None
        while True:
            if source == "primary":
                done = await self._shipping.to_secondary(self._what)
            else:
                done = await self._shipping.to_primary(serving=True)
            self.count(source, done.left)
            if not done.left or (left is not None and done.left >= left):
                return False, done.left
            if self._clock.monotonic() - began > seconds:
                return True, done.left
            left = done.left
            if self.ceiling is not None:
                # Writers get half of the room that was made, so that it gets less.
                self.ceiling = max(NEARLY, min(self.ceiling, left) - PAGE // 2)

    async def _finish(self, roles: Roles) -> None:
        """Take the last entries over to the primary, which then serves; or let the secondary go on, if that can't be done."""
        steering = self._steering
        if not await self._has_turn(steering.stores["secondary"]):
            return
        # Operations wait meanwhile, so it must not take long.
        _, left = await self._until_done("secondary", 3 * steering.settings.settle)
        if left:
            await self._change(Change("secondary", Roles(term=roles.term + 1, active="secondary")))
        else:
            await self._change(Change("primary", roles))

    async def _has_turn(self, store: Storage) -> bool:
        lease = await store.lease(RESERVED, ANY_USER, holder=self._holder, now=self._clock.now(), ttl=self._ttl)
        return lease.holder == self._holder

    async def leave(self) -> None:
        """Let another process have the turn."""
        for store in self._steering.stores.values():
            try:
                await store.lease(RESERVED, ANY_USER, holder=self._holder, now=self._clock.now(), ttl=0)
            except StorageError as error:
                self._steering.note(error)

    def count(self, side: Side, entries: int, *, more: bool = False) -> None:
        """Note how many entries wait in that store, or how many there are `more`."""
        self.queued = self.queued + entries if more and side == self._counted else entries
        self._counted = side

    def lag(self) -> float:
        """How many seconds the oldest entry has waited, as far as is known."""
        if self.oldest is None or not self.queued:
            return 0.0
        return max(0.0, self._clock.now().timestamp() - self.oldest)


def _told(roles: Roles) -> str:
    if roles.closing:
        return f"the primary has nearly caught up; it takes over from the secondary (term {roles.term})"
    return f"the {roles.active} serves (term {roles.term})"
