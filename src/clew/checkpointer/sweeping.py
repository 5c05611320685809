"""Going through a store thread by thread, for maintenance. It acts for everybody and is no activity of a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from clew.checkpointer.saving import Saving
from clew.errors import ConflictError, CorruptRecordError
from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.config import ANY_USER, Address, Config, User, read_config
from clew.model.queries import CheckpointPage, CheckpointQuery, Detail, ThreadQuery, ValuePage, ValueQuery
from clew.model.records import ThreadRecord
from clew.model.reports import Progress
from clew.upkeep import compaction

PAGE = 500
"""How many threads are read at a time."""


class Sweeping(Saving):
    """Reads and tidies whole threads."""

    async def _each_thread(
        self, config: Config | str | None, progress: Progress | None, user: User = ANY_USER
    ) -> AsyncIterator[ThreadRecord]:
        """The thread that `config` names, or all of `user`, as they were at the start."""
        if config is not None:
            address = read_config(config)
            records = await self._thread_page(ThreadQuery(user=address.user, thread_id=address.thread_id))
        else:
            records = []
            while page := await self._thread_page(ThreadQuery(user=user, offset=len(records), limit=PAGE)):
                records += page
        for done, record in enumerate(records):
            if progress is not None:
                progress(done, len(records))
            yield record
        if progress is not None:
            progress(len(records), len(records))

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
        page = await self._value_rows(record)
        checkpoints = (await self._checkpoint_page(record, detail="body")).checkpoints
        try:
            needed = [each for checkpoint in checkpoints for each in self._codec.covers(checkpoint.body)]
        except CorruptRecordError:
            # What a damaged checkpoint needs is not known, so nothing is garbage.
            return
        found = compaction.garbage(page.rows, needed, page.fixed_before)
        if found.ranges and page.basis is not None:
            removal = Removal(values=tuple(found.ranges), as_of=page.sequence)
            try:
                await self._apply_unseen(
                    self._upkeep_commit(record, basis=page.basis, remove=removal, merge=tuple(found.hollowed))
                )
            except ConflictError:
                # Written to since: a new checkpoint may need what was garbage before. The next sweep looks again.
                return

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
