"""Storage over two stores: operations go to the serving store, and commits reach both."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace as with_fields
from datetime import datetime
from typing import Final, Literal, TypeVar

from msgspec.structs import replace

from clew.bounded import BoundedMap
from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import (
    ClewError,
    LeaseError,
    PermissionDeniedError,
    StorageError,
    TransientStorageError,
)
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, FoundMessage, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.model.reports import Progress, ResyncReport
from clew.model.status import Status
from clew.storage.execution import pause
from clew.storage.protocol import Capabilities, Own, Storage
from clew.storage.replicated.coordinator import Coordinator
from clew.storage.replicated.copies import BusyError, Unbroken, check_complete, end_of_chain, must_be_complete
from clew.storage.replicated.failover import Settings, Silent, Use
from clew.storage.replicated.feed import PairFeed
from clew.storage.replicated.fence import Incarnations, lease_lost, lease_with_term, with_term, without_term
from clew.storage.replicated.journal_format import pack
from clew.storage.replicated.monitor import Monitor
from clew.storage.replicated.resync import Resync
from clew.storage.replicated.shipper import Shipper
from clew.storage.replicated.sync_writer import SyncWriter
from clew.storage.replicated.timeout import TimeoutStorage
from clew.storage.replicated.validation import check_settings, check_stores
from clew.storage.replicated.value_log import Rebase
from clew.storage.replicated.workers import Workers, within
from clew.storage.wrapper import StorageWrapper

ReplicationMode = Literal["sync", "async"]
_T = TypeVar("_T")
_log = logging.getLogger("clew.replication")
_REMEMBERED: Final = 10_000
_POLL: Final = 0.25
"""Seconds between two looks at the journal, at most."""


class ReplicatedStorage(StorageWrapper):
    """Two stores with the same content. The secondary takes over when the primary can't be reached.

    `mode="sync"` acknowledges a commit when both stores have it, `"async"` when the primary has it,
    with a journal entry that is shipped to the secondary soon after. A commit that one store
    acknowledged alone stays in its journal until the other store has it. See docs/replication.md.
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
        self._primary = TimeoutStorage(primary, "primary", timeout)
        self._secondary = TimeoutStorage(secondary, "secondary", timeout)
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
        self._coordinator = Coordinator(self._primary, self._secondary, settings, patience=patience, clock=clock)
        self._unbroken = unbroken
        self._shipper = Shipper(
            self._primary,
            self._secondary,
            rebase=rebase,
            unbroken=unbroken,
            roles=self._coordinator.roles if mode == "sync" else None,
        )
        self._sync_writer = SyncWriter(self._primary, self._secondary, self._shipper, clock) if mode == "sync" else None
        triage = self._sync_writer.triage if self._sync_writer is not None else None
        self.monitor = Monitor(self._coordinator, self._shipper, triage=triage, clock=clock)
        self._workers = Workers(
            self.capabilities.name,
            self._round,
            min(_POLL, health_check_interval / 3),
            suspends=self.capabilities.suspends,
        )
        self._feed = PairFeed(self._primary, self._secondary, clock)
        self._incarnations = Incarnations(merged=mode == "async")
        self._chains_ended: BoundedMap[str, int] = BoundedMap(max_entries=_REMEMBERED)
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
        """Set up both stores. One that can't be reached is set up when it is first used."""
        for store in (self._primary, self._secondary):
            try:
                await store.setup()
            except TransientStorageError as error:
                self._coordinator.note(error)
        await self._serve(_do_nothing)
        # The secondary needs a record of the roles before it can take over.
        await self.monitor.round()

    async def close(self) -> None:
        """Ship what can be shipped at once, and close both stores. The journals keep the rest."""
        if not self._closed:
            self._closed = True
            await self._workers.close()
            await within(self._timeout, self._last_round())
        for store in (self._primary, self._secondary):
            await store.close()

    async def _last_round(self) -> None:
        try:
            if self._coordinator.state.roles is not None:
                await self.monitor.round()
                await self.monitor.give_up_turn()
        except StorageError as error:
            self._coordinator.note(error)

    async def _round(self) -> None:
        await self.monitor.round()

    # Writing

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        outcomes = await self._serve(lambda store, use: self._apply(store, use, commits))
        for each in commits:
            self._incarnations.forget(each)
        await self._workers.wake()
        return outcomes

    async def _apply(self, store: Storage, use: Use, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        await self._wait_for_room(store, use)
        prepared = [await self._prepared(store, use, commit) for commit in commits]
        if self._sync_writer is not None and use.side == "primary":
            outcomes = await self._sync_writer.apply(prepared)
        else:
            outcomes = await store.apply(prepared)
        new = [each for each in outcomes if isinstance(each, Applied) and not each.repeated]
        self.monitor.count(use.side, len(new), more=True)
        return [
            await self._outcome(store, use, original, commit, outcome)
            for original, commit, outcome in zip(commits, prepared, outcomes, strict=True)
        ]

    async def _outcome(
        self, store: Storage, use: Use, original: Commit, commit: Commit, outcome: Applied | ClewError
    ) -> Applied | ClewError:
        """Return the outcome of `commit` for the caller of `original`."""
        if use.side == "secondary" and isinstance(outcome, PermissionDeniedError):
            await check_complete(store, commit.thread_id)
            # The copy may have been completed since.
            (outcome,) = await store.apply((commit,))
        if self._sync_writer is not None and use.side == "secondary":
            outcome = await self._sync_writer.final(commit, outcome, term=use.term)
        if isinstance(outcome, Applied):
            return with_term(outcome, use.term)
        return lease_lost(original) if isinstance(outcome, LeaseError) else outcome

    async def _prepared(self, store: Storage, use: Use, commit: Commit) -> Commit:
        """Return the commit for the store, with its journal entry."""
        commit = without_term(commit, use.term)
        if commit.begin is None:
            commit = replace(commit, begin=await self._incarnations.propose(commit, store, use.side))
        fork = commit.fork
        if fork is not None and fork.checkpoint_id is None:
            # The other store may have another head when it gets the commit.
            asked = CheckpointQuery(thread_id=fork.thread_id, user=commit.user, namespace=fork.namespace)
            page = await store.checkpoints(asked)
            if page.checkpoints:
                commit = replace(commit, fork=replace(fork, checkpoint_id=page.checkpoints[0].checkpoint_id))
        # The secondary always acknowledges alone when it serves, the primary only in async mode.
        lone = use.side == "secondary" or self._sync_writer is None
        return replace(commit, journal=pack(commit, term=use.term, lone=lone))

    async def _wait_for_room(self, store: Storage, use: Use) -> None:
        """Wait while the journal is full. Raises TransientStorageError after the timeout."""
        waited = 0.0
        while self.monitor.queued >= self._limit(use):
            self.monitor.count(use.side, (await store.journal(JournalQuery(limit=1))).count)
            if self.monitor.queued < self._limit(use):
                break
            catching_up = self._limit(use) < self._max_outbox
            if not self._warned and not catching_up:
                self._warned = True
                _log.warning("journal full: %d entries, writers wait for the other store", self.monitor.queued)
            if waited >= self._timeout:
                raise TransientStorageError(
                    "the primary is catching up and about to serve again; try again"
                    if catching_up
                    else f"the journal is full: {self.monitor.queued} commits wait for the other store (max_outbox is "
                    f"{self._max_outbox}); astatus() has the last error of that store"
                )
            await self._workers.wake()
            await pause(0.05)
            waited += 0.05
        else:
            self._warned = False

    def _limit(self, use: Use) -> int:
        ceiling = self.monitor.ceiling if use.side == "secondary" else None
        return self._max_outbox if ceiling is None else min(ceiling, self._max_outbox)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        async def ask(store: Storage, use: Use) -> LeaseRecord:
            record = await store.lease(thread_id, user, holder=holder, now=now, ttl=ttl)
            if use.side == "secondary" and record.holder == holder and ttl > 0:
                await self._end_chain(store, use, record)
            return lease_with_term(record, use.term)

        return await self._serve(ask)

    async def _end_chain(self, store: Storage, use: Use, record: LeaseRecord) -> None:
        """End the thread's chain in the secondary when a lease begins there.

        A writer of the previous term may still ship a commit of an earlier lease from the primary.
        That commit has no fence here, and would fit by its chain after the new holder has read the
        thread.
        """
        if self._chains_ended.get(record.thread_id) == record.token:
            return
        (outcome,) = await store.apply((end_of_chain(record.thread_id, record.since, term=use.term),))
        if isinstance(outcome, ClewError):
            raise outcome
        self._chains_ended.put(record.thread_id, record.token)

    # Reading

    async def ping(self) -> None:
        await self._serve(lambda store, _: store.ping())

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        async def ask(store: Storage, use: Use) -> CheckpointPage:
            page = await store.checkpoints(query)
            if page.basis is None and use.side == "secondary":
                await check_complete(store, query.thread_id)
                page = await store.checkpoints(query)
            return with_term(page, use.term)

        return await self._serve(ask)

    async def values(self, query: ValueQuery) -> ValuePage:
        async def ask(store: Storage, use: Use) -> ValuePage:
            return with_term(await store.values(query), use.term)

        return await self._serve(ask)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await self._serve(lambda store, _: store.attachments(query))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        async def ask(store: Storage, use: Use) -> list[MessageRecord]:
            found = await store.messages(query)
            if not found and use.side == "secondary":
                await check_complete(store, query.thread_id)
                found = await store.messages(query)
            return found

        return await self._serve(ask)

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        return await self._serve(lambda store, _: store.search(query))

    async def content(self, thread_id: str) -> Content | None:
        async def ask(store: Storage, use: Use) -> Content | None:
            found = await store.content(thread_id)
            if found is not None and use.side == "secondary":
                must_be_complete(found.thread)
            return None if found is None else with_term(found, use.term)

        return await self._serve(ask)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._serve(lambda store, _: store.threads(query))

    async def stats(self, user: User) -> StorageStats:
        return await self._serve(lambda store, _: store.stats(user))

    async def feed(self, query: FeedQuery) -> FeedPage:
        return await self._serve(lambda _, use: self._feed.page(use.side, query))

    # Maintenance

    async def own(self, name: Own) -> bytes | None:
        return await self._serve(lambda store, _: store.own(name))

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        return await self._serve(lambda store, _: store.put_own(name, data, instead_of=instead_of))

    async def journal(self, query: JournalQuery) -> JournalPage:
        raise StorageError("a replicated storage has no journal of its own; read the journals of its stores")

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        raise StorageError("a replicated storage has no journal of its own; trim the journals of its stores")

    async def reclaim(self) -> None:
        await self._serve(lambda store, _: store.reclaim())

    async def resync(self, *, delete_extra: bool = False, progress: Progress | None = None) -> ResyncReport:
        """Compare both stores thread by thread, and repair the one that does not serve.

        Extra threads in that store, which are not in its journal either, are reported, and deleted
        with `delete_extra`. Other operations may run at the same time. Raises TransientStorageError
        if a store does not answer.
        """
        await self._workers.ready()
        use = await self._coordinator.active()
        await self.monitor.round()
        try:
            return await Resync(use.side, self._primary, self._secondary, self._shipper, self._unbroken).run(
                delete_extra=delete_extra, progress=progress
            )
        except BusyError as error:
            raise TransientStorageError(f"{error}; try again when there are fewer writers") from error

    async def status(self, found: Status) -> Status:
        """Return `found` with what is known about both stores. Asks neither of them."""
        state, now = self._coordinator.state, self._clock.monotonic()
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
            enable_replication=True,
            replication_queue_size=self.monitor.queued,
            replication_lag=self.monitor.lag(),
            time_since_failover=since,
            last_error=self._shipper.problem or self._coordinator.last_error or found.last_error,
        )

    async def _serve(self, work: Callable[[TimeoutStorage, Use], Awaitable[_T]]) -> _T:
        await self._workers.ready()
        return await self._coordinator.serve(work)


async def _do_nothing(store: Storage, use: Use) -> None:
    """An operation that only needs a serving store."""
