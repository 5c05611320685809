"""The hot tier: rows and volatile states in a hot storage. Nothing here raises."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from clew.bounded import BoundedMap
from clew.clock import Clock
from clew.errors import ClewError, CorruptRecordError, StorageError
from clew.model.commit import Applied
from clew.model.config import ANY_USER, User
from clew.model.queries import AttachmentQuery, CheckpointPage, CheckpointQuery
from clew.model.records import Basis, Range, ValueRow
from clew.model.status import CacheStatus
from clew.storage.cached import entries
from clew.storage.cached.breaker import Breaker
from clew.storage.cached.coverage import HeldRow, largest, missing, overlapping
from clew.storage.cached.entries import Entry
from clew.storage.cached.eviction import Eviction
from clew.storage.cached.pending_writes import MAX_BYTES, PendingWrites, Worker, Workers, Write
from clew.storage.execution import may_block
from clew.storage.protocol import Storage
from clew.storage.wrapper import StateVersion

CONNECTING: Final = 2.0
"""Timeout of the first call, which connects, in seconds."""
MOST_BLOCKS: Final = 256
"""States in more blocks are read from the cold storage."""
SMALL: Final = 64 << 10
TIDY_FROM: Final = 32
"""A reader that finds this many small or superfluous entries merges them."""
MAX_POSTPONED: Final = 10_000
"""The maximum number of threads to drop that are remembered while the hot storage does not answer."""
_AT_ONCE: Final = 256
_HOT_ERRORS: Final = (ClewError, TimeoutError, ValueError, LookupError, ArithmeticError, struct.error)
"""Errors of a storage that is down, or that reads data which others have damaged."""

T = TypeVar("T")


class Found(Struct, frozen=True):
    """Rows of a thread, sorted and disjoint, and the ranges that they don't hold."""

    rows: list[HeldRow]
    missing: list[Range]


