"""A lock for each write: whoever writes to a thread without holding its lease waits for its turn."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from clew.clock import SYSTEM_CLOCK, Clock
from clew.errors import ClewError, LeaseError, PermissionDeniedError
from clew.model.commit import Applied, Commit
from clew.model.records import LeaseRecord
from clew.storage.finishing import finished
from clew.storage.offload import pause
from clew.storage.protocol import Storage
from clew.storage.wrapper import StorageWrapper


class LockingStorage(StorageWrapper):
    """A storage whose commits take the thread's lease first, and give it back.

    Commits are atomic without it. What it adds: a writer that does not ask for the turn itself (`alease`) waits for whoever
    has it, `timeout` seconds at most. A writer that dies with the lock holds it up for `expiry` seconds. Only the owner of
    a lock can give it back, and a commit whose lock has passed to somebody else is refused (LeaseError).
    """

    def __init__(self, inner: Storage, *, timeout: float, expiry: float, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(inner)
        self._timeout = timeout
        self._expiry = expiry
        self._clock = clock

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        # One after the other: holding several locks at once could end in a deadlock.
        return [await self._applied(commit) for commit in commits]

    async def _applied(self, commit: Commit) -> Applied | ClewError:
        if commit.fence is not None:
            (outcome,) = await self.inner.apply((commit,))
            return outcome
        # The commit's own id: if it comes again because an answer was lost, the lock is already its.
        holder = f"commit:{commit.commit_id}"
        try:
            token = await self._lock(commit, holder)
            (outcome,) = await self.inner.apply((replace(commit, fence=token),))
        except (LeaseError, PermissionDeniedError) as error:
            return error
        except BaseException:
            # The caller gave up, or an answer was lost: the lock may have been taken all the same.
            with suppress(ClewError):
                await self._ask(commit, holder, 0)
            raise
        await self._ask(commit, holder, 0)
        return outcome

    async def _lock(self, commit: Commit, holder: str) -> int:
        """The token of the lock on the commit's thread. Raises LeaseError if somebody else keeps it too long."""
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
        """Ask for the lease, or give it back. Who gives up waiting is kept until it is known what came of it: a lease that is
        given back while it is being taken could be taken after that."""
        return await finished(
            self.inner.lease(commit.thread_id, commit.user, holder=holder, now=self._clock.now(), ttl=ttl)
        )


def lease_held(record: LeaseRecord, *, advice: str) -> LeaseError:
    """The error for whoever waited in vain for a thread's turn."""
    return LeaseError(
        f"thread {record.thread_id!r} is held by {record.holder} since {record.since:%H:%M:%S} "
        f"until {record.expires_at:%H:%M:%S} UTC unless renewed; try later, or {advice}",
        thread_id=record.thread_id,
        holder=record.holder,
        since=record.since,
        expires_at=record.expires_at,
    )
