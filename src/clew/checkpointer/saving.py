"""How a checkpoint is saved and loaded: encode, commit, remember; read, decode, remember."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from clew.checkpointer.core import STALE_ATTEMPTS, Core, deleted, same_log, too_busy
from clew.checkpointer.leases import held_token
from clew.checkpointer.records import checkpoint_metadata
from clew.codec.index import ThreadIndex, View
from clew.codec.rows import DIGEST_SIZE, MERGE_LEVEL, OpenRows, merge_rows
from clew.codec.state import Encoded
from clew.errors import ClewError, ConfigError, ConflictError, CorruptRecordError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint, CheckpointMetadata
from clew.model.commit import Applied, Commit, NewCheckpoint, OnConflict, Removal, TheHead
from clew.model.config import ANY_USER, Address
from clew.model.queries import CheckpointPage, CheckpointQuery, Detail, ValueQuery
from clew.model.records import AttachmentRecord, Basis, CheckpointRecord, MessageRecord, ValueRow
from clew.storage.offload import inline
from clew.storage.protocol import StaleBasisError
from clew.upkeep.compaction import MERGE_FROM, rows_to_merge, small_rows_at_the_end


class NotLoaded:
    """The type of `NOT_LOADED`."""

    def __repr__(self) -> str:
        return "clew.NOT_LOADED (get it with aget_checkpoint)"

    def __bool__(self) -> bool:
        return False


NOT_LOADED: Final = NotLoaded()
"""Stands for the state in a checkpoint that was made without loading it."""


class Saved(Struct, frozen=True):
    """What came of a save, and the body that was stored: empty while it is only accepted."""

    applied: Applied
    body: bytes = b""

    @property
    def version(self) -> str | None:
        return version_of(self.applied.basis, self.body) if self.body else None


class Loaded(Struct, frozen=True):
    """A checkpoint that was read, its state, and the log that it was read from."""

    record: CheckpointRecord
    state: Any
    basis: Basis | None

    @property
    def version(self) -> str | None:
        return version_of(self.basis, self.record.body)


class OldViewError(Exception):
    """The checkpoint to change was read from a log that is not the thread's any more: read it again. Never reaches users."""


