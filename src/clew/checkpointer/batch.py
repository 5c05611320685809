"""Batches of saves: the saves of one thread that wait together are encoded in turn and committed at once.

A save refers only to values that were acknowledged before the batch; only the numbers of new values
continue from one save to the next. So if a save is refused, no other save of the batch refers to
its values: each is refused for its own reason, or applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from clew.chance import chance
from clew.checkpointer.engine import STALE_ATTEMPTS, Engine, deleted, same_log, too_busy
from clew.checkpointer.write_queue import Writer
from clew.codec.index import ThreadIndex
from clew.codec.rows import DIGEST_SIZE
from clew.codec.state import Encoded
from clew.errors import ClewError, ThreadDeletedError, TransientStorageError
from clew.model.commit import Applied, BackTo, Commit, NewCheckpoint, Removal
from clew.model.config import Address
from clew.model.records import Basis, MessageRecord
from clew.storage.execution import pause
from clew.storage.protocol import StaleBasisError

MAX_SAVES: Final = 64
"""The largest batch, in saves."""
MAX_BYTES: Final = 4 << 20
"""No more saves join a batch of this size."""
FIRST_BACKOFF, LONGEST_BACKOFF = 0.002, 0.1
"""Upper bounds of the pause, in seconds, before the second and later retries after a write by
another process."""


Encode = Callable[[ThreadIndex | None], Encoded]


class OutdatedViewError(Exception):
    """The checkpoint to change belongs to a log that was replaced: read it again. Never reaches users."""


class Extras(Struct, frozen=True, kw_only=True):
    """The parts of a save's commit that its checkpoint does not need.

    The commit id is the checkpoint's id, unless the caller passes another one. It must, if the checkpoint's
    id may be reused.
    """

    messages: tuple[MessageRecord, ...] = ()
    remove: Removal | None = None
    back_to: BackTo | None = None
    commit_id: str | None = None


NO_EXTRAS: Final = Extras()


class Save(Struct, frozen=True):
    """A checkpoint to save. `encode` may be called more than once; the commit id stays the same.

    The encoded state may refer to values of `log`; raises OutdatedViewError if the thread has another log by
    then. `origin` is the call that made this save, for the observer.
    """

    address: Address
    new: NewCheckpoint
    extras: Extras
    encode: Encode
    at: datetime
    fence: int | None
    origin: Any = None
    log: Basis | None = None

    def commit(self, encoded: Encoded, basis: Basis | None) -> Commit:
        extras = self.extras
        return Commit(
            commit_id=extras.commit_id or self.new.checkpoint_id,
            thread_id=self.address.thread_id,
            user=self.address.user,
            at=self.at,
            basis=basis,
            fence=self.fence,
            remove=extras.remove,
            values=encoded.row,
            checkpoint=replace(self.new, size=encoded.size, body=encoded.body, covers=encoded.covers),
            messages=extras.messages,
            back_to=extras.back_to,
        )


class Saved(Struct, frozen=True):
    """The result of a save and the stored body, which is empty if the save was only accepted."""

    applied: Applied
    body: bytes = b""

    @property
    def version(self) -> str | None:
        return version_of(self.applied.basis, self.body) if self.body else None


def version_of(basis: Basis | None, body: bytes) -> str | None:
    """A name for the state of `body`: within one incarnation, the values that a body refers to never change."""
    return None if basis is None else f"{basis.incarnation}.{blake2b(body, digest_size=DIGEST_SIZE).hexdigest()}"


Outcome = Saved | Exception
SaveWriter = Writer[Save, Saved]


class Batch:
    """The saves of one turn: the leader's own, and those of the writers that it takes along."""

    __slots__ = ("_engine", "_writer", "index")

    def __init__(self, engine: Engine, writer: SaveWriter) -> None:
        self._engine = engine
        self._writer = writer
        self.index: ThreadIndex | None = None
        """The thread's values, as this process knows them now."""

    async def write(self, save: Save) -> Saved:
        """Apply `save` and as many of the taken saves as possible; encode again after writes of
        other processes.

        After a transient error the others write for themselves, and only `save` is retried.
        """
        for attempt in range(STALE_ATTEMPTS):
            own = await self._attempt(save, self._writer.taken)
            if isinstance(own, Saved):
                return own
            if not isinstance(own, StaleBasisError):
                raise own
            await self._catch_up(save.address, attempt)
            if save.extras.remove is not None and save.extras.remove.as_of is not None:
                raise own  # Encoding again does not help: the caller has to read again.
        raise too_busy(save.address.thread_id)

    async def _attempt(self, save: Save, others: Sequence[SaveWriter]) -> Outcome:
        """Try once.

        Returns the outcome of `save`; writers in `others` get theirs unless their basis was stale.
        """
        engine, address = self._engine, save.address
        index = self.index = engine.hot_index(address) or await engine.index_for_writing(address)
        basis = index.basis if index is not None else None
        if save.log is not None and (basis is None or not same_log(basis, save.log)):
            raise OutdatedViewError
        encoded = save.encode(index)
        commits = [save.commit(encoded, basis)]
        along = self._encode_others(others, index, commits) if others and index is not None else ()
        if along and engine.observer is not None:
            engine.observer.batched_with([item.origin for _, item, _ in along])
        try:
            found = await engine.storage.apply(commits)
        except TransientStorageError as error:
            self._writer.dissolve()
            along = ()
            found = await engine.retries.after(error, partial(engine.storage.apply, commits[:1]), "save")
        own = self._remember(save, encoded, found[0])
        if along:
            for (other, item, theirs), outcome in zip(along, found[1:], strict=True):
                settled = self._remember(item, theirs, outcome)
                if not isinstance(settled, StaleBasisError):
                    self._writer.serve(other, settled)
        return own

    def _encode_others(
        self, others: Sequence[SaveWriter], index: ThreadIndex, commits: list[Commit]
    ) -> list[tuple[SaveWriter, Save, Encoded]]:
        """Encode the saves that fit into the batch and add them to `commits`.

        A state that can't be encoded fails its own writer only.
        """
        along: list[tuple[SaveWriter, Save, Encoded]] = []
        ahead, size = index, 0
        for other in others:
            row, new, save = commits[-1].values, commits[-1].checkpoint, other.item
            if row is not None and row.end > ahead.basis.next_value:
                ahead = ahead.counting_on(row.end)
            size += (len(row.data) if row is not None else 0) + (len(new.body) if new is not None else 0)
            # A user who has not seen this log yet can't join: its own save fetches the log.
            if save is None or size > MAX_BYTES or self._engine.hot_index(save.address) is not index:
                break
            try:
                encoded = save.encode(ahead)
            except Exception as error:  # An error in another writer's state is raised for that writer only.
                self._writer.serve(other, error)
                continue
            along.append((other, save, encoded))
            commits.append(save.commit(encoded, index.basis))
        return along

    def _remember(self, save: Save, encoded: Encoded, outcome: Applied | ClewError) -> Outcome:
        """Remember what was applied; returns the outcome for the writer."""
        address = save.address
        if not isinstance(outcome, Applied):
            if isinstance(outcome, ThreadDeletedError):
                gone = deleted(address.thread_id)
                gone.__cause__ = outcome
                return gone
            return outcome
        engine, basis, index = self._engine, outcome.basis, self.index
        assert basis is not None  # the thread has a checkpoint now
        engine.known.put((address.thread_id, address.user), basis)
        if index is None or outcome.repeated:
            self.index = index = ThreadIndex(basis)
        # The values of a repeated commit may have been cleaned up since it was applied.
        if not outcome.repeated:
            encoded.remember(index, address.namespace, save.new.checkpoint_id, basis)
        engine.indexes.put(address.thread_id, index)
        return Saved(outcome, encoded.body)

    async def _catch_up(self, address: Address, attempt: int) -> None:
        """Read what others wrote. From the second time on, back off at random: others may be doing the same."""
        if attempt:
            longest = min(FIRST_BACKOFF * 2 ** min(attempt, 10), LONGEST_BACKOFF)
            await pause(chance().uniform(0, longest))
        await self._engine.refresh_index(address.thread_id, address.user)
