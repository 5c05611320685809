"""Operations on whole stores: statistics, deletion of runs and users, compaction, repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic

from msgspec.structs import replace

from clew.checkpointer.arguments import checked_ids
from clew.checkpointer.blocking import blocking
from clew.checkpointer.drafts import is_draft
from clew.checkpointer.engine import Engine
from clew.checkpointer.loader import Loader
from clew.checkpointer.records import BAD_RECORD, message_of
from clew.checkpointer.runner import Runner
from clew.checkpointer.saver import Saver
from clew.checkpointer.sweeper import Sweeper
from clew.codec.index import ThreadIndex
from clew.codec.state import Encoded
from clew.errors import ConfigError, shown
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, Removal
from clew.model.config import ANY_USER, Address, Config, User, user_of
from clew.model.generic import StateT
from clew.model.message import Message
from clew.model.queries import MessageQuery, ThreadQuery
from clew.model.reports import CompactReport, IndexStats, Progress, Stats
from clew.storage.protocol import COPYING

Rebuild = Callable[[Any, list[Message]], Any]


class OperationMethods(Generic[StateT]):
    """Methods for operators of a store. They act for all users unless told otherwise."""

    _runner: Runner
    _engine: Engine
    _loader: Loader
    _saver: Saver
    _sweeper: Sweeper

    async def astats(self, user_id: str | int | None | User = ANY_USER) -> Stats:
        """Return what the store holds for a user, or for all, by thread and by day, and the size of
        this writer's index."""
        engine = self._engine
        user = engine.users.given(user_id)
        found = await engine.retry(lambda: engine.storage.stats(user))
        threads, indexes = found.by_thread, engine.indexes
        return Stats(
            total_sessions=len(threads),
            total_checkpoints=sum(totals.checkpoints for totals in threads.values()),
            total_messages=sum(totals.messages for totals in threads.values()),
            total_tool_calls=sum(totals.tool_calls for totals in threads.values()),
            total_bytes=sum(totals.bytes for totals in threads.values()),
            stored_bytes=found.stored_bytes,
            checkpoints_per_session={thread_id: totals.checkpoints for thread_id, totals in threads.items()},
            by_thread=threads,
            by_day=found.by_day,
            index=IndexStats(threads=len(indexes), bytes=indexes.bytes, max_bytes=indexes.max_bytes),
            total_input_tokens=sum(totals.input_tokens for totals in threads.values()),
            total_output_tokens=sum(totals.output_tokens for totals in threads.values()),
        )

    async def asize(self, config: Config | str | None = None) -> int:
        """Return how many checkpoints the store has, or the thread that `config` names."""
        if config is None:
            return (await self.astats()).total_checkpoints
        address = self._engine.address(config)
        records = await self._engine.threads(ThreadQuery(user=address.user, thread_id=address.thread_id))
        return records[0].checkpoint_count if records else 0

    async def adelete_runs(
        self, run_ids: Iterable[str], *, config: Config | str | None = None, progress: Progress | None = None
    ) -> int:
        """Remove all checkpoints of these runs, in all threads or one, in all namespaces; returns how many.

        Their attachments and the values that only they needed are removed too. Messages and threads
        stay.
        """
        runs = checked_ids(run_ids, "run_ids")
        if not runs:
            return 0
        sweeper, count = self._sweeper, 0
        async for record in sweeper.each_thread(config, progress):
            with sweeper.skipping_damage(record, config):
                pages = [await sweeper.checkpoints(record, detail="info", run_id=run_id) for run_id in runs]
                names = tuple((each.namespace, each.checkpoint_id) for page in pages for each in page.checkpoints)
                if names:
                    await sweeper.commit(record, remove=Removal(checkpoints=names))
                    count += len(names)
                    await sweeper.collect_garbage(record)
        return count

    async def acompact(self, config: Config | str | None = None, *, progress: Progress | None = None) -> CompactReport:
        """Merge the value rows of all threads, or of one, into few well-compressed rows.

        For all, reclaim disk space too. All checkpoints stay loadable; value numbers never change.
        Damaged threads are skipped and logged.
        """
        engine, sweeper = self._engine, self._sweeper
        threads = before = after = bytes_before = bytes_after = 0
        async for record in sweeper.each_thread(config, progress):
            if is_draft(record):
                # Its values are written before the checkpoints that need them.
                continue
            with sweeper.skipping_damage(record, config):
                rows_before, rows_after = await sweeper.compact(record)
                threads, before, after = threads + 1, before + rows_before, after + rows_after
                bytes_before += record.size
                bytes_after += await sweeper.size_now(record)
        if config is None:
            # Reclaiming walks the whole store: too much for a single thread.
            await engine.retry(engine.storage.reclaim)
        return CompactReport(
            threads=threads, rows_before=before, rows_after=after, bytes_before=bytes_before, bytes_after=bytes_after
        )

    async def arepair(self, config: Config | str, *, rebuild: Rebuild | None = None) -> Checkpoint[StateT]:
        """Make a new head from the newest checkpoint that can be loaded and the messages of its branch.

        `rebuild(state, messages)` returns the new state; `state` is `None` if no checkpoint can be
        loaded. By default, the state's "messages" become the messages of the record as plain dicts.
        The new state is stored in full and refers to no earlier values.
        """
        address = self._engine.address(config)
        state: Any = None
        for record in (await self._loader.page(address, limit=None)).checkpoints:
            try:
                loaded = await self._loader.load(replace(address, checkpoint_id=record.checkpoint_id))
            except BAD_RECORD:
                continue
            state = loaded.state if loaded is not None else None
            break
        messages = await self._readable_messages(address)
        if rebuild is not None and not callable(rebuild):
            raise ConfigError(f"rebuild must be a function of the state and the messages, not {shown(rebuild)}")
        if state is None and not messages:
            await self._engine.check_owner(address)
            raise ConfigError(
                f"thread {address.thread_id!r} has neither a loadable checkpoint nor messages to repair it from"
            )
        rebuilt = (rebuild or _with_messages)(state, messages)
        address = replace(address, checkpoint_id=None)
        new = self._saver.new_checkpoint(
            address, parent=HEAD, node_name="repair", metadata={"repaired_from_messages": len(messages)}
        )

        def encode(index: ThreadIndex | None) -> Encoded:
            # With an empty index: the existing values may be the damaged ones.
            unknown = ThreadIndex(index.basis) if index is not None else None
            return self._engine.codec.encode(rebuilt, unknown, address.namespace)

        return self._saver.checkpoint(address, new, await self._saver.save(address, encode, new), rebuilt)

    async def aerase_user(self, user_id: str | int, *, progress: Progress | None = None) -> int:
        """Remove all threads of a user with everything in them, and reclaim disk space; returns how
        many there were."""
        user = user_of(user_id)
        if not isinstance(user, str):
            raise ConfigError("erase_user needs the id of one user")
        count = await self._sweeper.delete_threads(user, progress)
        if await self._engine.threads(ThreadQuery(user=COPYING, limit=1)):
            # A copy under construction may be of a thread of this user, or may have been published just now.
            await self._sweeper.delete_threads(COPYING, None)
            count += await self._sweeper.delete_threads(user, None)
        return count

    async def aclear_all(self, *, progress: Progress | None = None) -> int:
        """Remove all threads of all users; returns how many there were."""
        return await self._sweeper.delete_threads(ANY_USER, progress)

    stats = blocking(astats)
    size = blocking(asize)
    delete_runs = blocking(adelete_runs)
    compact = blocking(acompact)
    repair = blocking(arepair)
    erase_user = blocking(aerase_user)
    clear_all = blocking(aclear_all)

    async def _readable_messages(self, address: Address) -> list[Message]:
        engine = self._engine
        query = MessageQuery(
            thread_id=address.thread_id,
            user=address.user,
            branch=address.checkpoint_id or HEAD,
            namespace=address.namespace,
            limit=None,
        )
        found: list[Message] = []
        for record in await engine.retry(lambda: engine.storage.messages(query)):
            with suppress(*BAD_RECORD):
                found.append(message_of(engine.codec, record))
        return found


def _with_messages(state: Any, messages: list[Message]) -> dict[str, Any]:
    if state is not None and not isinstance(state, dict):
        raise ConfigError(
            f"the state is a {type(state).__name__}: pass rebuild=, which makes the new state from it and the messages"
        )
    return {**(state or {}), "messages": [message.to_dict() for message in messages]}
