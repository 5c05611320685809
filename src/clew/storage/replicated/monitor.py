"""Background work: the health check, shipping of journal entries, and failback to the primary."""

from __future__ import annotations

import logging
import threading

from clew.clock import Clock
from clew.errors import ClewError, StorageError
from clew.ids import new_id
from clew.model.queries import JournalQuery
from clew.model.records import TurnRecord
from clew.storage.holders import ask_turn
from clew.storage.protocol import Own, Storage
from clew.storage.replicated.coordinator import Coordinator
from clew.storage.replicated.copies import BusyError
from clew.storage.replicated.failover import NEARLY, Ask, Change, Finish, Rest, Roles, Side, Silent
from clew.storage.replicated.shipper import PAGE, Shipper, Triage

_log = logging.getLogger("clew.replication")


class Monitor:
    """Background work in rounds, one at a time in this process.

    Among processes, one at a time has the turn to ship entries. The turn only saves work: shipping
    is idempotent, and a merge checks what another process may have merged.
    """

    def __init__(self, coordinator: Coordinator, shipper: Shipper, *, triage: Triage | None, clock: Clock) -> None:
        self._coordinator = coordinator
        self._shipper = shipper
        self._triage = triage
        self._clock = clock
        self._holder = f"replication:{new_id()}"
        self._ttl = max(3.0, 3 * coordinator.settings.interval)
        self._busy = threading.Lock()
        self._looked: float | None = None
        self._counted: Side = "primary"
        self.queued = 0
        """The approximate length of the serving store's journal."""
        self.ceiling: int | None = None
        """The longest that the journal may get while the primary catches up."""
        self.oldest: float | None = None
        """The wall-clock time of its oldest entry, in seconds."""

    async def round(self) -> None:
        """Do one round. Errors are recorded for `astatus`, and the next round tries again."""
        if self._busy.locked():
            return
        # A `with` statement, because a KeyboardInterrupt right after `acquire` would leave it
        # locked.
        with self._busy:
            try:
                await self._check_health()
                while await self.drain():
                    await self._check_health()
            except (ClewError, BusyError) as error:
                self._coordinator.note(error)

    async def _check_health(self) -> None:
        """Ask both stores for the roles, and do what `failover` decides."""
        coordinator, interval = self._coordinator, self._coordinator.settings.interval
        asked = coordinator.state.asked
        if asked is None or self._clock.monotonic() - asked >= interval / 3:
            await coordinator.ask()
        for _ in range(5):
            duty = coordinator.duty()
            match duty:
                case Ask():
                    await coordinator.ask()
                case Change():
                    await self._change(duty)
                case Finish(roles=roles):
                    await self._finish(roles)
                case Rest():
                    return

    async def _change(self, duty: Change) -> None:
        before = self._coordinator.state.roles
        await self._coordinator.change(duty)
        now = self._coordinator.state.roles
        if now is not None and (before is None or now.order[:2] != before.order[:2]):
            level = logging.INFO if duty.roles.term == 1 else logging.WARNING
            _log.log(level, "roles changed: %s", _described(duty.roles))

    async def drain(self) -> bool:
        """Ship journal entries, if both stores answer. Returns whether to continue at once."""
        coordinator, shipper = self._coordinator, self._shipper
        roles = coordinator.state.roles
        if roles is None or roles.closing:
            return False
        both = not isinstance(coordinator.state.primary, Silent) and not isinstance(coordinator.state.secondary, Silent)
        serving = coordinator.stores[roles.active]
        page = await serving.journal(JournalQuery(limit=1))
        self.count(roles.active, page.count)
        self.oldest = page.entries[0].at.timestamp() if page.entries else None
        more, left = False, page.count
        self._bound_journal(left if roles.active == "secondary" and both else None)
        # In sync mode, each process ships its own commits to the secondary. Only one process at a time may
        # merge. Of two processes, the slower one would bring back records that were deleted after the faster
        # one merged.
        own = self._triage is not None and roles.active == "primary"
        if both and page.count and (own or await self._has_turn(serving)):
            more, left = await self._ship_for(roles.active, self._coordinator.settings.interval / 3)
        self._bound_journal(left if roles.active == "secondary" and both else None)
        if roles.active == "secondary":
            # A primary that does not answer has not caught up, however short the journal is.
            coordinator.backlog(left if both and shipper.problem is None else NEARLY + 1)
        elif both:
            await self._ship_late_commits()
        return more

    def _bound_journal(self, left: int | None) -> None:
        """Bound the journal while the primary catches up: if writers were faster than shipping, the
        primary would never serve again."""
        since = self._coordinator.state.primary_since
        due = since is not None and self._clock.monotonic() - since >= self._coordinator.settings.delay
        if left is None or not due:
            self.ceiling = None
        else:
            self.ceiling = max(NEARLY, left if self.ceiling is None else min(self.ceiling, left))

    async def _ship_late_commits(self) -> None:
        """Look now and then for commits in the secondary by writers that missed the failback."""
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < self._coordinator.settings.interval / 3:
            return
        secondary = self._coordinator.stores["secondary"]
        if (await secondary.journal(JournalQuery(limit=1))).count:
            await self._shipper.to_primary(serving=False)
        else:
            self._looked = now

    async def _ship_for(self, source: Side, seconds: float) -> tuple[bool, int]:
        """Ship the journal of `source` until it is empty, stops shrinking, or the time is over.

        Returns whether more can be shipped at once, and how many entries are left.
        """
        began = self._clock.monotonic()
        left = None
        while True:
            if source == "primary":
                done = await self._shipper.to_secondary(self._triage)
            else:
                done = await self._shipper.to_primary(serving=True)
            self.count(source, done.left)
            if not done.left or (left is not None and done.left >= left):
                return False, done.left
            if self._clock.monotonic() - began > seconds:
                return True, done.left
            left = done.left
            if self.ceiling is not None:
                # Writers get half of the room that was made, so that the journal gets shorter.
                self.ceiling = max(NEARLY, min(self.ceiling, left) - PAGE // 2)

    async def _finish(self, roles: Roles) -> None:
        """Ship the last entries to the primary, which then serves; else the secondary continues."""
        coordinator = self._coordinator
        if not await self._has_turn(coordinator.stores["secondary"]):
            return
        # Operations wait for this, so it must not take long.
        _, left = await self._ship_for("secondary", 3 * coordinator.settings.settle)
        if left:
            await self._change(Change("secondary", Roles(term=roles.term + 1, active="secondary")))
        else:
            await self._change(Change("primary", roles))

    async def _has_turn(self, store: Storage) -> bool:
        turn = await self._ask(store, self._ttl)
        return turn.holder == self._holder

    async def _ask(self, store: Storage, ttl: float) -> TurnRecord:
        return await ask_turn(store, Own.SHIPPING, holder=self._holder, now=self._clock.now(), ttl=ttl)

    async def give_up_turn(self) -> None:
        """Give up the turn, so that another process can take it."""
        for store in self._coordinator.stores.values():
            try:
                await self._ask(store, 0)
            except StorageError as error:
                self._coordinator.note(error)

    def count(self, side: Side, entries: int, *, more: bool = False) -> None:
        """Set the length of the store's journal; with `more`, add to it."""
        self.queued = self.queued + entries if more and side == self._counted else entries
        self._counted = side

    def lag(self) -> float:
        """Return how long the oldest known entry has waited, in seconds."""
        if self.oldest is None or not self.queued:
            return 0.0
        return max(0.0, self._clock.now().timestamp() - self.oldest)


def _described(roles: Roles) -> str:
    if roles.closing:
        return f"failback from secondary to primary begins (term {roles.term})"
    return f"the {roles.active} serves (term {roles.term})"
