"""Operations over whole stores: statistics, compaction, repair, erasure, verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from clew.checkpointer.blocking import blocking
from clew.checkpointer.records import DAMAGED, checkpoint_metadata, message_of, thread_info
from clew.checkpointer.sweeping import Sweeping, address_of
from clew.codec.index import ThreadIndex
from clew.codec.rows import OpenRows
from clew.codec.state import Encoded
from clew.errors import ConfigError, ConflictError, CorruptRecordError, shown
from clew.model.checkpoint import Checkpoint
from clew.model.commit import HEAD, Removal
from clew.model.config import ANY_USER, Address, Config, User, checked_text, read_config, user_of
from clew.model.message import Message, folded
from clew.model.queries import MessageQuery, ThreadQuery
from clew.model.records import CheckpointRecord
from clew.model.reports import CompactReport, Damage, IndexStats, Progress, Stats, VerifyReport
from clew.upkeep import compaction

Rebuild = Callable[[Any, list[Message]], Any]


class OperationMethods(Sweeping):
    """Methods for those who run a store. They act for everybody unless told otherwise."""

    async def astats(self, user_id: str | int | None | User = ANY_USER) -> Stats:
        """What the store holds for a user, or for all: by thread and by day, and what the writer's memory takes here."""
        user = user_of(user_id)
        found = await self._try(lambda: self._storage.stats(user))
        threads = found.by_thread
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
            index=IndexStats(threads=len(self._indexes), bytes=self._indexes.bytes, max_bytes=self._indexes.max_bytes),
        )

    async def asize(self, config: Config | str | None = None) -> int:
        """How many checkpoints the store has, or the thread that `config` names."""
        if config is None:
            return (await self.astats()).total_checkpoints
        address = read_config(config)
        query = ThreadQuery(user=address.user, thread_id=address.thread_id)
        records = await self._try(lambda: self._storage.threads(query))
        return records[0].checkpoint_count if records else 0

    async def adelete_runs(
        self, run_ids: Iterable[str], *, config: Config | str | None = None, progress: Progress | None = None
    ) -> int:
        """Remove every checkpoint of these runs, of all threads or of one, in all namespaces; how many there were.

        Their attachments and the values that only they needed go too. Messages and threads stay.
        """
        if isinstance(run_ids, str) or not isinstance(run_ids, Iterable):
            raise ConfigError(f"adelete_runs takes a list of run ids, not {shown(run_ids)}")
        runs = [checked_text("run_id", run_id) for run_id in run_ids]
        if not runs:
            return 0
        count = 0
        async for record in self._each_thread(config, progress):
            pages = [await self._checkpoint_page(record, detail="info", run_id=run_id) for run_id in runs]
            names = tuple((each.namespace, each.checkpoint_id) for page in pages for each in page.checkpoints)
            if names:
                await self._upkeep(record, remove=Removal(checkpoints=names))
                await self._collect(record)
                count += len(names)
        return count

    async def acompact(self, config: Config | str | None = None, *, progress: Progress | None = None) -> CompactReport:
        """Merge the value rows of all threads, or of one, into few well compressed ones. For all, also give the space back.

        Every checkpoint stays loadable; numbers of values never change.
        """
        threads = before = after = bytes_before = bytes_after = 0
        async for record in self._each_thread(config, progress):
            before += len((await self._value_rows(record)).rows)
            await self._collect(record)
            page = await self._value_rows(record)
            merged = tuple(compaction.merged(page.rows, page.fixed_before))
            if merged:
                try:
                    await self._upkeep(record, basis=page.basis, merge=tuple(row for row, _ in merged))
                except ConflictError:
                    # Tidied up or deleted by another since: the rows are not these any more. The next sweep looks again.
                    merged = ()
            threads += 1
            after += len(page.rows) - sum(replaced - 1 for _, replaced in merged)
            bytes_before += record.size
            bytes_after += await self._size_now(record)
        if config is None:
            # It goes over the whole store: too much for one thread's sake.
            await self._try(self._storage.reclaim)
        return CompactReport(
            threads=threads, rows_before=before, rows_after=after, bytes_before=bytes_before, bytes_after=bytes_after
        )

    async def arepair(self, config: Config | str, *, rebuild: Rebuild | None = None) -> Checkpoint:
        """A new head made from the newest checkpoint that can be loaded and the thread's message record.

        `rebuild(state, messages)` makes the new state; `state` is `None` if no checkpoint can be loaded. Without it, the
        state's "messages" become the record, as plain dicts. It is stored anew, and relies on nothing that was stored before.
        """
        address = read_config(config)
        state: Any = None
        for record in (await self._page(address, limit=None)).checkpoints:
            try:
                loaded = await self._load(replace(address, checkpoint_id=record.checkpoint_id))
            except CorruptRecordError:
                continue
            state = loaded.state if loaded is not None else None
            break
        messages = [message for message, _ in await self._readable_messages(address) if message is not None]
        if state is None and not messages:
            raise ConfigError(
                f"thread {address.thread_id!r} has neither a loadable checkpoint nor messages to repair it from"
            )
        rebuilt = (rebuild or _with_messages)(state, messages)
        address = replace(address, checkpoint_id=None)
        new = self._new_checkpoint(
            address, parent=HEAD, node_name="repair", metadata={"repaired_from_messages": len(messages)}
        )

        def encode(index: ThreadIndex | None) -> Encoded:
            # As if the thread had no values yet: those that it has may be the damaged ones.
            unknown = ThreadIndex(index.basis) if index is not None else None
            return self._codec.encode(rebuilt, unknown, address.namespace)

        return self._checkpoint(address, new, await self._save(address, encode, new), rebuilt)

    async def aerase_user(self, user_id: str | int, *, progress: Progress | None = None) -> int:
        """Remove every thread of a user with everything in it, and give the space back; how many there were."""
        user = user_of(user_id)
        if not isinstance(user, str):
            raise ConfigError("aerase_user needs the id of one user")
        return await self._delete_threads(user, progress)

    async def aclear_all(self, *, progress: Progress | None = None) -> int:
        """Remove every thread of everybody; how many there were."""
        return await self._delete_threads(ANY_USER, progress)

    async def averify(self, config: Config | str | None = None, *, progress: Progress | None = None) -> VerifyReport:
        """Read every checkpoint and message of all threads, or of one, and list what is damaged."""
        threads = checkpoints = messages = 0
        damage: list[Damage] = []
        async for record in self._each_thread(config, progress):
            threads += 1
            if wrong := thread_info(self._codec, record).metadata.get(DAMAGED):
                damage.append(Damage(thread_id=record.thread_id, problem=wrong))
            # In one read, so that what is saved or cleaned up meanwhile does not look like damage.
            page = await self._checkpoint_page(record, detail="state")
            rows = OpenRows(page.rows)
            for checkpoint in page.checkpoints:
                checkpoints += 1
                damage += self._damage_of(record.thread_id, checkpoint, rows)
            for _, problem in await self._readable_messages(address_of(record)):
                messages += 1
                if problem.problem:
                    damage.append(problem)
        return VerifyReport(threads=threads, checkpoints=checkpoints, messages=messages, damage=tuple(damage))

    stats = blocking(astats)
    size = blocking(asize)
    delete_runs = blocking(adelete_runs)
    compact = blocking(acompact)
    repair = blocking(arepair)
    erase_user = blocking(aerase_user)
    clear_all = blocking(aclear_all)
    verify = blocking(averify)

    def _damage_of(self, thread_id: str, checkpoint: CheckpointRecord, rows: OpenRows) -> list[Damage]:
        try:
            self._codec.check(checkpoint.body, rows)
            checkpoint_metadata(self._codec, thread_id, checkpoint)
            if checkpoint.covers != self._codec.covers(checkpoint.body):
                raise CorruptRecordError("its list of the values that it needs is not what its body says")
        except (CorruptRecordError, ConfigError) as error:
            return [
                Damage(
                    thread_id=thread_id,
                    checkpoint_id=checkpoint.checkpoint_id,
                    namespace=checkpoint.namespace,
                    problem=str(error),
                )
            ]
        return []

    async def _readable_messages(self, address: Address) -> list[tuple[Message | None, Damage]]:
        """Every message of a thread, or `None` and what is wrong with it."""
        query = MessageQuery(thread_id=address.thread_id, user=address.user, limit=None)
        found: list[tuple[Message | None, Damage]] = []
        for record in await self._try(lambda: self._storage.messages(query)):
            message, problem = None, ""
            try:
                message = message_of(self._codec, record)
                # Before calls of tools could be found, it was the text alone.
                if record.text not in (folded(message.search_text()), folded(message.text())):
                    problem = "its text for searching is not what it says"
            except (CorruptRecordError, ConfigError) as error:
                problem = str(error)
            found.append((message, Damage(thread_id=address.thread_id, message_id=record.message_id, problem=problem)))
        return found


def _with_messages(state: Any, messages: list[Message]) -> dict[str, Any]:
    if state is not None and not isinstance(state, dict):
        raise ConfigError(
            f"the state is a {type(state).__name__}: pass rebuild=, which makes the new state from it and the messages"
        )
    return {**(state or {}), "messages": [message.to_dict() for message in messages]}
