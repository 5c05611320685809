"""The hot tier: rows and volatile states in a hot storage, as long as that answers. Nothing here raises: it is there or not."""

from __future__ import annotations

import asyncio
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from clew.clock import Clock
from clew.errors import ClewError, CorruptRecordError, StorageError
from clew.model.commit import Applied
from clew.model.config import ANY_USER, User
from clew.model.queries import AttachmentQuery, CheckpointPage, CheckpointQuery
from clew.model.records import Basis, Range, ValueRow
from clew.model.status import CacheStatus
from clew.storage.cached import entries
from clew.storage.cached.background import MAX_BYTES, Pending, Worker, Workers, Write
from clew.storage.cached.bounds import Bounds
from clew.storage.cached.breaker import Breaker
from clew.storage.cached.covering import HeldRow, largest, missing, overlapping
from clew.storage.cached.entries import Entry
from clew.storage.offload import may_block
from clew.storage.protocol import Storage

CONNECTING: Final = 2.0
"""How long the very first call may take: it connects."""
MOST_BLOCKS: Final = 256
"""A state that lies in more blocks is read from the cold storage."""
SMALL: Final = 64 << 10
TIDY_FROM: Final = 32
"""So many entries that are small or superfluous are put together into one by whoever reads them."""
OWED: Final = 10_000
"""How many threads to take away are remembered while the hot storage does not answer."""
_AT_ONCE: Final = 256
_TROUBLE: Final = (ClewError, TimeoutError, ValueError, LookupError, ArithmeticError, struct.error)
"""What a storage raises that is away, and what it may raise on what others have put there."""

T = TypeVar("T")


class Found(Struct, frozen=True):
    """Rows of a thread, in order and apart, and the ranges that they don't hold."""

    rows: list[HeldRow]
    missing: list[Range]


