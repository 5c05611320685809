"""The storage over two stores: operations go to the one that serves, commits reach the other one too."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace as with_fields
from datetime import datetime
from typing import Final, Literal, TypeVar

from msgspec.structs import replace

from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import (
    ClewError,
    LeaseError,
    PermissionDeniedError,
    StorageError,
    TransientStorageError,
)
from clew.ids import new_id
from clew.model.commit import Applied, Commit, Removal
from clew.model.config import ANY_USER, User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.model.reports import Progress, ResyncReport
from clew.model.status import Status
from clew.storage.offload import pause
from clew.storage.protocol import RESERVED, Capabilities, Storage
from clew.storage.replicated.beginnings import Beginnings
from clew.storage.replicated.copies import BusyError, Unbroken
from clew.storage.replicated.failover import Settings, Silent, Use
from clew.storage.replicated.hiding import without_reserved, without_reserved_stats
from clew.storage.replicated.merging import Rebase
from clew.storage.replicated.packing import pack
from clew.storage.replicated.resyncing import Resyncing
from clew.storage.replicated.shipping import Shipping
from clew.storage.replicated.steering import Steering
from clew.storage.replicated.syncing import Syncing
from clew.storage.replicated.terms import inner, outer, outer_lease
from clew.storage.replicated.upkeep import Upkeep
from clew.storage.replicated.validation import check_settings, check_stores
from clew.storage.replicated.watching import WatchedStorage
from clew.storage.replicated.working import Workers, within
from clew.storage.wrapper import StorageWrapper

ReplicationMode = Literal["sync", "async"]
_T = TypeVar("_T")
_log = logging.getLogger("clew.replication")
_REMEMBERED: Final = 10_000
_POLL: Final = 0.25
"""How many seconds at most an entry waits for the process that takes it over to look."""


class ReplicatedStorage(StorageWrapper):
    """Two stores that hold the same: the primary serves, the secondary takes over when the primary can't be reached.

    `mode="sync"` acknowledges a commit when both have it; `"async"` when the primary has it, together with an entry in its
    journal that is taken to the secondary soon after. A commit that one store acknowledged alone is in its journal, and goes
    to the other one when that answers again: none is lost. See docs/replication.md for what the settings mean.
    """

    def __init__(
        self,
        primary: Storage,
        secondary: Storage,
        *,
        rebase: Rebase,
        unbroken: Unbroken,
        mode: ReplicationMode = "async",
        health_check_interval: float = 5.0,
        auto_failover: bool = True,
        max_failover_attempts: int = 3,
        failback_delay: float = 30.0,
        max_outbox: int = 100_000,
        timeout: float = 5.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        check_settings(mode, health_check_interval, max_failover_attempts, failback_delay, max_outbox, timeout)
        check_stores(primary, secondary)
        self._primary = WatchedStorage(primary, "primary", timeout)
        self._secondary = WatchedStorage(secondary, "secondary", timeout)
        super().__init__(self._primary)
        self.mode: ReplicationMode = mode
        self._max_outbox = max_outbox
        self._timeout = timeout
        self._clock = clock
        settings = Settings(
            interval=health_check_interval,
            strict=mode == "sync",
            auto_failover=auto_failover,
            max_attempts=max_failover_attempts,
            delay=failback_delay,
        )
        patience = timeout + 3 * settings.settle
        self._steering = Steering(self._primary, self._secondary, settings, patience=patience, clock=clock)
        self._unbroken = unbroken
        self._shipping = Shipping(
            self._primary,
            self._secondary,
            rebase=rebase,
            unbroken=unbroken,
            roles=self._steering.roles if mode == "sync" else None,
        )
        self._syncing = Syncing(self._primary, self._secondary, self._shipping, clock) if mode == "sync" else None
        what = self._syncing.what if self._syncing is not None else None
        self._upkeep = Upkeep(self._steering, self._shipping, what=what, clock=clock)
        self._workers = Workers(
            self.capabilities.name,
            self._round,
            min(_POLL, health_check_interval / 3),
            suspends=self.capabilities.suspends,
        )
        self._beginnings = Beginnings()
        self._sealed: dict[str, int] = {}
        self._warned = False
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        one, other = self._primary.capabilities, self._secondary.capabilities
        return Capabilities(
            name=f"{one.name}+{other.name}",
            durable=one.durable and other.durable,
            suspends=one.suspends or other.suspends,
            shares_forks=one.shares_forks and other.shares_forks,
            journals=False,
        )

    @property
    def around(self) -> tuple[Storage, ...]:
        return (self._primary, self._secondary)

    # Lifecycle

    async def setup(self) -> None:
        """Make both stores ready. One that can't be reached is made ready when it is first used."""
        for store in (self._primary, self._secondary):
            try:
                await store.setup()
            except TransientStorageError as error:
                self._steering.note(error)
        await self._serve(_nothing)
        # The secondary has to know who serves before it can take over.
        await self._upkeep.round()

    async def close(self) -> None:
        """Hand over what can be handed over at once, and close both stores. What remains is in the journal."""
        if not self._closed:
            self._closed = True
            await self._workers.close()
            await within(self._timeout, self._last_round())
        for store in (self._primary, self._secondary):
            await store.close()

    async def _last_round(self) -> None:
        try:
            if self._steering.state.roles is not None:
                await self._upkeep.round()
                await self._upkeep.leave()
        except StorageError as error:
            self._steering.note(error)

    async def _round(self) -> None:
        await self._upkeep.round()

    # Writing

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes = await self._serve(lambda store, use: self._apply(store, use, commits))
        for each in commits:
            self._beginnings.forget(each)
        await self._workers.wake()
        return outcomes

    async def _apply(self, store: Storage, use: Use, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        await self._room(store, use)
        outcomes: dict[int, Applied | ClewError] = {}
        prepared: dict[int, Commit] = {}
        for number, commit in enumerate(commits):
            made = await self._prepared(store, use, commit)
            if isinstance(made, Commit):
                prepared[number] = made
            else:
                outcomes[number] = made
        if prepared:
            batch = list(prepared.values())
            if self._syncing is not None and use.side == "primary":
                found = await self._syncing.apply(batch)
            else:
                found = await store.apply(batch)
            new = [each for each in found if isinstance(each, Applied) and not each.repeated]
            self._upkeep.count(use.side, len(new), more=True)
            told = [outer(each, use.term) if isinstance(each, Applied) else each for each in found]
            outcomes.update(zip(prepared, told, strict=True))
        for number, commit in prepared.items():
            outcome = outcomes[number]
            if use.side == "secondary" and isinstance(outcome, PermissionDeniedError):
                await self._check_whole(store, commit.thread_id)
                # It may have become whole since.
                (again,) = await store.apply((commit,))
                outcome = outcomes[number] = outer(again, use.term) if isinstance(again, Applied) else again
            if isinstance(outcome, LeaseError):
                outcomes[number] = _lease_lost(commits[number])
        return [outcomes[number] for number in range(len(commits))]

    async def _prepared(self, store: Storage, use: Use, commit: Commit) -> Commit | ClewError:
        """The commit as the store gets it, or why it does not."""
        if commit.thread_id == RESERVED:
            return PermissionDeniedError(f"thread {RESERVED!r} is replication's own", thread_id=RESERVED)
        commit = inner(commit, use.term)
        if commit.begin is None:
            commit = replace(commit, begin=self._beginnings.of(commit, use.side))
        fork = commit.fork
        if fork is not None and fork.checkpoint_id is None:
            # The head may be another one by the time the other store gets it.
            asked = CheckpointQuery(thread_id=fork.thread_id, user=commit.user, namespace=fork.namespace)
            page = await store.checkpoints(asked)
            if page.checkpoints:
                commit = replace(commit, fork=replace(fork, checkpoint_id=page.checkpoints[0].checkpoint_id))
        # The secondary acknowledges alone whenever it serves, the primary in async mode only.
        lone = use.side == "secondary" or self._syncing is None
        return replace(commit, journal=pack(commit, term=use.term, lone=lone))

    async def _room(self, store: Storage, use: Use) -> None:
        """Wait while the journal is full: nothing is dropped, so nothing more is taken."""
        waited = 0.0
        while self._upkeep.queued >= self._limit(use):
            self._upkeep.count(use.side, (await store.journal(JournalQuery(limit=1))).count)
            if self._upkeep.queued < self._limit(use):
                break
            catching_up = self._limit(use) < self._max_outbox
            if not self._warned and not catching_up:
                self._warned = True
                _log.warning("the journal has %d entries: writers wait for the other store", self._upkeep.queued)
            if waited >= self._timeout:
                raise TransientStorageError(
                    "the primary catches up, and is about to serve again; try again"
                    if catching_up
                    else f"{self._upkeep.queued} commits wait to be taken to the other store (max_outbox is "
                    f"{self._max_outbox}); see what is wrong with it: astatus() tells its last error"
                )
            await self._workers.wake()
            await pause(0.05)
            waited += 0.05
        else:
            self._warned = False

    def _limit(self, use: Use) -> int:
        ceiling = self._upkeep.ceiling if use.side == "secondary" else None
        return self._max_outbox if ceiling is None else min(ceiling, self._max_outbox)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        async def ask(store: Storage, use: Use) -> LeaseRecord:
            record = await store.lease(thread_id, user, holder=holder, now=now, ttl=ttl)
            if use.side == "secondary" and record.holder == holder and ttl > 0:
                await self._seal(store, use, record)
            return outer_lease(record, use.term)

        return await self._serve(ask)

    async def _seal(self, store: Storage, use: Use, record: LeaseRecord) -> None:
        """End the thread's chain in the secondary when a turn begins there.

        A commit of an earlier turn, which a writer of the term before still hands over from the primary, has no fence here. It
        would fit by its chain, after the new holder has read the thread."""
        if self._sealed.get(record.thread_id) == record.token:
            return
        nothing = Commit(
            commit_id=new_id(), thread_id=record.thread_id, user=ANY_USER, at=record.since, remove=Removal()
        )
        (outcome,) = await store.apply((replace(nothing, journal=pack(nothing, term=use.term, lone=True)),))
        if isinstance(outcome, ClewError):
            raise outcome
        if len(self._sealed) >= _REMEMBERED:
            self._sealed.clear()
        self._sealed[record.thread_id] = record.token

    # Reading

    async def ping(self) -> None:
        await self._serve(lambda store, _: store.ping())

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        async def ask(store: Storage, use: Use) -> CheckpointPage:
            page = await store.checkpoints(query)
            if page.basis is None and use.side == "secondary":
                await self._check_whole(store, query.thread_id)
                page = await store.checkpoints(query)
            return outer(page, use.term)

        return await self._serve(ask)

    async def values(self, query: ValueQuery) -> ValuePage:
        async def ask(store: Storage, use: Use) -> ValuePage:
            return outer(await store.values(query), use.term)

        return await self._serve(ask)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await self._serve(lambda store, _: store.attachments(query))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        async def ask(store: Storage, use: Use) -> list[MessageRecord]:
            found = await store.messages(query)
            if not found and use.side == "secondary":
                await self._check_whole(store, query.thread_id)
                found = await store.messages(query)
            return found

        return await self._serve(ask)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return without_reserved(await self._serve(lambda store, _: store.threads(query)))

    async def stats(self, user: User) -> StorageStats:
        return without_reserved_stats(await self._serve(lambda store, _: store.stats(user)))

    async def _check_whole(self, store: Storage, thread_id: str) -> None:
        """Raise TransientStorageError if the thread was being copied when the primary was lost: it is whole there."""
        found = await store.threads(ThreadQuery(user=ANY_USER, thread_id=thread_id))
        if found and found[0].user_id == RESERVED and thread_id != RESERVED:
            raise TransientStorageError(
                f"thread {thread_id!r} was being copied to the secondary when the primary was lost; it is whole there",
                thread_id=thread_id,
            )

    # Upkeep

    async def journal(self, query: JournalQuery) -> JournalPage:
        raise StorageError("a replicated storage keeps its journals to itself")

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        raise StorageError("a replicated storage keeps its journals to itself")

    async def reclaim(self) -> None:
        await self._serve(lambda store, _: store.reclaim())

    async def resync(self, *, delete_extra: bool = False, progress: Progress | None = None) -> ResyncReport:
        """Compare both stores thread by thread, and make the one that does not serve what the other is.

        Threads that only it has, and that it has not to hand over, are reported, and deleted with `delete_extra`. Raises
        TransientStorageError if a store does not answer. Work may go on meanwhile.
        """
        await self._workers.ready()
        use = await self._steering.active()
        await self._upkeep.round()
        try:
            return await Resyncing(use.side, self._primary, self._secondary, self._shipping, self._unbroken).run(
                delete_extra=delete_extra, progress=progress
            )
        except BusyError as error:
            raise TransientStorageError(f"{error}; try again when there is less to do") from error

    async def status(self, found: Status) -> Status:
        """`found` with what is known of both stores."""
        state, now = self._steering.state, self._clock.monotonic()
        over = state.roles is not None and (state.roles.active == "secondary" or state.roles.closing)
        since = None if state.failed_over_at is None else now - state.failed_over_at
        return with_fields(
            await super().status(found),
            primary_healthy=not isinstance(state.primary, Silent),
            secondary_healthy=not isinstance(state.secondary, Silent),
            failed_over=over,
            failover_count=state.failovers,
            active_backend="secondary" if over else "primary",
            replication_mode=self.mode,
            replication_queue_size=self._upkeep.queued,
            replication_lag=self._upkeep.lag(),
            time_since_failover=since,
            last_error=self._shipping.problem or self._steering.last_error or found.last_error,
        )

    async def _serve(self, work: Callable[[WatchedStorage, Use], Awaitable[_T]]) -> _T:
        await self._workers.ready()
        return await self._steering.serve(work)


def _lease_lost(commit: Commit) -> LeaseError:
    return LeaseError(
        f"thread {commit.thread_id!r}: the lease with token {commit.fence} is not the last one, or the stores have changed "
        "roles since it was given; take it again",
        thread_id=commit.thread_id,
        fence=commit.fence,
    )


async def _nothing(store: Storage, use: Use) -> None:
    """What is done to find out that somebody serves."""
