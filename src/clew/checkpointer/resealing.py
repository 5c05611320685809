"""Sealing what is stored anew: with another key, or for the first time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from clew.checkpointer.blocking import blocking
from clew.checkpointer.sweeping import ATTEMPTS, Sweeping
from clew.codec.frame import BROKEN
from clew.errors import ConfigError, ConflictError, LeaseError
from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.config import ANY_USER, Config
from clew.model.queries import ValueQuery
from clew.model.records import AttachmentRecord, MessageRecord, ValueRow
from clew.model.reports import Progress, ResealReport
from clew.storage.copying import Content, again, fields_of, read_content
from clew.storage.encrypted import EncryptedStorage, encrypted_in

_TOGETHER: Final = 1 << 20
"""About how many bytes are written again in one commit."""
_R = TypeVar("_R", AttachmentRecord, MessageRecord, ValueRow)


class ResealMethods(Sweeping):
    """Methods that change what a store is encrypted with."""

    async def areseal(self, config: Config | str | None = None, *, progress: Progress | None = None) -> ResealReport:
        """Seal every record with the current key that is not, in all threads or in one; what came of it.

        The way to leave an old key behind, and to encrypt a store that was not (`Encryption(…, plain="read")`). Nothing else
        changes, and work may go on meanwhile: a thread that is written to all the time is left, and reported. Raises
        ConfigError if the checkpointer has no `encryption`.
        """
        sealing = encrypted_in(self._storage)
        if not sealing:
            raise ConfigError("there is nothing to seal with: open the store with encryption=clew.Encryption(keys=…)")
        threads, resealed = 0, 0
        left: list[str] = []
        async for record in self._each_thread(config, progress):
            threads += 1
            if not await self._stale(sealing, record.thread_id):
                continue
            await self._reseal(record.thread_id)
            resealed += 1
            if await self._stale(sealing, record.thread_id):
                left.append(record.thread_id)
        return ResealReport(threads=threads, resealed=resealed, left=tuple(left))

    reseal = blocking(areseal)

    async def _stale(self, sealing: Sequence[EncryptedStorage], thread_id: str) -> bool:
        for each in sealing:
            if await self._try(partial(each.stale, thread_id)):
                return True
        return False

    async def _reseal(self, thread_id: str) -> None:
        """Write everything in the thread again as it is, unless somebody else writes to it all the time."""
        query = ValueQuery(thread_id=thread_id, user=ANY_USER)
        for _ in range(ATTEMPTS):
            # Its number first: if anything is written after it was read, nothing is written over it.
            log = await self._try(lambda: self._storage.values(query))
            content = await self._try(lambda: read_content(self._storage, thread_id))
            if content is None:
                return
            sequence = log.sequence
            try:
                for at, part in _parts(content, log.fixed_before):
                    await self._apply_unseen(
                        Commit(
                            commit_id=new_id(),
                            thread_id=thread_id,
                            user=ANY_USER,
                            at=at,
                            basis=log.basis,
                            remove=Removal(as_of=sequence),
                            **part,
                        )
                    )
                    sequence += 1
                return
            except LeaseError:
                return
            except ConflictError:
                continue


def _parts(content: Content, fixed_before: int) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """When and what each commit brings that writes a thread again. What can't be opened stays as it is."""
    last = content.thread.updated_at
    if content.thread.data != BROKEN:
        yield last, {"thread": fields_of(content.thread)}
    for rows in _together(row for row in content.rows if row.first >= fixed_before):
        yield last, {"merge": rows}
    for each in content.checkpoints:
        if BROKEN not in (each.body, each.metadata):
            # In its place, and of its time.
            yield each.created_at, {"checkpoint": again(each)}
    for attachments in _together(content.attachments):
        yield last, {"attachments": attachments}
    for messages in _together(content.messages):
        yield last, {"messages": messages}


def _together(records: Iterable[_R]) -> Iterator[tuple[_R, ...]]:
    """Those of `records` that could be opened, so many at a time as is good."""
    some: list[_R] = []
    size = 0
    for each in records:
        if each.data == BROKEN:
            continue
        some.append(each)
        size += len(each.data)
        if size > _TOGETHER:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)