class HotTier:
    """Keeps at most about `max_threads` threads, `ttl` seconds after their last use, and waits `timeout` seconds at most."""

    def __init__(
        self, hot: Storage, *, max_threads: int, ttl: float | None, touch_every: float, timeout: float, clock: Clock
    ) -> None:
        """`ttl`: for a hot storage that does not forget by itself."""
        self._hot = hot
        self._bounds = Bounds(max_threads=max_threads, ttl=ttl, touch_every=touch_every, clock=clock)
        self._timeout = timeout
        self._clock = clock
        self._breaker = Breaker(hot.capabilities.name, clock)
        self._pending = Pending()
        self._workers = Workers("the cache", self._new_worker, self._end_worker)
        # What never waits is done in its place.
        self._at_once = not hot.capabilities.suspends and not hot.capabilities.durable
        self._owed: OrderedDict[str, None] = OrderedDict()
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
        """Finish what is on its way, for a moment at most, and close the hot storage."""
        self._closed = True
        if not may_block():
            await self._workers.close()
        await self._call(self._hot.close, CONNECTING)

    async def settle(self) -> None:
        """Return when what this event loop has on its way has arrived."""
        if not may_block():
            await (await self._workers.get()).settle()

    async def usable(self) -> bool:
        """Whether the hot storage is to be asked. If it is not, it is tried again in the background, now and then."""
        if self._closed:
            return False
        if not self._breaker.available and self._breaker.may_try():
            await self._later("probe", self._probe)
        return self._breaker.available

    # Rows

    async def lookup(self, thread_id: str, basis: Basis, covers: Sequence[Range]) -> Found | None:
        """The rows that hold the values of `covers` in the log that `basis` names; `None` if that can't be told.

        Rows of another epoch are not taken: those of a later one may lack values that a checkpoint needs, and those of an
        earlier one hold some that the storage has let go, which the reader would take for stored.
        """
        # First what is on its way: what arrives meanwhile is found there, then.
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
            await self.distrust(thread_id)
            return None
        if read:
            await self._look_after(thread_id, basis, chosen, read)
        ranges = list(covers)
        needed = overlapping([each.row for each in chosen], ranges)
        wanted = {row.first for row in needed}
        return Found([each for each in chosen if each.row.first in wanted], missing(needed, ranges))

    async def keep(self, thread_id: str, basis: Basis, rows: Sequence[ValueRow], *, read: bool) -> None:
        """Put `rows`, which are of the log that `basis` names, into the hot storage; `read`: for a read, not for a commit."""
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
        """Take threads out of the hot storage; if it does not answer, as soon as it does."""
        if self._closed:
            return
        if not await self.usable():
            self._owe(thread_ids)
            return
        writes = [Write(entries.drop_commit(thread_id, self._clock.now())) for thread_id in thread_ids]
        waiting: list[asyncio.Future[None]] = []
        for write in writes:
            self._bounds.forget(write.commit.thread_id)
            if not self._in_place():
                write.done = asyncio.get_running_loop().create_future()
                waiting.append(write.done)
            await self._send(write, bounded=False)
        if waiting:
            await asyncio.wait(waiting, timeout=self._timeout)

    async def distrust(self, thread_id: str) -> None:
        """Take out a thread whose rows contradict each other, or the cold storage."""
        self._breaker.hurt(CorruptRecordError(f"thread {thread_id!r}: rows contradict each other"))
        await self._send(Write(entries.drop_commit(thread_id, self._clock.now())), bounded=False)

    async def _read(self, thread_id: str, incarnation: str, blocks: set[int]) -> list[Entry] | None:
        """All entries of the blocks; those that are damaged are taken out."""
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
            self._breaker.hurt(CorruptRecordError(f"{len(damaged)} entries of thread {thread_id!r} are damaged"))
            await self._send(Write(entries.removal_commit(thread_id, damaged, self._clock.now())))
        return found

    async def _pages(self, queries: Sequence[CheckpointQuery]) -> list[CheckpointPage]:
        if len(queries) == 1 or may_block():
            return [await self._hot.checkpoints(query) for query in queries]
        return await asyncio.gather(*[self._hot.checkpoints(query) for query in queries])

    async def _look_after(self, thread_id: str, basis: Basis, chosen: Sequence[HeldRow], read: Sequence[Entry]) -> None:
        """Mark the thread as used; put small entries together, and take out what others have made superfluous."""
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
        self, thread_id: str, namespace: str, user: User, version: entries.Version, state: bytes, ttl: float
    ) -> bool:
        """Keep a volatile state for all processes; false if that can't be done."""
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

    async def get_state(self, thread_id: str, namespace: str, user: User, version: entries.Version) -> bytes | None:
        """The volatile state that was kept for this head of the thread, by this user, if it is not too old."""
        if not await self.usable():
            return None
        query = AttachmentQuery(thread_id=thread_id, user=ANY_USER, namespace=entries.STATES, checkpoint_id=namespace)
        found = await self._call(lambda: self._hot.attachments(query), self._timeout)
        state = entries.read_state(thread_id, namespace, user, found or ())
        if state is None or state.version != version or state.expires <= self._clock.now().timestamp():
            return None
        await self._use(thread_id, written=False)
        return state.packed

    # How it goes there

    async def _call(self, operation: Callable[[], Awaitable[T]], seconds: float) -> T | None:
        """The result of `operation`, or `None` if the hot storage does not give it in time."""
        if self._breaker.untried:
            seconds = max(seconds, CONNECTING)
        try:
            if self._in_place():
                result = await operation()
            else:
                async with asyncio.timeout(seconds):
                    result = await operation()
        except CorruptRecordError as error:
            self._breaker.hurt(error)
            return None
        except _TROUBLE as error:
            self._breaker.failed(error)
            return None
        self._breaker.answered()
        return result

    def _in_place(self) -> bool:
        return self._at_once or may_block()

    async def _send(self, write: Write, *, bounded: bool = True) -> bool:
        """Have `write` done: in the background, or now where nobody would wait for it. False if there is too much to do."""
        if not self._pending.add(write, bounded=bounded):
            return False
        if self._in_place():
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
                self._owe(drops)

    async def _later(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        if self._in_place():
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

    def _owe(self, thread_ids: Sequence[str]) -> None:
        for thread_id in thread_ids:
            self._owed[thread_id] = None
        while len(self._owed) > OWED:
            self._owed.popitem(last=False)

    async def _probe(self) -> None:
        if await self._call(self._answers, self._timeout) is None:
            return
        owed, self._owed = list(self._owed), OrderedDict()
        for start in range(0, len(owed), _AT_ONCE):
            some = owed[start : start + _AT_ONCE]
            await self._write([Write(entries.drop_commit(thread_id, self._clock.now())) for thread_id in some])

    async def _answers(self) -> bool:
        await self._hot.ping()
        return True

    # How much is kept

    async def _use(self, thread_id: str, *, written: bool) -> None:
        if self._bounds.used(thread_id, written=written):
            await self._send(Write(entries.touch_commit(thread_id, self._clock.now())))
        if self._bounds.sweep_due():
            await self._later("sweep", self._sweep)

    async def _sweep(self) -> None:
        try:
            self._evicted += await self._bounds.sweep(self._hot)
        except _TROUBLE as error:
            # It takes long among many threads: whether the hot storage answers is for others to find out.
            self._breaker.hurt(error)
