"""Resealing: encrypts stored records with another key, or for the first time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from clew.checkpointer.blocking import blocking
from clew.checkpointer.engine import Engine
from clew.checkpointer.runner import Runner
from clew.checkpointer.sweeper import ATTEMPTS, Sweeper
from clew.errors import ConfigError, ConflictError, LeaseError
from clew.ids import new_id
from clew.model.commit import Commit, Removal
from clew.model.config import ANY_USER, Config
from clew.model.queries import Content, ValueQuery
from clew.model.records import AttachmentRecord, MessageRecord, ValueRow
from clew.model.reports import Progress, ResealReport
from clew.storage.columns import UnreadableFrame
from clew.storage.content import again, fields_of
from clew.storage.encrypted import EncryptedStorage, encrypted_in

_COMMIT_BYTES: Final = 1 << 20
"""About how many bytes one commit rewrites."""
_R = TypeVar("_R", AttachmentRecord, MessageRecord, ValueRow)


class ResealMethods:
    """Methods that change a store's encryption."""

    _runner: Runner
    _engine: Engine
    _sweeper: Sweeper

    async def areseal(self, config: Config | str | None = None, *, progress: Progress | None = None) -> ResealReport:
        """Encrypt all records with the current key, in all threads or in one.

        Use it to retire an old key, and to encrypt an existing store (`Encryption(…,
        plain="read")`). Nothing else changes, and the store stays in use meanwhile; a thread that
        is written to all the time is left as it is and reported. Raises ConfigError if the
        checkpointer has no `encryption`.
        """
        engine = self._engine
        sealing = encrypted_in(engine.storage)
        if not sealing:
            raise ConfigError("there is no key to encrypt with: open the store with encryption=clew.Encryption(keys=…)")
        threads, resealed = 0, 0
        left: list[str] = []
        async for record in self._sweeper.each_thread(config, progress):
            threads += 1
            if not await _is_stale(engine, sealing, record.thread_id):
                continue
            await _reseal(engine, record.thread_id)
            resealed += 1
            if await _is_stale(engine, sealing, record.thread_id):
                left.append(record.thread_id)
        if config is None and not left:
            for each in sealing:
                await engine.retry(each.keyed.keep_current)
        return ResealReport(threads=threads, resealed=resealed, left=tuple(left))

    reseal = blocking(areseal)


async def _is_stale(engine: Engine, sealing: Sequence[EncryptedStorage], thread_id: str) -> bool:
    for each in sealing:
        if await engine.retry(partial(each.stale, thread_id)):
            return True
    return False


async def _reseal(engine: Engine, thread_id: str) -> None:
    """Rewrite all records of the thread unchanged. Gives up if there are always concurrent writes."""
    query = ValueQuery(thread_id=thread_id, user=ANY_USER)
    for _ in range(ATTEMPTS):
        # The sequence first: the commits below are refused if anything was written after it was read.
        log = await engine.values(query)
        content = await engine.retry(lambda: engine.storage.content(thread_id))
        if content is None:
            return
        sequence = log.sequence
        try:
            for at, part in _parts(content, log.fixed_before):
                await engine.apply_unrecorded(
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
    """Yield the time and content of each commit that rewrites a thread.

    Records that can't be decrypted stay as they are.
    """
    last = content.thread.updated_at
    if not isinstance(content.thread.data, UnreadableFrame):
        yield last, {"thread": fields_of(content.thread)}
    for rows in _chunks(row for row in content.rows if row.first >= fixed_before):
        yield last, {"merge": rows}
    for each in content.checkpoints:
        if not isinstance(each.body, UnreadableFrame) and not isinstance(each.metadata, UnreadableFrame):
            # A checkpoint with an existing id is replaced in place.
            yield each.saved_at, {"checkpoint": again(each)}
    for attachments in _chunks(content.attachments):
        yield last, {"attachments": attachments}
    for messages in _chunks(content.messages):
        yield last, {"messages": messages}


def _chunks(records: Iterable[_R]) -> Iterator[tuple[_R, ...]]:
    """Group the records that could be decrypted into commits of about `_COMMIT_BYTES`."""
    some: list[_R] = []
    size = 0
    for each in records:
        if isinstance(each.data, UnreadableFrame):
            continue
        some.append(each)
        size += len(each.data)
        if size > _COMMIT_BYTES:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)
