"""Drafts: threads under construction, invisible to their owner until they are complete."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Self

from msgspec.structs import replace

from clew.checkpointer.engine import Engine
from clew.errors import ClewError, ConfigError, ConflictError
from clew.ids import new_id
from clew.model.commit import Commit, Removal, ThreadFields
from clew.model.config import ANY_USER
from clew.model.queries import ThreadQuery
from clew.model.records import Basis, LeaseRecord, ThreadRecord
from clew.storage.execution import run_to_end
from clew.storage.locked import lease_held
from clew.storage.protocol import COPYING, StaleBasisError

_TTL: Final = 60.0
"""How many seconds the draft of a process that died blocks its thread id."""


class Draft:
    """A thread that becomes visible as a whole: `async with Draft(engine, thread_id) as draft: …`.

    Until it is published, it belongs to the reserved user `COPYING`. Its maker holds its lease, and
    every commit carries the lease's token. A block that ends without publishing removes the draft.
    A process that dies leaves a draft without a lease, which the next maker of the thread, or a
    cleanup, removes.
    """

    def __init__(self, engine: Engine, thread_id: str) -> None:
        self._engine = engine
        self._thread_id = thread_id
        self._holder = f"copy:{new_id()}"
        self._token: int | None = None
        self._basis: Basis | None = None
        self._taken_at = 0.0
        self._published = False

    async def __aenter__(self) -> Self:
        """Reserve the thread's id. Raises ConflictError if the thread exists or somebody else is making it."""
        if self._engine.fence(self._thread_id) is not None:
            raise ConfigError(
                f"this task holds the lease on {self._thread_id!r}, which a copy would end: copy before you take it"
            )
        # Checked first, so that nobody waits for the lease on a complete thread.
        await self._found()
        try:
            await run_to_end(self._begin())
        except BaseException:
            await run_to_end(self._give_back())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await run_to_end(self._end())

    async def write(self, at: datetime, **part: Any) -> Basis:
        """Add a part, even if the caller is cancelled meanwhile; returns the thread's new basis."""
        return await run_to_end(self._write(at, part))

    async def create(self, at: datetime, fields: ThreadFields) -> None:
        """Begin the thread. Raises ConflictError if it exists by now."""
        try:
            # Only a thread that does not exist is still at sequence 0.
            await self.write(at, remove=Removal(as_of=0), thread=replace(fields, user_id=COPYING))
        except StaleBasisError as error:
            raise _exists(self._thread_id) from error

    async def publish(self, at: datetime, fields: ThreadFields) -> Basis:
        """Give the complete thread to its owner."""
        # Only ANY_USER may change an owner.
        basis = await self.write(at, user=ANY_USER, thread=fields)
        self._published = True
        return basis

    async def remove_abandoned(self) -> None:
        """Remove the draft if its maker has died."""
        try:
            async with self:
                pass
        except ConflictError:
            return

    async def _found(self) -> ThreadRecord | None:
        """The existing draft, if any. Raises ConflictError if the thread exists and is no draft."""
        found = await self._engine.threads(ThreadQuery(user=ANY_USER, thread_id=self._thread_id))
        if found and not is_draft(found[0]):
            raise _exists(self._thread_id)
        return found[0] if found else None

    async def _begin(self) -> None:
        await self._take()
        if await self._found() is not None:
            # Its maker has lost the lease, so its late writes are fenced off.
            await self._remove()
            # The lease was deleted with the thread.
            await self._take()

    async def _end(self) -> None:
        if self._basis is not None and not self._published:
            # If the removal fails, the thread stays an invisible draft.
            with suppress(ClewError):
                await self._remove()
        await self._give_back()

    async def _write(self, at: datetime, part: dict[str, Any]) -> Basis:
        engine = self._engine
        if self._basis is not None and engine.clock.monotonic() - self._taken_at > _TTL / 3:
            await self._take()
        # From the second part on, the basis makes sure that it is still this draft.
        applied = await engine.apply_unrecorded(self._commit(at, **part))
        assert applied.basis is not None  # the thread exists now
        self._basis = applied.basis
        return applied.basis

    async def _remove(self) -> None:
        engine = self._engine
        await engine.apply_unrecorded(self._commit(engine.clock.now(), remove=Removal(thread=True)))

    def _commit(self, at: datetime, **part: Any) -> Commit:
        return Commit(
            commit_id=new_id(),
            thread_id=self._thread_id,
            at=at,
            basis=self._basis,
            fence=self._token,
            **{"user": COPYING, **part},
        )

    async def _take(self) -> None:
        """Take or renew the lease.

        Drafts have their own lease space, apart from users' leases on the same id.
        """
        self._taken_at = self._engine.clock.monotonic()
        lease = await self._ask(_TTL)
        if lease.holder != self._holder:
            raise lease_held(lease, advice="copy to another thread")
        self._token = lease.token

    async def _give_back(self) -> None:
        # If this fails, the lease expires.
        with suppress(ClewError):
            await self._ask(0)

    async def _ask(self, ttl: float) -> LeaseRecord:
        storage, clock = self._engine.storage, self._engine.clock
        return await self._engine.retry(
            lambda: storage.lease(self._thread_id, COPYING, holder=self._holder, now=clock.now(), ttl=ttl)
        )


def is_draft(record: ThreadRecord) -> bool:
    """Return whether the thread is under construction, or was abandoned by its maker."""
    return record.user_id == COPYING


def _exists(thread_id: str) -> ConflictError:
    return ConflictError(f"thread {thread_id!r} exists: copy into a new one", thread_id=thread_id)