class Saving(Core):
    """Saves and loads checkpoints, and keeps what makes the next save cheap."""

    def _new_checkpoint(
        self,
        address: Address,
        *,
        parent: str | None | TheHead,
        on_conflict: OnConflict = "branch",
        node_name: str | None = None,
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        checkpoint_id: str | None = None,
    ) -> NewCheckpoint:
        """A checkpoint that has everything but its state."""
        return NewCheckpoint(
            checkpoint_id=new_id() if checkpoint_id is None else checkpoint_id,
            namespace=address.namespace,
            parent=parent,
            on_conflict=on_conflict,
            node_name=node_name,
            step=step,
            run_id=address.run_id,
            size=0,
            metadata=self._metadata(metadata) if metadata else b"",
            body=b"",
            covers=(),
        )

    async def _save(
        self,
        address: Address,
        encode: Callable[[ThreadIndex | None], Encoded],
        new: NewCheckpoint,
        *,
        messages: tuple[MessageRecord, ...] = (),
        attachments: tuple[AttachmentRecord, ...] = (),
        remove: Removal | None = None,
        log: Basis | None = None,
        at: datetime | None = None,
        commit_id: str | None = None,
    ) -> Saved:
        """Encode, commit, remember; encode again if another writer came first. The commit keeps its id throughout: the
        checkpoint's own, unless the caller says otherwise, as it must where an id may be saved again.

        What `encode` gives may refer to values of `log`: if that is not the thread's log any more, OldViewError.
        """
        at = at or self._clock.now()
        for _ in range(STALE_ATTEMPTS):
            index = self._hot_index(address) or await self._index_for_writing(address)
            if log is not None and (index is None or not same_log(index.basis, log)):
                raise OldViewError
            encoded = encode(index)
            commit = Commit(
                commit_id=commit_id or new.checkpoint_id,
                thread_id=address.thread_id,
                user=address.user,
                at=at,
                basis=index.basis if index is not None else None,
                fence=held_token(self, address.thread_id),
                remove=remove,
                values=encoded.row,
                checkpoint=replace(new, size=encoded.size, body=encoded.body, covers=encoded.covers),
                attachments=attachments,
                messages=messages,
            )
            try:
                applied = await self._apply(commit)
            except StaleBasisError:
                await self._refresh(address.thread_id, address.user)
                continue
            index = self._remember(address, index, encoded, new.checkpoint_id, applied)
            if len(index.loose) >= MERGE_FROM:
                await self._merge_soon(address.thread_id, index)
            return Saved(applied, encoded.body)
        raise too_busy(address.thread_id)

    def _checkpoint(self, address: Address, new: NewCheckpoint, saved: Saved, state: Any) -> Checkpoint:
        """The checkpoint that was saved, as users see it."""
        applied = saved.applied
        return Checkpoint(
            metadata=CheckpointMetadata(
                checkpoint_id=new.checkpoint_id,
                thread_id=address.thread_id,
                parent_id=applied.parent_id,
                timestamp=applied.created_at or self._clock.now(),
                node_name=new.node_name,
                step=new.step,
                run_id=new.run_id,
                metadata=self._codec.unpack(new.metadata) if new.metadata else {},
                namespace=new.namespace,
                sequence=applied.sequence,
            ),
            state=state,
            version=saved.version,
        )

    def _remember(
        self, address: Address, index: ThreadIndex | None, encoded: Encoded, checkpoint_id: str, applied: Applied
    ) -> ThreadIndex:
        assert applied.basis is not None  # the thread has a checkpoint now
        if index is None or applied.repeated:
            index = ThreadIndex(applied.basis)
        # Since a commit that comes again was applied, what it brought may have been cleaned away.
        if not applied.repeated:
            encoded.remember(index, address.namespace, checkpoint_id, applied.basis)
        self._indexes.put(address.thread_id, index)
        return index

    async def _merge_soon(self, thread_id: str, index: ThreadIndex) -> None:
        """Merge the small rows at the end of the log: in the background, or now if a sync caller waits anyway."""
        loose, index.loose = index.loose, ()
        if inline.get():
            await self._merge(thread_id, loose)
        else:
            task = asyncio.create_task(self._merge(thread_id, loose))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _merge(self, thread_id: str, loose: tuple[int, ...]) -> None:
        """Put one row in the place of the small rows that begin with `loose`. Saving goes on without it if it fails."""
        ranges = ((max(loose[0] - 1, 0), loose[-1] + 1),)
        query = ValueQuery(thread_id=thread_id, user=ANY_USER, ranges=ranges, data=True)
        try:
            page = await self._try(lambda: self._storage.values(query))
            rows = rows_to_merge(page.rows, loose, page.fixed_before)
            if page.basis is None or len(rows) < 2:
                return
            commit = Commit(
                commit_id=new_id(),
                thread_id=thread_id,
                user=ANY_USER,
                at=self._clock.now(),
                basis=page.basis,
                merge=(merge_rows(rows, level=MERGE_LEVEL),),
            )
            await self._apply_unseen(commit)
        except ClewError:
            # Somebody else merged them, or the storage is in trouble, which the next save will tell.
            return

    async def _load(self, address: Address, known: Checkpoint | None = None) -> Loaded | None:
        """The checkpoint that `address` names and its state; what was read makes the next save cheap. Of one that is `known`,
        only the record."""
        if known is not None and known.version is not None:
            page = await self._page(
                address, checkpoint_id=address.checkpoint_id, detail="state", known=known.checkpoint_id
            )
            if not page.checkpoints:
                return None
            record = page.checkpoints[0]
            if record.checkpoint_id != known.checkpoint_id:
                return self._loaded(address, page)
            if version_of(page.basis, record.body) == known.version:
                return Loaded(record, NOT_LOADED, page.basis)
        else:
            hot = await self._load_hot(address)
            if hot is not None:
                return hot
        page = await self._page(address, checkpoint_id=address.checkpoint_id, detail="state")
        return self._loaded(address, page) if page.checkpoints else None

    async def _load_hot(self, address: Address) -> Loaded | None:
        """The same without reading values, if the checkpoint is the one that this process wrote or loaded last.

        The storage says whether it is; if it is not, this read has brought the values.
        """
        known = self._known_view(address)
        if known is None or known[0].memo is None:
            return None
        view, basis = known
        page = await self._page(address, checkpoint_id=address.checkpoint_id, detail="state", known=view.checkpoint_id)
        if not page.checkpoints:
            return None
        record = page.checkpoints[0]
        if record.checkpoint_id != view.checkpoint_id:
            return self._loaded(address, page)
        if record.body != view.body or page.basis is None or page.basis.incarnation != basis.incarnation:
            # Begun anew, a thread may give the same numbers to other values.
            return None
        try:
            state, _ = self._codec.decode_with_memo(record.body, OpenRows(()), view.memo)
            return Loaded(record, state, page.basis)
        except CorruptRecordError:
            # The memo has not all of it: the values are needed after all.
            return None

    def _loaded(self, address: Address, page: CheckpointPage) -> Loaded:
        """What a page with its values holds; this process remembers it."""
        record = page.checkpoints[0]
        with _naming(address, record):
            state, memo = self._codec.decode_with_memo(record.body, OpenRows(page.rows))
        if page.basis is not None:
            index = self._index_for_reading(address.thread_id, page.basis)
            if not index.views:
                index.loose = small_rows_at_the_end(page.rows)
            index.learn(page.rows)
            index.views[address.namespace] = View(
                checkpoint_id=record.checkpoint_id, body=record.body, size=record.size, memo=memo
            )
            self._indexes.put(address.thread_id, index)
        return Loaded(record, state, page.basis)

    async def _page(
        self,
        address: Address,
        *,
        checkpoint_id: str | None = None,
        limit: int | None = 1,
        detail: Detail = "info",
        known: str | None = None,
    ) -> CheckpointPage:
        query = CheckpointQuery(
            thread_id=address.thread_id,
            user=address.user,
            namespace=address.namespace,
            checkpoint_id=checkpoint_id,
            limit=limit,
            detail=detail,
            known=known,
        )
        return await self._ask_for(address, query)

    async def _ask_for(self, address: Address, query: CheckpointQuery) -> CheckpointPage:
        page = await self._try(lambda: self._storage.checkpoints(query))
        self._met(address, page.basis)
        return page

    def _decode(self, address: Address, record: CheckpointRecord, rows: OpenRows) -> Any:
        with _naming(address, record):
            return self._codec.decode(record.body, rows)

    def _described(self, address: Address, record: CheckpointRecord) -> CheckpointMetadata:
        with _naming(address, record):
            return checkpoint_metadata(self._codec, address.thread_id, record)

    def _known_view(self, address: Address) -> tuple[View, Basis] | None:
        """The checkpoint to change, if this process has just written or loaded it, and the log that it refers to."""
        index = self._indexes.get(address.thread_id)
        view = index.views.get(address.namespace) if index is not None else None
        if index is None or view is None or address.checkpoint_id not in (None, view.checkpoint_id):
            return None
        return view, index.basis

    async def _view_to_edit(self, address: Address) -> tuple[View, Basis] | None:
        seen = self._seen.get((address.thread_id, address.user))
        page = await self._page(address, checkpoint_id=address.checkpoint_id, detail="body")
        if seen is not None and (page.basis is None or page.basis.incarnation != seen.incarnation):
            # This read was a writer's: what it last saw of the thread still counts.
            self._seen.put((address.thread_id, address.user), seen)
            raise deleted(address.thread_id)
        if not page.checkpoints or page.basis is None:
            if address.checkpoint_id is not None:
                raise gone(address)
            return None
        record = page.checkpoints[0]
        return View(checkpoint_id=record.checkpoint_id, body=record.body, size=record.size, memo=None), page.basis

    async def _rows_to_edit(self, address: Address, body: bytes) -> tuple[ValueRow, ...]:
        needed = self._codec.needed_to_edit(body)
        if not needed:
            return ()
        query = ValueQuery(thread_id=address.thread_id, user=address.user, ranges=needed, data=True)
        return (await self._try(lambda: self._storage.values(query))).rows

    async def _remove(self, address: Address, removal: Removal) -> Applied:
        return await self._apply_plain(self._plain_commit(address, remove=removal))

    def _plain_commit(self, address: Address, **content: Any) -> Commit:
        """A commit that brings no values."""
        return Commit(
            commit_id=new_id(),
            thread_id=address.thread_id,
            user=address.user,
            at=self._clock.now(),
            fence=held_token(self, address.thread_id),
            **content,
        )


