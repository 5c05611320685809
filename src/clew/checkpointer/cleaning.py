"""Cleanup: a policy applied to the threads of a store, several at a time."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpointer.blocking import blocking
from clew.checkpointer.records import described_policy
from clew.checkpointer.sweeping import ATTEMPTS, Sweeping
from clew.errors import ConfigError, ConflictError, CorruptRecordError, LeaseError
from clew.model.commit import Removal
from clew.model.config import ANY_USER, Config
from clew.model.queries import AttachmentQuery, ValuePage
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.model.reports import CleanupReport, Progress
from clew.model.retention import RetentionPolicy
from clew.storage.offload import inline
from clew.upkeep.compaction import Garbage, RowSize, freed
from clew.upkeep.retention import Dated, Held, due, due_by_size, may_touch, needed, shared

AT_ONCE = 8
"""How many threads are cleaned up side by side."""
MOST_REMOVED = 1_000
"""How many checkpoints one commit takes out at most: the thread's writers wait for it, and on Redis everybody."""

Name = tuple[str, str]
"""A checkpoint's namespace and id."""


Names = frozenset[Name]


class CleanupMethods(Sweeping):
    """Methods that let history go."""

    async def acleanup(
        self,
        policy: RetentionPolicy | None = None,
        *,
        config: Config | str | None = None,
        keep: Collection[Name] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CleanupReport:
        """Remove the checkpoints that `policy` lets go, of all threads or of one, and what only they needed; what that was.

        Without `policy`, the checkpointer's own (`retention=`) counts. A thread that has a policy of its own (`aput_retention`)
        goes by that, unless `config` names it and `policy` is given. Checkpoints in `keep`, by namespace and id, stay in
        any case. With `dry_run` nothing is removed; the report says what would be. `progress` counts checkpoints looked at.
        A cleanup of all threads also gives the space back to the system.
        """
        general = self._retention if policy is None else policy
        if not isinstance(general, RetentionPolicy):
            raise ConfigError(
                f"acleanup takes a clew.RetentionPolicy, not {type(policy).__name__}; "
                "without one, the checkpointer needs its own: connect(url, retention=clew.RetentionPolicy(…))"
            )
        sweep = _Sweep(frozenset(keep), dry_run, progress)
        if progress is not None:
            async for page in self._thread_pages(config):
                sweep.total += sum(record.checkpoint_count for record in page)
        sweep.looked_at(0)

        async def clean(record: ThreadRecord) -> None:
            chosen: RetentionPolicy | None = general
            if config is None or policy is None:
                chosen = self._policy_of(record, general)
            if chosen is not None:
                size = record.size
                if may_touch(record, chosen, self._clock.now()):
                    size = await self._clean(record, chosen, sweep)
                sweep.removed["over_limit"] += chosen.max_bytes is not None and size > chosen.max_bytes
            sweep.looked_at(record.checkpoint_count)

        await _side_by_side(self._thread_pages(config), clean)
        sweep.looked_at(sweep.total - sweep.done)
        if config is None and sweep.removed["threads"] and not dry_run:
            # It goes over the whole store: too much for one thread's sake.
            await self._try(self._storage.reclaim)
        return CleanupReport(**sweep.removed, dry_run=dry_run)

    cleanup = blocking(acleanup)

    def _policy_of(self, record: ThreadRecord, general: RetentionPolicy) -> RetentionPolicy | None:
        """The thread's own policy, or `general`; `None` if its own can't be read: then nothing of it may go."""
        try:
            return described_policy(self._codec, record) or general
        except (CorruptRecordError, ConfigError):
            return None

    async def _clean(self, record: ThreadRecord, policy: RetentionPolicy, sweep: _Sweep) -> int:
        """Let go of what is due in one thread: in one commit, if nobody writes to it meanwhile. What it takes then."""
        if not await self._is_due(record, policy, sweep.keep):
            return record.size
        removed, size, attempts = Counter[str](), record.size, 0
        while (plan := await self._plan(record, policy, sweep.keep, size)).going or plan.unneeded:
            if sweep.dry_run:
                removed += await self._in_all(record, plan)
                break
            try:
                gone = await self._let_go(record, plan, values=attempts < ATTEMPTS)
            except LeaseError:
                # Somebody has its turn, and the storage gives way to nobody without one: next time.
                break
            except ConflictError:
                # Written to since, or tidied up by another: look again. A thread that is never quiet keeps its values for now.
                attempts += 1
                if attempts > ATTEMPTS:
                    break
                continue
            if not gone:
                break
            removed += gone
            size = await self._size_now(record)
            fits = policy.max_bytes is None or size <= policy.max_bytes + plan.shared
            if fits and len(plan.going) <= MOST_REMOVED:
                break
        if removed:
            if not sweep.dry_run:
                removed["value_bytes"] = max(
                    0, record.size - size - removed["checkpoint_bytes"] - removed["attachment_bytes"]
                )
            less = sweep.add(removed)
            if sweep.dry_run:
                return record.size - less
        return size

    async def _is_due(self, record: ThreadRecord, policy: RetentionPolicy, keep: Names) -> bool:
        """Whether it is worth reading more of the thread than the list of its checkpoints."""
        if policy.max_bytes is not None and record.size > policy.max_bytes:
            return True
        page = await self._checkpoint_page(record, detail="info")
        return any(_name(each) not in keep for each in due(page.checkpoints, policy, self._clock.now()))

    async def _plan(self, record: ThreadRecord, policy: RetentionPolicy, keep: Names, size: int) -> Plan:
        """What is to go of a thread of `size` bytes, the oldest first."""
        # The log first: if a checkpoint comes after it was read, it is not as of now any more, and nothing is taken out.
        log = await self._log(record)
        query = AttachmentQuery(thread_id=record.thread_id, user=ANY_USER)
        attached: dict[Name, list[int]] = defaultdict(list)
        for each in await self._try(lambda: self._storage.attachments(query)):
            attached[each.namespace, each.checkpoint_id].append(len(each.data))
        held = [replace(each, size=each.size + sum(attached.get(_name(each), ()))) for each in await self._held(record)]
        going = [each for each in due(held, policy, self._clock.now()) if _name(each) not in keep]
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

    async def _let_go(self, record: ThreadRecord, plan: Plan, *, values: bool) -> Counter[str]:
        """Take out what is going and the values that only it needed; of very many, all but the last so many. What that was."""
        at, going = 0, plan.going
        while len(going) - at > MOST_REMOVED:
            some = going[at : min(at + MOST_REMOVED, len(going) - MOST_REMOVED)]
            await self._upkeep(record, remove=Removal(checkpoints=tuple(map(_name, some))))
            at += len(some)
        if at:
            # The values go with the last ones, once the thread has been looked at again.
            return plan.counted(going[:at])
        found = await self._unneeded(record, plan) if values else Garbage()
        if not going and not found.ranges:
            return Counter()
        removal = Removal(
            checkpoints=tuple(map(_name, going)),
            values=tuple(found.ranges),
            as_of=plan.log.sequence if found.ranges else None,
        )
        await self._upkeep(
            record, basis=plan.log.basis if values else None, remove=removal, merge=tuple(found.hollowed)
        )
        return plan.counted(going, found.ranges)

    async def _in_all(self, record: ThreadRecord, plan: Plan) -> Counter[str]:
        """What `_let_go` would take out in the end."""
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
        return await self._garbage(record, plan.log, [each for each in plan.held if _name(each) not in going])

    async def _sizes(self, record: ThreadRecord, rows: Sequence[ValueRow]) -> list[RowSize]:
        ranges = [(row.first, row.end) for row in rows]
        return [
            RowSize(row.first, row.count, len(row.digests) + len(row.data))
            async for row in self._rows_of(record, ranges)
        ]


class Plan(Struct, frozen=True, kw_only=True):
    """A thread as it was read, and the checkpoints that go."""

    log: ValuePage
    held: Sequence[Held]
    going: Sequence[Held]
    attached: Mapping[Name, Sequence[int]]
    """What each attachment of a checkpoint takes."""
    shared: int
    """What values of the thread's own take that its forks share; counted only if it is over its limit."""
    unneeded: bool
    """Whether there is something in its log that no checkpoint needs, such as what a deleted fork shared; the same."""

    def counted(self, gone: Sequence[Held], values: Iterable[Range] = ()) -> Counter[str]:
        """What these checkpoints and `values` come to, by the fields of a CleanupReport."""
        attachments = [size for each in gone for size in self.attached.get(_name(each), ())]
        return Counter(
            checkpoints=len(gone),
            checkpoint_bytes=sum(each.size for each in gone) - sum(attachments),
            attachments=len(attachments),
            attachment_bytes=sum(attachments),
            values=sum(end - first for first, end in values),
        )


class _Sweep:
    """How far a cleanup has come, and what it has removed."""

    def __init__(self, keep: Names, dry_run: bool, progress: Progress | None) -> None:
        self.keep = keep
        self.dry_run = dry_run
        self.removed: Counter[str] = Counter()
        self.done = self.total = 0
        self._progress = progress

    def add(self, removed: Counter[str]) -> int:
        """Count what was removed of one thread; how many bytes that were."""
        size = sum(count for name, count in removed.items() if name.endswith("_bytes"))
        self.removed += removed
        self.removed["threads"] += 1
        self.removed["bytes"] += size
        return size

    def looked_at(self, checkpoints: int) -> None:
        # Threads come and go while it goes on, so what was counted before is only about right.
        self.done = min(self.done + checkpoints, self.total)
        if self._progress is not None:
            self._progress(self.done, self.total)


async def _side_by_side(
    pages: AsyncIterator[list[ThreadRecord]], work: Callable[[ThreadRecord], Awaitable[None]]
) -> None:
    """Do `work` for every thread, a few at once where the storage waits; the first error ends it."""
    if inline.get():
        async for page in pages:
            for record in page:
                await work(record)
        return
    going: set[asyncio.Future[None]] = set()
    try:
        async for page in pages:
            for record in page:
                going.add(asyncio.ensure_future(work(record)))
                if len(going) >= AT_ONCE:
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


def _name(checkpoint: Dated) -> Name:
    return checkpoint.namespace, checkpoint.checkpoint_id
