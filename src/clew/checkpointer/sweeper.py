"""The sweeper: walks a store thread by thread for maintenance.

It acts as `ANY_USER`, and its commits don't count as activity of a thread.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from clew.checkpointer.engine import Engine
from clew.checkpointer.records import BAD_RECORD, check_columns
from clew.checkpointer.thread_pages import thread_pages
from clew.errors import UNREADABLE, ConfigError, ConflictError, CorruptRecordError, SchemaVersionError
from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.config import ANY_USER, Address, Config, User
from clew.model.queries import CheckpointPage, CheckpointQuery, Detail, ThreadQuery, ValuePage, ValueQuery
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.model.reports import Progress
from clew.upkeep import compaction
from clew.upkeep.retention import Held, needed

_log = logging.getLogger("clew")

FIRST_PAGE = 500
"""Threads in the first page that is read. The next ones are larger."""
BODIES = 1_000
"""Bodies of checkpoints read at a time."""
ROWS = 64
"""Value rows read at a time where only their sizes are needed."""
ATTEMPTS = 5
"""How often a thread is read again because of concurrent writes, before it is left to the next sweep."""


class Sweeper:
    """Reads and maintains whole threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # Threads

    async def each_thread(
        self, config: Config | str | None, progress: Progress | None, user: User = ANY_USER
    ) -> AsyncIterator[ThreadRecord]:
        """Yield the thread that `config` names, or all threads of `user` as of the start."""
        _check_progress(progress)
        records = [record async for page in self.thread_pages(config, user) for record in page]
        for done, record in enumerate(records):
            if progress is not None:
                progress(done, len(records))
            yield record
        if progress is not None:
            progress(len(records), len(records))

    async def thread_pages(
        self, config: Config | str | None, user: User = ANY_USER
    ) -> AsyncIterator[list[ThreadRecord]]:
        """Yield the same threads in pages. Each page shows the store at the time of its read.

        A thread that is written to meanwhile moves to the front, and may be left out.
        """
        engine = self._engine
        if config is not None:
            address = engine.address(config)
            yield await engine.threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
            return
        async for page in thread_pages(engine, ThreadQuery(user=user, limit=None), FIRST_PAGE):
            yield page

    @contextmanager
    def skipping_damage(self, record: ThreadRecord, config: Config | str | None) -> Iterator[None]:
        """Log a damaged thread and continue with the next one; raise if `config` names this thread."""
        try:
            yield
        except (CorruptRecordError, SchemaVersionError) as error:
            if config is not None:
                raise CorruptRecordError(
                    f"thread {record.thread_id!r} is damaged: {error}", thread_id=record.thread_id
                ) from error
            _log.warning("damaged thread skipped: %r: %s", record.thread_id, error)

    async def size_now(self, record: ThreadRecord) -> int:
        found = await self._engine.threads(ThreadQuery(user=ANY_USER, thread_id=record.thread_id))
        return found[0].size if found else 0

    async def delete_threads(self, user: User, progress: Progress | None) -> int:
        """Delete all threads of `user` and reclaim the space; returns how many there were.

        A thread that can't be deleted stops no other. Raises CorruptRecordError at the end, with their ids.
        """
        engine, count = self._engine, 0
        lost: dict[str, str] = {}
        async for record in self.each_thread(None, progress, user):
            if record.damage and not await self._can_be_named(record):
                lost[record.thread_id] = "its id is damaged"
                continue
            try:
                await self.commit(record, remove=Removal(thread=True))
            except UNREADABLE as error:
                lost[record.thread_id] = str(error)
                continue
            for whose in {user, record.user_id}:
                # A caller that deletes a thread may create it again, also after deleting all threads.
                engine.forget(address_of(record, whose))
            count += 1
        await engine.retry(engine.storage.reclaim)
        if lost:
            raise CorruptRecordError(
                f"{len(lost)} threads could not be deleted ({_reasons(lost)}); {count} others were deleted. Remove the "
                "damaged ones by hand",
                thread_ids=tuple(lost),
            )
        return count

    async def _can_be_named(self, record: ThreadRecord) -> bool:
        """Return whether the thread of a damaged record is found by the record's id."""
        try:
            return bool(await self._engine.threads(ThreadQuery(user=ANY_USER, thread_id=record.thread_id)))
        except UNREADABLE:
            # It was found, and can't be read.
            return True

    # Commits

    async def commit(self, record: ThreadRecord, **content: Any) -> None:
        """Apply a maintenance commit.

        It has the time of the thread's last activity, so the thread keeps its place in lists.
        """
        await self._engine.apply_unrecorded(
            Commit(commit_id=new_id(), thread_id=record.thread_id, user=ANY_USER, at=record.updated_at, **content)
        )

    async def collect_garbage(self, record: ThreadRecord) -> None:
        """Remove the values that no checkpoint of the thread needs."""
        # The log first: if a checkpoint is added after this read, the commit below is refused.
        log = await self.log(record)
        found = await self.garbage(record, log, await self.held(record))
        if found.ranges and log.basis is not None:
            removal = Removal(values=tuple(found.ranges), as_of=log.sequence)
            try:
                await self.commit(record, basis=log.basis, remove=removal, merge=tuple(found.hollowed))
            except ConflictError:
                # A new checkpoint may need what was garbage before. The next sweep looks again.
                return

    async def compact(self, record: ThreadRecord) -> tuple[int, int]:
        """Collect garbage and merge the value rows of one thread; returns the number of rows before and after."""
        check_columns(record)
        before = len((await self._rows_with_data(record)).rows)
        await self.collect_garbage(record)
        page = await self._rows_with_data(record)
        merged = tuple(compaction.merged(page.rows, page.fixed_before))
        if merged:
            try:
                await self.commit(record, basis=page.basis, merge=tuple(row for row, _ in merged))
            except ConflictError:
                # The rows were changed or deleted concurrently. The next sweep looks again.
                merged = ()
        return before, len(page.rows) - sum(replaced - 1 for _, replaced in merged)

    # Checkpoints and values

    async def checkpoints(self, record: ThreadRecord, *, detail: Detail, run_id: str | None = None) -> CheckpointPage:
        """All checkpoints of the thread, in all namespaces."""
        engine = self._engine
        query = CheckpointQuery(
            thread_id=record.thread_id, user=ANY_USER, namespace=None, run_id=run_id, limit=None, detail=detail
        )
        return await engine.retry(lambda: engine.storage.checkpoints(query))

    async def held(self, record: ThreadRecord) -> list[Held]:
        """All checkpoints of the thread, newest first, with their sizes and the values that they need."""
        engine = self._engine
        held: list[Held] = []
        before: int | None = None
        while True:
            query = CheckpointQuery(
                thread_id=record.thread_id,
                user=ANY_USER,
                namespace=None,
                before_sequence=before,
                limit=BODIES,
                detail="body",
            )
            page = (await engine.retry(partial(engine.storage.checkpoints, query))).checkpoints
            held += [
                Held(
                    namespace=each.namespace,
                    checkpoint_id=each.checkpoint_id,
                    sequence=each.sequence,
                    saved_at=each.saved_at,
                    size=len(each.body) + len(each.metadata),
                    needs=self._needs(each.body),
                    damaged=bool(each.damage),
                )
                for each in page
            ]
            if len(page) < BODIES:
                return held
            before = page[-1].sequence

    def _needs(self, body: bytes) -> tuple[Range, ...] | None:
        try:
            return self._engine.codec.covers(body)
        except BAD_RECORD:
            return None

    async def garbage(self, record: ThreadRecord, log: ValuePage, staying: Iterable[Held]) -> compaction.Garbage:
        """The values of the log that no checkpoint in `staying` needs."""
        needs = needed(staying)
        if needs is None:
            # A damaged checkpoint may need any value.
            return compaction.Garbage()
        to_shorten = compaction.to_shorten(log.rows, needs, log.fixed_before)
        data = {row.first: row async for row in self.rows_of(record, to_shorten)}
        rows = [data.get(row.first, row) for row in log.rows]
        return compaction.garbage(rows, needs, log.fixed_before)

    async def log(self, record: ThreadRecord) -> ValuePage:
        """The thread's log without its data."""
        return await self._engine.values(ValueQuery(thread_id=record.thread_id, user=ANY_USER))

    async def _rows_with_data(self, record: ThreadRecord) -> ValuePage:
        return await self._engine.values(ValueQuery(thread_id=record.thread_id, user=ANY_USER, data=True))

    async def rows_of(self, record: ThreadRecord, ranges: Sequence[Range]) -> AsyncIterator[ValueRow]:
        """Yield the rows in `ranges` with their data, a few at a time."""
        for at in range(0, len(ranges), ROWS):
            some = tuple(ranges[at : at + ROWS])
            query = ValueQuery(thread_id=record.thread_id, user=ANY_USER, ranges=some, data=True)
            for row in (await self._engine.values(query)).rows:
                yield row


def _check_progress(progress: Progress | None) -> None:
    if progress is not None and not callable(progress):
        raise ConfigError(f"progress must be a function of two numbers, done and total, not {type(progress).__name__}")


def _reasons(lost: dict[str, str]) -> str:
    """The first few ids with the reasons, for a message."""
    some = [f"{thread_id!r}: {reason}" for thread_id, reason in list(lost.items())[:5]]
    return "; ".join(some) + ("; …" if len(lost) > len(some) else "")


def address_of(record: ThreadRecord, user: User = ANY_USER) -> Address:
    return Address(thread_id=record.thread_id, user=user, run_id=None, checkpoint_id=None, namespace="")
