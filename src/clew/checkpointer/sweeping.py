"""Going through a store thread by thread, for maintenance. It acts for everybody and is no activity of a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import Any

from clew.checkpointer.saving import Saving
from clew.errors import ConflictError, CorruptRecordError
from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.config import ANY_USER, Address, Config, User, read_config
from clew.model.queries import CheckpointPage, CheckpointQuery, Detail, ThreadQuery, ValuePage, ValueQuery
from clew.model.records import Range, ThreadRecord, ValueRow
from clew.model.reports import Progress
from clew.upkeep import compaction
from clew.upkeep.retention import Held, needed

FIRST_PAGE, LARGEST_PAGE = 500, 20_000
"""How many threads are read at a time: more each time, because some storages read a page's predecessors too, but never so many
that memory would tell."""
BODIES = 1_000
"""How many bodies of checkpoints are read at a time."""
ROWS = 64
"""How many rows of values are read at a time, where only their sizes are wanted."""
ATTEMPTS = 5
"""How often values are collected anew because somebody wrote to the thread meanwhile; then the next sweep has to do it."""


class Sweeping(Saving):
    """Reads and tidies whole threads."""

    async def _each_thread(
        self, config: Config | str | None, progress: Progress | None, user: User = ANY_USER
    ) -> AsyncIterator[ThreadRecord]:
        """The thread that `config` names, or all of `user`, as they were at the start."""
        records = [record async for page in self._thread_pages(config, user) for record in page]
        for done, record in enumerate(records):
            if progress is not None:
                progress(done, len(records))
            yield record
        if progress is not None:
            progress(len(records), len(records))

    async def _thread_pages(
        self, config: Config | str | None, user: User = ANY_USER
    ) -> AsyncIterator[list[ThreadRecord]]:
        """The same page by page, as they are when it comes to them: one may be met twice, or not if others are deleted."""
        if config is not None:
            address = read_config(config)
            yield await self._thread_page(ThreadQuery(user=address.user, thread_id=address.thread_id))
            return
        offset, limit = 0, FIRST_PAGE
        while page := await self._thread_page(ThreadQuery(user=user, offset=offset, limit=limit)):
            yield page
            offset += len(page)
            limit = min(max(limit, offset), LARGEST_PAGE)

    async def _delete_threads(self, user: User, progress: Progress | None) -> int:
        count = 0
        async for record in self._each_thread(None, progress, user):
            await self._upkeep(record, remove=Removal(thread=True))
            self._forget(address_of(record, user))
            count += 1
        await self._try(self._storage.reclaim)
        return count

    async def _collect(self, record: ThreadRecord) -> None:
        """Take values out of the thread's log that none of its checkpoints needs."""
        # The log first: if a checkpoint comes after it was read, it is not as of now any more, and nothing is taken out.
        log = await self._log(record)
        found = await self._garbage(record, log, await self._held(record))
        if found.ranges and log.basis is not None:
            removal = Removal(values=tuple(found.ranges), as_of=log.sequence)
            try:
                await self._upkeep(record, basis=log.basis, remove=removal, merge=tuple(found.hollowed))
            except ConflictError:
                # Written to since: a new checkpoint may need what was garbage before. The next sweep looks again.
                return

    async def _held(self, record: ThreadRecord) -> list[Held]:
        """All checkpoints of the thread, newest first, with what they take and need. Their bodies are read bit by bit."""
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
            page = (await self._try(partial(self._storage.checkpoints, query))).checkpoints
            held += [
                Held(
                    namespace=each.namespace,
                    checkpoint_id=each.checkpoint_id,
                    sequence=each.sequence,
                    created_at=each.created_at,
                    size=len(each.body) + len(each.metadata),
                    needs=self._needs(each.body),
                )
                for each in page
            ]
            if len(page) < BODIES:
                return held
            before = page[-1].sequence

    def _needs(self, body: bytes) -> tuple[Range, ...] | None:
        try:
            return self._codec.covers(body)
        except CorruptRecordError:
            return None

    async def _garbage(self, record: ThreadRecord, log: ValuePage, staying: Iterable[Held]) -> compaction.Garbage:
        """What can go of the log if only the checkpoints in `staying` do."""
        needs = needed(staying)
        if needs is None:
            # What a damaged checkpoint needs is not known, so nothing is garbage.
            return compaction.Garbage()
        to_shorten = compaction.to_shorten(log.rows, needs, log.fixed_before)
        data = {row.first: row async for row in self._rows_of(record, to_shorten)}
        rows = [data.get(row.first, row) for row in log.rows]
        return compaction.garbage(rows, needs, log.fixed_before)

    async def _rows_of(self, record: ThreadRecord, ranges: Sequence[Range]) -> AsyncIterator[ValueRow]:
        """The rows that lie in `ranges`, with their data, a few at a time."""
        for at in range(0, len(ranges), ROWS):
            some = tuple(ranges[at : at + ROWS])
            query = ValueQuery(thread_id=record.thread_id, user=ANY_USER, ranges=some, data=True)
            for row in (await self._try(partial(self._storage.values, query))).rows:
                yield row

    async def _log(self, record: ThreadRecord) -> ValuePage:
        """The thread's log without its data."""
        query = ValueQuery(thread_id=record.thread_id, user=ANY_USER)
        return await self._try(lambda: self._storage.values(query))

    async def _upkeep(self, record: ThreadRecord, **content: Any) -> None:
        await self._apply_unseen(self._upkeep_commit(record, **content))

    def _upkeep_commit(self, record: ThreadRecord, **content: Any) -> Commit:
        # Dated like the thread's last activity: maintenance does not bring it to the top of its owner's list.
        return Commit(commit_id=new_id(), thread_id=record.thread_id, user=ANY_USER, at=record.updated_at, **content)

    async def _checkpoint_page(
        self, record: ThreadRecord, *, detail: Detail, run_id: str | None = None
    ) -> CheckpointPage:
        query = CheckpointQuery(
            thread_id=record.thread_id, user=ANY_USER, namespace=None, run_id=run_id, limit=None, detail=detail
        )
        return await self._try(lambda: self._storage.checkpoints(query))

    async def _value_rows(self, record: ThreadRecord) -> ValuePage:
        query = ValueQuery(thread_id=record.thread_id, user=ANY_USER, data=True)
        return await self._try(lambda: self._storage.values(query))

    async def _size_now(self, record: ThreadRecord) -> int:
        found = await self._thread_page(ThreadQuery(user=ANY_USER, thread_id=record.thread_id))
        return found[0].size if found else 0

    async def _thread_page(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._try(lambda: self._storage.threads(query))


def address_of(record: ThreadRecord, user: User = ANY_USER) -> Address:
    return Address(thread_id=record.thread_id, user=user, run_id=None, checkpoint_id=None, namespace="")