class HotTier:
    """Reads and writes a hot storage, with a timeout, a circuit breaker and eviction."""

    def __init__(
        self, hot: Storage, *, max_threads: int, ttl: float | None, touch_every: float, timeout: float, clock: Clock
    ) -> None:
        """`ttl` is for a hot storage without a TTL of its own."""
        self._hot = hot
        self._eviction = Eviction(max_threads=max_threads, ttl=ttl, touch_every=touch_every, clock=clock)
        self._timeout = timeout
        self._clock = clock
        self._breaker = Breaker(hot.capabilities.name, clock)
        self._pending = PendingWrites()
        self._workers = Workers("the cache", self._new_worker, self._end_worker)
        # A storage that never waits needs no background.
        self._immediate = not hot.capabilities.suspends and not hot.capabilities.durable
        self._postponed: BoundedMap[str, bool] = BoundedMap(max_entries=MAX_POSTPONED)
        self._closed = False
        self.hits = self.misses = self._fills = self._writes = self._dropped = self._evicted = 0

    @property
    def status(self) -> CacheStatus:
        return CacheStatus(
            hits=self.hits,
            misses=self.misses,
            fills=self._fills,
            writes=self._writes,
            dropped=self._dropped,
            evicted=self._evicted,
            errors=self._breaker.errors,
            available=self._breaker.available,
            last_error=self._breaker.last_error,
        )

    async def setup(self) -> None:
        await self._call(self._hot.setup, CONNECTING)

    async def close(self) -> None:
        """Finish pending writes, for a moment at most, and close the hot storage."""
        self._closed = True
        if not may_block():
            await self._workers.close()
        await self._call(self._hot.close, CONNECTING)

    async def settle(self) -> None:
        """Wait for the pending writes of this event loop."""
        if not may_block():
            await (await self._workers.get()).settle()

    async def usable(self) -> bool:
        """Return whether to use the hot storage. If not, it is retried in the background."""
        if self._closed:
            return False
        if not self._breaker.available and self._breaker.may_try():
            await self._schedule("probe", self._probe)
        return self._breaker.available

    # Rows

    async def lookup(self, thread_id: str, basis: Basis, covers: Sequence[Range]) -> Found | None:
        """Return the rows with the values of `covers` in the log of `basis`; None if it is unknown.

        Rows of another epoch are not used: rows of a later epoch may lack values that a checkpoint needs, and
        rows of an earlier epoch hold removed values, which the reader would take for stored ones.
        """
        # Before reading: a write that completes in between is then found in the hot storage.
        held = self._pending.rows(thread_id, basis.incarnation)
        if any(end - first > MOST_BLOCKS * entries.BLOCK for first, end in covers):
            return None
        blocks = entries.blocks_of(covers)
        if len(blocks) > MOST_BLOCKS:
            return None
        read = await self._read(thread_id, basis.incarnation, blocks)
        if read is None:
            return None
        further = entries.blocks_of((first, first + 1) for entry in read for first, _ in entry.pointers) - blocks
        if further and len(further) <= MOST_BLOCKS:
            more = await self._read(thread_id, basis.incarnation, further)
            if more is None:
                return None
            read += more
        chosen = largest(
            row for rows in (held, *(entry.rows for entry in read)) for row in rows if row.epoch == basis.epoch
        )
        if chosen is None:
            await self.discard(thread_id)
            return None
        if read:
            await self._maintain(thread_id, basis, chosen, read)
        ranges = list(covers)
        needed = overlapping([each.row for each in chosen], ranges)
        wanted = {row.first for row in needed}
        return Found([each for each in chosen if each.row.first in wanted], missing(needed, ranges))

    async def keep(self, thread_id: str, basis: Basis, rows: Sequence[ValueRow], *, read: bool) -> None:
        """Put `rows` of the log of `basis` into the hot storage. `read`: they come from a read, not from a commit."""
        if not rows or not await self.usable():
            return
        held = [HeldRow(row, basis.epoch) for row in rows]
        if read:
            known = {(each.row.first, each.row.count) for each in self._pending.rows(thread_id, basis.incarnation)}
            held = [each for each in held if (each.row.first, each.row.count) not in known]
        for commit, brought in entries.row_commits(thread_id, basis.incarnation, held, self._clock.now()):
            if not await self._send(Write(commit, basis.incarnation, brought)):
                self._dropped += len(brought)
            elif read:
                self._fills += len(brought)
            else:
                self._writes += len(brought)
        await self._use(thread_id, written=True)

    async def drop(self, thread_ids: Sequence[str]) -> None:
        """Remove threads from the hot storage; if it does not answer, as soon as it does."""
        if self._closed:
            return
        if not await self.usable():
            self._postpone(thread_ids)
            return
        writes = [Write(entries.drop_commit(thread_id, self._clock.now())) for thread_id in thread_ids]
        waiting: list[asyncio.Future[None]] = []
        for write in writes:
            self._eviction.forget(write.commit.thread_id)
            if not self._inline():
                write.done = asyncio.get_running_loop().create_future()
                waiting.append(write.done)
            await self._send(write, bounded=False)
        if waiting:
            await asyncio.wait(waiting, timeout=self._timeout)

    async def discard(self, thread_id: str) -> None:
        """Remove a thread whose rows contradict each other or the cold storage."""
        self._breaker.record_error(CorruptRecordError(f"thread {thread_id!r}: rows contradict each other"))
        await self._send(Write(entries.drop_commit(thread_id, self._clock.now())), bounded=False)

    async def _read(self, thread_id: str, incarnation: str, blocks: set[int]) -> list[Entry] | None:
        """Return all entries of the blocks, and remove damaged ones."""
        queries = [
            CheckpointQuery(
                thread_id=thread_id,
                user=ANY_USER,
                namespace=entries.namespace_of(incarnation, block),
                limit=None,
                detail="body",
            )
            for block in sorted(blocks)
        ]
        pages = await self._call(lambda: self._pages(queries), self._timeout)
        if pages is None:
            return None
        found: list[Entry] = []
        damaged: list[tuple[str, str]] = []
        for record in (record for page in pages for record in page.checkpoints):
            entry = entries.read_entry(thread_id, record)
            if entry is not None:
                found.append(entry)
            else:
                damaged.append((record.namespace, record.checkpoint_id))
        if damaged:
            self._breaker.record_error(
                CorruptRecordError(f"{len(damaged)} entries of thread {thread_id!r} are damaged")
            )
            await self._send(Write(entries.removal_commit(thread_id, damaged, self._clock.now())))
        return found

    async def _pages(self, queries: Sequence[CheckpointQuery]) -> list[CheckpointPage]:
        if len(queries) == 1 or may_block():
            return [await self._hot.checkpoints(query) for query in queries]
        return await asyncio.gather(*[self._hot.checkpoints(query) for query in queries])

    async def _maintain(self, thread_id: str, basis: Basis, chosen: Sequence[HeldRow], read: Sequence[Entry]) -> None:
        """Mark the thread as used, merge small entries and remove superfluous ones."""
        await self._use(thread_id, written=False)
        if len(read) < TIDY_FROM:
            return
        live = {id(each) for each in chosen}
        kept: list[HeldRow] = []
        old: list[Entry] = []
        for entry in read:
            rows = [row for row in entry.rows if id(row) in live]
            size = sum(row.size for row in rows)
            later = any(row.epoch > basis.epoch for row in entry.rows)
            if not later and not entry.pointers and (size < SMALL or 2 * size < entry.size):
                old.append(entry)
                kept += rows
        if len(old) < TIDY_FROM:
            return
        for commit, brought in entries.row_commits(thread_id, basis.incarnation, kept, self._clock.now()):
            if not await self._send(Write(commit, basis.incarnation, brought)):
                return
        names = [(entry.namespace, entry.entry_id) for entry in old]
        await self._send(Write(entries.removal_commit(thread_id, names, self._clock.now())))

    # Volatile states

    async def put_state(
        self, thread_id: str, namespace: str, user: User, version: StateVersion, state: bytes, ttl: float
    ) -> bool:
        """Keep a volatile state for all processes. Returns false if that fails."""
        if len(state) > MAX_BYTES or not await self.usable():
            return False
        now = self._clock.now()
        expires = now.timestamp() + ttl
        commit = entries.state_commit(thread_id, namespace, user, version, expires, state, now)
        outcomes = await self._call(lambda: self._hot.apply([commit]), 4 * self._timeout)
        if outcomes is None or not isinstance(outcomes[0], Applied):
            return False
        await self._use(thread_id, written=True)
        return True

    async def get_state(self, thread_id: str, namespace: str, user: User, version: StateVersion) -> bytes | None:
        """Return the user's volatile state for this head of the thread, unless it has expired."""
        if not await self.usable():
            return None
        query = AttachmentQuery(thread_id=thread_id, user=ANY_USER, namespace=entries.STATES, checkpoint_id=namespace)
        found = await self._call(lambda: self._hot.attachments(query), self._timeout)
        state = entries.read_state(thread_id, namespace, user, found or ())
        if state is None or state.version != version or state.expires <= self._clock.now().timestamp():
            return None
        await self._use(thread_id, written=False)
        return state.packed

    # Calls

    async def _call(self, operation: Callable[[], Awaitable[T]], seconds: float) -> T | None:
        """Return the result of `operation`; None if it fails or takes too long."""
        if self._breaker.untried:
            seconds = max(seconds, CONNECTING)
        try:
            if self._inline():
                result = await operation()
            else:
                async with asyncio.timeout(seconds):
                    result = await operation()
        except CorruptRecordError as error:
            self._breaker.record_error(error)
            return None
        except _HOT_ERRORS as error:
            self._breaker.failed(error)
            return None
        self._breaker.answered()
        return result

    def _inline(self) -> bool:
        return self._immediate or may_block()

    async def _send(self, write: Write, *, bounded: bool = True) -> bool:
        """Do `write` in the background, or inline. Returns false if too many writes are pending."""
        if not self._pending.add(write, bounded=bounded):
            return False
        if self._inline():
            await self._write([write])
            return True
        worker = await self._worker()
        if worker is None:
            self._pending.remove([write])
            return False
        worker.put(write)
        return True

    async def _write(self, writes: Sequence[Write]) -> None:
        commits = [write.commit for write in writes]
        drops = [commit.thread_id for commit in commits if commit.remove is not None and commit.remove.thread]
        done = False
        try:
            if self._breaker.available:
                outcomes = await self._call(lambda: self._hot.apply(commits), 4 * self._timeout)
                done = outcomes is not None
                for outcome in outcomes or ():
                    if isinstance(outcome, StorageError):
                        self._breaker.failed(outcome)
                        done = False
        finally:
            self._pending.remove(writes)
            if not done:
                self._postpone(drops)

    async def _schedule(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        if self._inline():
            await work()
        elif (worker := await self._worker()) is not None:
            worker.chore(name, work)

    async def _worker(self) -> Worker | None:
        try:
            return await self._workers.get()
        except StorageError:
            return None  # It was closed.

    async def _new_worker(self) -> Worker:
        return Worker(self._write)

    async def _end_worker(self, worker: Worker) -> None:
        self._pending.remove(await worker.close(4 * self._timeout))

    # While it does not answer

    def _postpone(self, drops: Sequence[str]) -> None:
        for thread_id in drops:
            self._postponed.put(thread_id, True)

    async def _probe(self) -> None:
        if await self._call(self._answers, self._timeout) is None:
            return
        drops, self._postponed = list(self._postponed), BoundedMap(max_entries=MAX_POSTPONED)
        for start in range(0, len(drops), _AT_ONCE):
            some = drops[start : start + _AT_ONCE]
            await self._write([Write(entries.drop_commit(thread_id, self._clock.now())) for thread_id in some])

    async def _answers(self) -> bool:
        await self._hot.ping()
        return True

    # Eviction

    async def _use(self, thread_id: str, *, written: bool) -> None:
        if self._eviction.used(thread_id, written=written):
            await self._send(Write(entries.touch_commit(thread_id, self._clock.now())))
        if self._eviction.sweep_due():
            await self._schedule("sweep", self._sweep)

    async def _sweep(self) -> None:
        try:
            self._evicted += await self._eviction.sweep(self._hot)
        except _HOT_ERRORS as error:
            # A sweep over many threads is slow: its failure must not open the breaker.
            self._breaker.record_error(error)
