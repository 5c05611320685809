"""The cached storage: a write-through and read-through cache in front of a cold storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ClewError
from clew.model.commit import Applied, Commit
from clew.model.queries import CheckpointPage, CheckpointQuery, ValueQuery
from clew.model.records import Range
from clew.model.status import Status
from clew.storage.cached.coverage import HeldRow, largest, overlapping
from clew.storage.cached.tier import HotTier
from clew.storage.conversions import union
from clew.storage.protocol import Capabilities, Storage
from clew.storage.wrapper import StorageWrapper


class CachedStorage(StorageWrapper):
    """`cold`, with the values of recently used threads in `hot`: any storage that nothing else
    uses.

    Reads are never stale: each asks `cold` which checkpoint to load and which values it needs, in
    one small query. Only the values come from `hot`, and missing ones from `cold`. If `hot` is
    down, slow, empty or damaged, everything comes from `cold`, at most `timeout` seconds later.

    The about `max_threads` most recently used threads are kept (each process may add a sixteenth),
    for `ttl` seconds after their last use if `hot` has no TTL of its own. Rows whose data is not
    `intact` are not cached.
    """

    def __init__(
        self,
        cold: Storage,
        hot: Storage,
        *,
        max_threads: int = 1000,
        ttl: float | None = None,
        touch_every: float = 60.0,
        timeout: float = 0.25,
        intact: Callable[[bytes], bool] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(cold)
        self.hot = HotTier(hot, max_threads=max_threads, ttl=ttl, touch_every=touch_every, timeout=timeout, clock=clock)
        self._hot_capabilities = hot.capabilities
        self._intact = intact

    @property
    def capabilities(self) -> Capabilities:
        cold, hot = self.inner.capabilities, self._hot_capabilities
        return Capabilities(
            name=f"{cold.name}+{hot.name}",
            durable=cold.durable,
            suspends=cold.suspends or hot.suspends,
            shares_forks=cold.shares_forks,
            journals=cold.journals,
        )

    def states(self) -> HotTier:
        return self.hot

    async def status(self, found: Status) -> Status:
        # This starts a retry in the background if one is due.
        await self.hot.usable()
        return dataclasses.replace(await super().status(found), cache=self.hot.status)

    async def setup(self) -> None:
        await super().setup()
        await self.hot.setup()

    async def close(self) -> None:
        try:
            await self.hot.close()
        finally:
            await super().close()

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """Apply to the cold storage. The hot one is written in the background."""
        outcomes = await super().apply(commits)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, Applied):
                await self._follow(commit, outcome)
        return outcomes

    async def _follow(self, commit: Commit, applied: Applied) -> None:
        removed = commit.remove
        if removed is not None and (removed.thread or removed.state or removed.values):
            # Nothing refers to them, but deleted data must not stay in the cache.
            await self.hot.drop([commit.thread_id])
        if applied.basis is not None and not applied.repeated and (commit.values or commit.merge):
            rows = [*([commit.values] if commit.values else ()), *commit.merge]
            await self.hot.keep(commit.thread_id, applied.basis, rows, read=False)

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        if not self._through_hot(query) or not await self.hot.usable():
            return await super().checkpoints(query)
        page = await super().checkpoints(replace(query, detail="body"))
        covers = union(cover for each in page.checkpoints if each.checkpoint_id != query.known for cover in each.covers)
        if not covers or page.basis is None:
            return page
        return await self._with_rows(query, page, covers) or await super().checkpoints(query)

    def _through_hot(self, query: CheckpointQuery) -> bool:
        """Return whether a query loads states for use.

        Queries without a limit verify or copy a whole thread, and must read the cold storage.
        """
        return query.detail == "state" and query.limit is not None

    async def _with_rows(
        self, query: CheckpointQuery, page: CheckpointPage, covers: Sequence[Range]
    ) -> CheckpointPage | None:
        """Return `page` with its rows; None if all of it must be read from the cold storage."""
        basis = page.basis
        assert basis is not None
        found = await self.hot.lookup(query.thread_id, basis, covers)
        if found is None:
            return None
        if not found.missing:
            self.hot.hits += 1
            return replace(page, rows=tuple(each.row for each in found.rows))
        self.hot.misses += 1
        asked = ValueQuery(thread_id=query.thread_id, user=query.user, ranges=tuple(found.missing), data=True)
        values = await self.values(asked)
        if values.basis is None or (values.basis.incarnation, values.basis.epoch) != (basis.incarnation, basis.epoch):
            # Values were removed between the two reads, perhaps this checkpoint's.
            return None
        chosen = largest([*found.rows, *(HeldRow(row, basis.epoch) for row in values.rows)])
        if chosen is None:
            await self.hot.discard(query.thread_id)
            return None
        whole = [row for row in values.rows if self._intact is None or self._intact(row.data)]
        await self.hot.keep(query.thread_id, basis, whole, read=True)
        return replace(page, rows=tuple(overlapping([each.row for each in chosen], covers)))
