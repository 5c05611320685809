"""Cleanup: applies a retention policy to the threads of a store, several at a time."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpointer.arguments import checked_policy
from clew.checkpointer.blocking import blocking
from clew.checkpointer.drafts import Draft, is_draft
from clew.checkpointer.engine import Engine
from clew.checkpointer.expiry import ClockWatch, Expiry, may_expire
from clew.checkpointer.records import BAD_RECORD, check_columns, described_policy, described_ttl
from clew.checkpointer.runner import Runner
from clew.checkpointer.sweeper import ATTEMPTS, Sweeper
from clew.errors import ConfigError, ConflictError, LeaseError, shown
from clew.model.commit import Removal
from clew.model.config import ANY_USER, Config
from clew.model.queries import AttachmentQuery, ValuePage
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.model.reports import CleanupReport, Progress
from clew.model.retention import RetentionPolicy
from clew.storage.execution import may_block
from clew.upkeep.compaction import Garbage, RowSize, freed
from clew.upkeep.retention import Dated, Held, due, due_by_size, may_touch, needed, shared
from clew.validation import MOST

CONCURRENCY = 8
"""How many threads are cleaned up at once."""
MOST_REMOVED = 1_000
"""How many checkpoints one commit removes: the thread's writers wait for it, and on Redis everybody."""

OWN_RULES_ONLY: Final = RetentionPolicy(max_history=MOST)
"""The policy of a cleanup without one. It removes nothing, so only the threads' own rules apply."""

Name = tuple[str, str]
"""A checkpoint's namespace and id."""
Names = frozenset[Name]


