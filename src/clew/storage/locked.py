"""Locked writes: a storage wrapper that takes a thread's lease for every commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ClewError, LeaseError, PermissionDeniedError
from clew.model.commit import Applied, Commit
from clew.model.records import LeaseRecord
from clew.storage.execution import pause, run_to_end
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper


class LockingStorage(StorageWrapper):
    """A storage whose commits take the thread's lease first and release it afterwards.

    Commits are atomic without it. It adds that a writer without a lease of its own (`alease`) waits
    up to `timeout` seconds for the current holder. The lock of a writer that dies expires after
    `expiry` seconds. Only its owner can release a lock, and a commit whose lock has passed to
    another writer raises LeaseError.
    """

    def __init__(self, inner: Storage, *, timeout: float, expiry: float, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(inner)
        self._timeout = timeout
        self._expiry = expiry
        self._clock = clock

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        # One at a time: holding several locks could deadlock.
        return [await self._applied(commit) for commit in commits]

    async def _applied(self, commit: Commit) -> Applied | ClewError:
        if commit.fence is not None:
            (outcome,) = await self.inner.apply((commit,))
            return outcome
        # Named after the commit, so that a retry after a lost answer already holds the lock.
        holder = f"commit:{commit.commit_id}"
        try:
            token = await self._lock(commit, holder)
            (outcome,) = await self.inner.apply((replace(commit, fence=token),))
        except (LeaseError, PermissionDeniedError) as error:
            return error
        except BaseException:
            # The caller gave up or an answer was lost; the lock may have been taken nevertheless.
            with suppress(ClewError):
                await self._ask(commit, holder, 0)
            raise
        await self._ask(commit, holder, 0)
        return outcome

    async def _lock(self, commit: Commit, holder: str) -> int:
        """Lock the commit's thread and return the token. Raises LeaseError after the timeout."""
        deadline = self._clock.monotonic() + self._timeout
        while True:
            record = await self._ask(commit, holder, self._expiry)
            if record.holder == holder:
                return record.token
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise lease_held(record, advice="raise lock_timeout")
            await pause(min(left, 0.02))

    async def _ask(self, commit: Commit, holder: str, ttl: float) -> LeaseRecord:
        """Take or release the lease. A cancelled caller still waits for the outcome: otherwise a release
        could overtake the request that takes the lease."""
        return await run_to_end(
            self.inner.lease(commit.thread_id, commit.user, holder=holder, now=self._clock.now(), ttl=ttl)
        )


def lease_held(record: LeaseRecord, *, advice: str) -> LeaseError:
    """The error for a caller that waited in vain for a thread's lease."""
    return LeaseError(
        f"thread {record.thread_id!r} is held by {record.holder} since {record.since:%H:%M:%S} "
        f"until {record.expires_at:%H:%M:%S} UTC unless renewed; try later, or {advice}",
        thread_id=record.thread_id,
        holder=record.holder,
        since=record.since,
        expires_at=record.expires_at,
    )
