"""The saver: encodes states, commits them and remembers what was written.

With `durability="background"`, a save is captured and accepted now and written later. Nobody knows
yet what the storage will decide, so its sequence is 0 and its parent is the one that the config
names, or `None`. A save that may be refused for a conflict is never deferred.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from clew.checkpointer.arguments import checked_mapping, checked_node_name, checked_step
from clew.checkpointer.background import in_background
from clew.checkpointer.batch import (
    MAX_SAVES,
    NO_EXTRAS,
    Batch,
    Encode,
    Extras,
    OutdatedViewError,
    Save,
    Saved,
    SaveWriter,
)
from clew.checkpointer.engine import STALE_ATTEMPTS, Engine, too_busy
from clew.checkpointer.loader import Loader, unreadable
from clew.codec.index import ThreadIndex
from clew.codec.rows import MERGE_LEVEL, merge_rows
from clew.codec.state import Encoded
from clew.errors import UNREADABLE, ClewError, ConfigError, ConflictError, StateTooLargeError
from clew.ids import new_id
from clew.model.checkpoint import Checkpoint, quick_checkpoint, quick_metadata
from clew.model.commit import Applied, Commit, NewCheckpoint, OnConflict, TheHead, checked_conflict
from clew.model.config import ANY_USER, Address, checked_text
from clew.model.queries import ValueQuery
from clew.storage.execution import may_block
from clew.upkeep.compaction import MERGE_FROM, rows_to_merge


class Saver:
    """Saves checkpoints, now or in the background."""

    def __init__(self, engine: Engine, loader: Loader) -> None:
        self._engine = engine
        self._codec = engine.codec
        self._loader = loader
        self.after_save: Callable[[Address], Awaitable[None]] | None = None
        """Called after each save of a state."""

    def new_checkpoint(
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
        """A checkpoint without its state. Raises ConfigError for arguments that can't be stored."""
        return NewCheckpoint(
            checkpoint_id=new_id() if checkpoint_id is None else checked_text("new_id", checkpoint_id),
            namespace=address.namespace,
            parent=parent,
            on_conflict=on_conflict if on_conflict == "branch" else checked_conflict(on_conflict),
            node_name=None if node_name is None else checked_node_name(node_name),
            step=None if step is None else checked_step(step),
            run_id=address.run_id,
            size=0,
            metadata=self._codec.pack(checked_mapping(metadata, "metadata"), name="metadata") if metadata else b"",
            body=b"",
            covers=(),
        )

    def save_state(
        self, address: Address, state: Any, new: NewCheckpoint, extras: Extras = NO_EXTRAS
    ) -> Awaitable[Saved]:
        """Save a whole state, now or in the background.

        Raises ConfigError for a state that could not be loaded as the checkpointer's `state_type`.
        """
        self._loader.check(state)
        if self._engine.background is None or new.on_conflict == "reject":
            encode = partial(self._codec.encode, state, namespace=address.namespace)
            return self.save(address, encode, new, extras)
        packed = self._codec.packed(state)
        encode = partial(self._codec.encode_packed, packed, namespace=address.namespace)
        save = self._new_save(address, encode, new, extras)
        return self._defer(address, packed.size, save.at, partial(self._save, save))

    def update(
        self, address: Address, changes: Mapping[str, Any], new: NewCheckpoint, extras: Extras = NO_EXTRAS
    ) -> Awaitable[Saved]:
        """Save the checkpoint that `address` names with some fields changed, now or in the background."""
        now = self._engine.background is None or (address.checkpoint_id and new.on_conflict == "reject")
        captured, size = (changes, 0) if now else self._codec.snapshot(changes)
        edit = partial(self._codec.edit, fits=self._loader.fits, **captured)
        save = self._new_save(address, partial(edit, None, ()), new, extras)
        write = partial(self._in_turn, save, partial(self._update_in_turn, save, edit))
        return write() if now else self._defer(address, size, save.at, write)

    async def apply(self, address: Address, commit: Commit, size: int) -> None:
        """Apply a commit of `size` bytes without values, now or in the background."""
        if self._engine.background is None:
            await self._engine.apply_on_known_basis(commit)
        else:
            await self._defer(address, size, commit.at, partial(self._engine.apply_on_known_basis, commit))

    async def _defer(self, address: Address, size: int, at: datetime, work: Callable[[], Awaitable[object]]) -> Saved:
        background = self._engine.background
        assert background is not None
        await background.put(address.thread_id, address.user, size, work)
        return Saved(Applied(basis=None, parent_id=address.checkpoint_id, created_at=at, saved_at=at))

    def save(
        self, address: Address, encode: Encode, new: NewCheckpoint, extras: Extras = NO_EXTRAS
    ) -> Awaitable[Saved]:
        """Encode, commit and remember, under the token of the lease that the current task holds.

        Concurrent writers of the thread take turns, and those who wait share a commit.
        """
        return self._save(self._new_save(address, encode, new, extras))

    def _save(self, save: Save) -> Awaitable[Saved]:
        return self._in_turn(save, self._save_in_turn, save)

    async def _save_in_turn(self, writer: SaveWriter) -> Saved:
        assert writer.item is not None
        writer.take_along(MAX_SAVES - 1)
        return await self._write(writer.item, writer)

    async def _write(self, save: Save, writer: SaveWriter) -> Saved:
        """Write `save` and those that the writer has taken along. Merges small rows if there are many by now."""
        batch = Batch(self._engine, writer)
        saved = await batch.write(save)
        index = batch.index
        if index is not None and len(index.loose) >= MERGE_FROM:
            await self._merge_soon(save.address.thread_id, index)
        return saved

    async def _update_in_turn(self, save: Save, edit: Callable[..., Encoded], writer: SaveWriter) -> Saved:
        """Apply a change to the state that it was made for. `save` is the change for a thread that has no state."""
        address, loader = save.address, self._loader
        known = loader.known_view(address)
        for _ in range(STALE_ATTEMPTS):
            found = known or await loader.read_view(address)
            view, log = found if found is not None else (None, None)
            try:
                changed = save
                if view is not None:
                    rows = () if view.entries is not None else await loader.rows_to_edit(address, view.body)
                    encode = partial(edit, view.body, rows, entries=view.entries)
                    changed = replace(save, new=replace(save.new, parent=view.checkpoint_id), encode=encode, log=log)
                return await self._write(changed, writer)
            except OutdatedViewError:
                known = None
            except (StateTooLargeError, ConfigError):
                # The change does not fit the state that this process knows. The head may be another one by now.
                if known is None:
                    raise
                known = None
            except UNREADABLE as error:
                # The known values may have been removed by another process. Values that were just read are damaged.
                if known is None:
                    raise unreadable(address, view.checkpoint_id if view else None, error) from error
                known = None
            except ConflictError as error:
                if type(error) is not ConflictError or address.checkpoint_id:
                    raise
                # Usually this process moved the head itself. Continuing there without a read keeps
                # turns fair.
                newer = loader.known_view(address)
                known = newer if newer and view and newer[0].checkpoint_id != view.checkpoint_id else None
        raise too_busy(address.thread_id)

    def _in_turn(
        self, save: Save, write: Callable[[SaveWriter], Awaitable[Saved]], item: Save | None = None
    ) -> Awaitable[Saved]:
        """Write in a turn of the thread's queue of writers. Other writers may write `item` as well.

        Writers with and without its lease have different queues, and so do background saves: one
        may have to wait in the storage until the other is done.
        """
        key = save.address.thread_id, save.fence, in_background()
        return self._engine.writers.in_turn(key, item, write)

    def _new_save(self, address: Address, encode: Encode, new: NewCheckpoint, extras: Extras) -> Save:
        engine = self._engine
        origin = None if engine.observer is None else engine.observer.origin()
        return Save(address, new, extras, encode, engine.clock.now(), engine.fence(address.thread_id), origin)

    def checkpoint(self, address: Address, new: NewCheckpoint, saved: Saved, state: Any) -> Checkpoint:
        """The saved checkpoint, for the user."""
        applied = saved.applied
        updated_at = applied.saved_at or self._engine.clock.now()
        return quick_checkpoint(
            metadata=quick_metadata(
                checkpoint_id=new.checkpoint_id,
                thread_id=address.thread_id,
                parent_id=applied.parent_id,
                created_at=applied.created_at or updated_at,
                updated_at=updated_at,
                node_name=new.node_name,
                step=new.step,
                run_id=new.run_id,
                metadata=self._codec.unpack(new.metadata) if new.metadata else {},
                namespace=new.namespace,
                sequence=applied.sequence,
                user_id=self._engine.users.shown(address.user),
            ),
            state=state,
            version=saved.version,
        )

    async def _merge_soon(self, thread_id: str, index: ThreadIndex) -> None:
        """Merge the small rows at the end of the log: in a task, or at once for a sync caller."""
        loose, index.loose = index.loose, ()
        if may_block():
            await self._merge(thread_id, loose)
        else:
            tasks = self._engine.tasks
            task = asyncio.create_task(self._merge(thread_id, loose))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _merge(self, thread_id: str, loose: tuple[int, ...]) -> None:
        """Replace the small rows that begin with the numbers `loose` by one row.

        A failure does not affect saving.
        """
        engine = self._engine
        ranges = ((max(loose[0] - 1, 0), loose[-1] + 1),)
        try:
            page = await engine.values(ValueQuery(thread_id=thread_id, user=ANY_USER, ranges=ranges, data=True))
            rows = rows_to_merge(page.rows, loose, page.fixed_before)
            if page.basis is None or len(rows) < 2:
                return
            commit = Commit(
                commit_id=new_id(),
                thread_id=thread_id,
                user=ANY_USER,
                at=engine.clock.now(),
                basis=page.basis,
                merge=(merge_rows(rows, level=MERGE_LEVEL),),
            )
            await engine.apply_unrecorded(commit)
        except ClewError:
            # Another process merged them, or the storage fails, which the next save will report.
            return