class CleanupMethods:
    """Methods that remove history."""

    _runner: Runner
    _engine: Engine
    _sweeper: Sweeper
    _retention: RetentionPolicy | None
    _clock_watch: ClockWatch

    async def acleanup(
        self,
        policy: RetentionPolicy | None = None,
        *,
        config: Config | str | None = None,
        keep: Collection[Name] = (),
        remove: Collection[Name] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CleanupReport:
        """Remove everything that `policy` does not keep, in all threads or one: checkpoints with the
        values that only they needed, messages, and threads that expired.

        `policy` defaults to the checkpointer's own (`retention=`). Without either, only the threads' own
        rules apply: `ttl` and `aput_retention`. A thread's own policy
        (`aput_retention`) takes precedence, unless both `config` and `policy` are given. Checkpoints in
        `keep`, by namespace and id, always stay. Those in `remove` always go, unless they are in `keep`,
        too; this needs `config`. A thread's own `ttl` (`aput_thread`) takes precedence over `thread_ttl`
        likewise. With `dry_run`, nothing is removed, and the report says what would be.
        `progress` counts the checkpoints that were examined. A cleanup of all threads also removes
        unfinished copies and reclaims disk space.
        """
        general = checked_policy(policy, "policy") or self._retention or OWN_RULES_ONLY
        names = _names(remove, "remove")
        if names and config is None:
            raise ConfigError("remove names checkpoints of one thread; name the thread: cleanup(…, config=…)")
        cleanup = _Cleanup(
            engine=self._engine,
            sweeper=self._sweeper,
            expiry=Expiry(self._engine, self._sweeper),
            expires=may_expire(self._clock_watch),
            policy=general,
            overrides=config is not None and policy is not None,
            config=config,
            keep=_names(keep, "keep"),
            remove=names,
            dry_run=dry_run,
            progress=progress,
        )
        return await cleanup.run()

    cleanup = blocking(acleanup)


class Plan(Struct, frozen=True, kw_only=True):
    """A thread as it was read, and the checkpoints to remove."""

    log: ValuePage
    held: Sequence[Held]
    going: Sequence[Held]
    attached: Mapping[Name, Sequence[int]]
    """The sizes of each checkpoint's attachments."""
    shared: int
    """Bytes of the thread's values that its forks share; only counted if the thread is over its limit."""
    unneeded: bool
    """Whether the log has values that no checkpoint needs, such as those of a deleted fork; only known if the
    thread is over its limit."""

    def counted(self, gone: Sequence[Held], values: Iterable[Range] = ()) -> Counter[str]:
        """The totals of these checkpoints and `values`, by the fields of a CleanupReport."""
        attachments = [size for each in gone for size in self.attached.get(_name(each), ())]
        return Counter(
            checkpoints=len(gone),
            checkpoint_bytes=sum(each.size for each in gone) - sum(attachments),
            attachments=len(attachments),
            attachment_bytes=sum(attachments),
            values=sum(end - first for first, end in values),
        )


@dataclass(slots=True, kw_only=True)
class _Cleanup:
    """One cleanup: its settings, its progress, and what it has removed."""

    engine: Engine
    sweeper: Sweeper
    expiry: Expiry
    expires: bool
    """Whether the clock can be trusted."""
    policy: RetentionPolicy
    overrides: bool
    """Whether the policy takes precedence over that of the thread."""
    config: Config | str | None
    keep: Names
    remove: Names
    dry_run: bool
    progress: Progress | None
    removed: Counter[str] = field(default_factory=Counter)
    touched: set[str] = field(default_factory=set)
    done: int = 0
    total: int = 0

    async def run(self) -> CleanupReport:
        engine, sweeper = self.engine, self.sweeper
        if self.progress is not None:
            async for page in sweeper.thread_pages(self.config):
                self.total += sum(record.checkpoint_count for record in page)
        self._examined(0)
        await _concurrently(sweeper.thread_pages(self.config), self._clean_or_skip)
        self._examined(self.total - self.done)
        if self.config is None and self.removed["threads"] and not self.dry_run:
            # Reclaiming walks the whole store: too much for a single thread.
            await engine.retry(engine.storage.reclaim)
        return CleanupReport(**self.removed, dry_run=self.dry_run, expiry_skipped=not self.expires)

    def _examined(self, checkpoints: int) -> None:
        # The total is approximate: threads come and go during a cleanup.
        self.done = min(self.done + checkpoints, self.total)
        if self.progress is not None:
            self.progress(self.done, self.total)

    async def _clean_or_skip(self, record: ThreadRecord) -> None:
        with self.sweeper.skipping_damage(record, self.config):
            if is_draft(record):
                if not self.dry_run:
                    await Draft(self.engine, record.thread_id).remove_abandoned()
            else:
                check_columns(record)
                policy = self.policy if self.overrides else self._policy_of(record)
                expired = policy is not None and self.expires and await self._expire(record, policy)
                if policy is not None and not expired:
                    record = await self._without_old_messages(record, policy)
                    size = record.size
                    if self.remove or may_touch(record, policy, self.engine.clock.now()):
                        size = await self._clean(record, policy)
                    self.removed["over_limit"] += policy.max_bytes is not None and size > policy.max_bytes
        self._examined(record.checkpoint_count)

    async def _expire(self, record: ThreadRecord, policy: RetentionPolicy) -> bool:
        """Remove the thread if it has expired, unless a checkpoint of it has to stay."""
        own = None if self.overrides else described_ttl(self.engine.codec, record)
        ttl = policy.thread_ttl if own is None else own
        if ttl is None or self.keep:
            return False
        removed = await self.expiry.thread(record, ttl, dry_run=self.dry_run)
        if removed is not None:
            self._add(record, removed)
        return removed is not None

    async def _without_old_messages(self, record: ThreadRecord, policy: RetentionPolicy) -> ThreadRecord:
        """Remove the thread's old messages; returns its record without them."""
        if policy.message_ttl is None or not self.expires:
            return record
        removed = await self.expiry.messages(record, policy.message_ttl, dry_run=self.dry_run)
        if not removed:
            return record
        return replace(record, size=max(0, record.size - self._add(record, removed)))

    def _policy_of(self, record: ThreadRecord) -> RetentionPolicy | None:
        """The thread's own policy, or the general one; `None` if its own can't be read, so nothing
        may be removed."""
        try:
            return described_policy(self.engine.codec, record) or self.policy
        except BAD_RECORD:
            return None

    async def _clean(self, record: ThreadRecord, policy: RetentionPolicy) -> int:
        """Remove what is due in one thread, in one commit unless there are concurrent writers. Returns the
        thread's new size."""
        if not self.remove and not await self._is_due(record, policy):
            return record.size
        removed, size, size_before, attempts = Counter[str](), record.size, record.size, 0
        going_before: set[Name] = set()
        while (plan := await self._plan(record, policy, size)).going or plan.unneeded:
            going = set(map(_name, plan.going))
            if removed and going == going_before and (going or size >= size_before):
                # Removed records still exist: an index of the store is damaged.
                break
            if self.dry_run:
                removed += await self._would_remove(record, plan)
                break
            try:
                gone = await self._remove(record, plan, values=attempts < ATTEMPTS)
            except LeaseError:
                # Somebody holds the lease, and the storage refuses writes without it. Next time.
                break
            except ConflictError:
                # Written to or cleaned up concurrently: look again. A thread that is never quiet
                # keeps its values.
                attempts += 1
                if attempts > ATTEMPTS:
                    break
                continue
            if not gone:
                break
            removed += gone
            going_before, size_before, size = going, size, await self.sweeper.size_now(record)
            fits = policy.max_bytes is None or size <= policy.max_bytes + plan.shared
            if fits and len(plan.going) <= MOST_REMOVED:
                break
        if removed:
            if not self.dry_run:
                removed["value_bytes"] = max(
                    0, record.size - size - removed["checkpoint_bytes"] - removed["attachment_bytes"]
                )
            less = self._add(record, removed)
            if self.dry_run:
                return record.size - less
        return size

    def _add(self, record: ThreadRecord, removed: Counter[str]) -> int:
        """Count what was removed from one thread; returns how many bytes."""
        size = sum(count for name, count in removed.items() if name.endswith("_bytes"))
        self.removed += removed
        self.removed["threads"] += record.thread_id not in self.touched
        self.touched.add(record.thread_id)
        self.removed["bytes"] += size
        return size

    async def _is_due(self, record: ThreadRecord, policy: RetentionPolicy) -> bool:
        """Return whether more of the thread must be read than the list of its checkpoints."""
        if policy.max_bytes is not None and record.size > policy.max_bytes:
            return True
        page = await self.sweeper.checkpoints(record, detail="info")
        old = due(page.checkpoints, policy, self.engine.clock.now())
        return any(_name(each) not in self.keep and not each.damage for each in old)

    async def _plan(self, record: ThreadRecord, policy: RetentionPolicy, size: int) -> Plan:
        """Read a thread of `size` bytes and choose what to remove, the oldest first."""
        engine, sweeper = self.engine, self.sweeper
        # The log first: if a checkpoint is added after this read, the removal is refused.
        log = await sweeper.log(record)
        query = AttachmentQuery(thread_id=record.thread_id, user=ANY_USER)
        attached: dict[Name, list[int]] = defaultdict(list)
        for each in await engine.retry(lambda: engine.storage.attachments(query)):
            attached[each.namespace, each.checkpoint_id].append(len(each.data))
        held = [
            replace(each, size=each.size + sum(attached.get(_name(each), ()))) for each in await sweeper.held(record)
        ]
        # The age of a damaged checkpoint can't be trusted, so it stays.
        damaged = {_name(each) for each in held if each.damaged}
        keep = self.keep | (damaged - self.remove)
        chosen = self.remove.union(map(_name, due(held, policy, engine.clock.now()))) - keep
        going = [each for each in held if _name(each) in chosen]
        rows: list[RowSize] = []
        if policy.max_bytes is not None and size > policy.max_bytes:
            rows = await self._sizes(record, [row for row in log.rows if row.first >= log.inherited])
            going += due_by_size(
                held, policy, gone=going, keep=keep, size=size, rows=rows, fixed_before=log.fixed_before
            )
        going.sort(key=lambda each: each.sequence)
        needs = needed(held)
        return Plan(
            log=log,
            held=held,
            going=going,
            attached=attached,
            shared=shared(rows, log.fixed_before),
            unneeded=bool(needs is not None and freed(rows, needs, log.fixed_before)),
        )

    async def _remove(self, record: ThreadRecord, plan: Plan, *, values: bool) -> Counter[str]:
        """Remove the chosen checkpoints and the values that only they needed; returns the totals.

        If more than `MOST_REMOVED` checkpoints are chosen, the rest of them, and all values, are left to the next call.
        """
        at, going = 0, plan.going
        while len(going) - at > MOST_REMOVED:
            some = going[at : min(at + MOST_REMOVED, len(going) - MOST_REMOVED)]
            await self.sweeper.commit(record, remove=Removal(checkpoints=tuple(map(_name, some))))
            at += len(some)
        if at:
            return plan.counted(going[:at])
        found = await self._unneeded(record, plan) if values else Garbage()
        if not going and not found.ranges:
            return Counter()
        removal = Removal(
            checkpoints=tuple(map(_name, going)),
            values=tuple(found.ranges),
            as_of=plan.log.sequence if found.ranges else None,
        )
        await self.sweeper.commit(
            record, basis=plan.log.basis if values else None, remove=removal, merge=tuple(found.hollowed)
        )
        return plan.counted(going, found.ranges)

    async def _would_remove(self, record: ThreadRecord, plan: Plan) -> Counter[str]:
        """The totals of what `_remove` would remove in the end."""
        found = await self._unneeded(record, plan)
        removed = plan.counted(plan.going, found.ranges)
        touched = [
            row for row in plan.log.rows if any(row.first < end and first < row.end for first, end in found.ranges)
        ]
        before = sum(row.size for row in await self._sizes(record, touched))
        removed["value_bytes"] = before - sum(len(row.digests) + len(row.data) for row in found.hollowed)
        return removed

    async def _unneeded(self, record: ThreadRecord, plan: Plan) -> Garbage:
        going = set(map(_name, plan.going))
        staying = [each for each in plan.held if _name(each) not in going]
        return await self.sweeper.garbage(record, plan.log, staying)

    async def _sizes(self, record: ThreadRecord, rows: Sequence[ValueRow]) -> list[RowSize]:
        ranges = [(row.first, row.end) for row in rows]
        return [
            RowSize(row.first, row.count, len(row.digests) + len(row.data))
            async for row in self.sweeper.rows_of(record, ranges)
        ]


async def _concurrently(
    pages: AsyncIterator[list[ThreadRecord]], work: Callable[[ThreadRecord], Awaitable[None]]
) -> None:
    """Call `work` for every thread; on an event loop, for several at once. The first error ends it."""
    if may_block():
        async for page in pages:
            for record in page:
                await work(record)
        return
    going: set[asyncio.Future[None]] = set()
    try:
        async for page in pages:
            for record in page:
                going.add(asyncio.ensure_future(work(record)))
                if len(going) >= CONCURRENCY:
                    await _some(going, asyncio.FIRST_COMPLETED)
        while going:
            await _some(going, asyncio.FIRST_EXCEPTION)
    finally:
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)


async def _some(going: set[asyncio.Future[None]], until: str) -> None:
    done, _ = await asyncio.wait(going, return_when=until)
    going -= done
    for task in done:
        task.result()


def _names(given: Collection[Name], parameter: str) -> Names:
    try:
        return frozenset((namespace, checkpoint_id) for namespace, checkpoint_id in given)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{parameter} must be a list of pairs (namespace, checkpoint id), not {shown(given)}"
        ) from error


def _name(checkpoint: Dated) -> Name:
    return checkpoint.namespace, checkpoint.checkpoint_id