def version_of(basis: Basis | None, body: bytes) -> str | None:
    """What names the state that `body` stands for: in one life of a thread, the values that it refers to never change."""
    return None if basis is None else f"{basis.incarnation}.{blake2b(body, digest_size=DIGEST_SIZE).hexdigest()}"


def gone(address: Address) -> ConflictError:
    return ConflictError(
        f"checkpoint {address.checkpoint_id!r} of thread {address.thread_id!r} is not there (any more)",
        thread_id=address.thread_id,
        checkpoint_id=address.checkpoint_id,
    )


@contextmanager
def _naming(address: Address, record: CheckpointRecord) -> Iterator[None]:
    """Let an error about what is stored say whose it is."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            f"checkpoint {record.checkpoint_id!r} of thread {address.thread_id!r}: {error}",
            **{**error.facts, "thread_id": address.thread_id, "checkpoint_id": record.checkpoint_id},
        ) from error
    except CorruptRecordError as error:
        raise damaged(address, record.checkpoint_id, error) from error


def damaged(address: Address, checkpoint_id: str | None, error: CorruptRecordError) -> CorruptRecordError:
    return CorruptRecordError(
        f"checkpoint {checkpoint_id!r} of thread {address.thread_id!r} is damaged: {error}; the others "
        f"are not affected (alist_checkpoints names them), and arepair makes a new one from the messages",
        thread_id=address.thread_id,
        checkpoint_id=checkpoint_id,
    )
