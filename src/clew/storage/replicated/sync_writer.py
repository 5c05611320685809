"""Sync mode: a commit is acknowledged when both stores have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace

from clew.bounded import BoundedMap
from clew.clock import Clock
from clew.errors import ClewError, ConflictError, StorageError, TransientStorageError
from clew.model.commit import After, Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import ValueQuery
from clew.model.records import JournalEntry
from clew.storage.protocol import StaleBasisError, Storage
from clew.storage.replicated.coordinator import UnreplicatedError
from clew.storage.replicated.copies import BusyError, end_of_chain
from clew.storage.replicated.journal_format import portable
from clew.storage.replicated.shipper import Shipper

_KNOWN: Final = 10_000
_DONE: Final = 100_000
_PATIENCE: Final = 5.0
"""Seconds after which any process ships an entry: its writer has probably died."""


class SyncWriter:
    """Applies commits to the primary, then to the secondary: two round trips for a known thread.

    It remembers the last commit of a thread's chain, and the primary checks that it still is the
    last one. Then the new commit fits the secondary too, and its journal entry need not be read.
    Entries are trimmed later, many at a time (`triage`).
    """

    def __init__(self, primary: Storage, secondary: Storage, shipper: Shipper, clock: Clock) -> None:
        self._primary = primary
        self._secondary = secondary
        self._shipper = shipper
        self._clock = clock
        self._ends: BoundedMap[str, str] = BoundedMap(max_entries=_KNOWN)
        self._done: BoundedMap[tuple[str, str], bool] = BoundedMap(max_entries=_DONE)
        self._found: BoundedMap[tuple[str, str], float] = BoundedMap(max_entries=_DONE)
        self._uncertain: BoundedMap[tuple[str, str], bool] = BoundedMap(max_entries=_KNOWN)

    def triage(self, entry: JournalEntry) -> Literal["ship", "trim", "leave"]:
        """Return what the background does with an entry. A slow writer's entries are shipped."""
        key = entry.thread_id, entry.commit_id
        if self._done.pop(key):
            self._found.pop(key)
            return "trim"
        # Measured with this process's own clock: the writers' clocks may be wrong.
        now = self._clock.monotonic()
        found = self._found.get(key)
        if found is None:
            self._found.put(key, now)
            return "leave"
        return "ship" if now - found > _PATIENCE else "leave"

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """Apply the commits to both stores. Raises UnreplicatedError if the secondary fails."""
        try:
            return await self._apply(commits)
        except StorageError:
            for commit in commits:
                self._uncertain.put((commit.thread_id, commit.commit_id), True)
            raise

    async def final(self, commit: Commit, outcome: Applied | ClewError, *, term: int) -> Applied | ClewError:
        """Return the final outcome of `commit`, for which the serving secondary returned `outcome`.

        The primary may have a commit that the secondary refuses: a process can read in the primary
        what the secondary does not have yet, and write on top of it. The primary would ship that
        commit when it is back, although its writer was told that it was refused. So the secondary
        ends the thread's chain first. If it does not have the thread, that would drop a thread that
        the primary may have created: raises TransientStorageError.
        """
        refused = isinstance(outcome, ConflictError) and not isinstance(outcome, StaleBasisError)
        if not refused or not self._uncertain.get((commit.thread_id, commit.commit_id)):
            return outcome
        position = ValueQuery(thread_id=commit.thread_id, user=ANY_USER, ranges=())
        if (await self._secondary.values(position)).basis is None:
            raise TransientStorageError(
                f"thread {commit.thread_id!r} is not in the secondary, which serves, but the primary may have it with "
                "this commit; a retry is safe, and has a result when the primary serves again",
                thread_id=commit.thread_id,
            )
        (ended,) = await self._secondary.apply((end_of_chain(commit.thread_id, commit.at, term=term),))
        if isinstance(ended, ClewError):
            raise ended
        # A late process may have shipped the commit before the chain ended.
        (outcome,) = await self._secondary.apply((commit,))
        return outcome

    async def _apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        often = Counter(commit.thread_id for commit in commits)
        chained = [self._chained(commit) if often[commit.thread_id] == 1 else commit for commit in commits]
        outcomes = await self._primary.apply(chained)
        outcomes, chained = await self._unchained(commits, chained, outcomes)
        try:
            await self._replicate(chained, outcomes)
        except (StorageError, BusyError) as error:
            raise UnreplicatedError(
                f"the commit is safe in the primary, but not in the secondary yet; a retry is safe ({error})"
            ) from error
        return outcomes

    def _chained(self, commit: Commit) -> Commit:
        end = self._ends.get(commit.thread_id)
        if end is None or commit.after is not None or commit.fork is not None:
            # A fork is compared in both stores when it is shipped.
            return commit
        return replace(commit, after=After(end))

    async def _unchained(
        self, commits: Sequence[Commit], chained: list[Commit], outcomes: list[Applied | ClewError]
    ) -> tuple[list[Applied | ClewError], list[Commit]]:
        """Apply commits again, without a chain, whose thread another process has written to."""
        again = [
            number
            for number, outcome in enumerate(outcomes)
            if isinstance(outcome, StaleBasisError) and chained[number] is not commits[number]
        ]
        if again:
            for number, outcome in zip(
                again, await self._primary.apply([commits[each] for each in again]), strict=True
            ):
                outcomes[number], chained[number] = outcome, commits[number]
        return outcomes, chained

    async def _replicate(self, commits: Sequence[Commit], outcomes: Sequence[Applied | ClewError]) -> None:
        applied = [
            (commit, outcome) for commit, outcome in zip(commits, outcomes, strict=True) if isinstance(outcome, Applied)
        ]
        direct = [(commit, outcome) for commit, outcome in applied if commit.after is not None and not outcome.repeated]
        others = dict.fromkeys(commit.thread_id for commit, outcome in applied if (commit, outcome) not in direct)
        if direct:
            for commit in await self._direct(direct):
                others[commit.thread_id] = None
        for thread_id in others:
            end = await self._shipper.thread_to_secondary(thread_id)
            self._remember(thread_id, end)

    async def _direct(self, applied: list[tuple[Commit, Applied]]) -> list[Commit]:
        """Apply commits to the secondary whose chain the primary has checked. Returns those that
        did not fit."""
        found = await self._secondary.apply([portable(commit) for commit, _ in applied])
        misfits = []
        for (commit, here), there in zip(applied, found, strict=True):
            if isinstance(there, Applied) and _same_thread(here, there):
                self._remember(commit.thread_id, commit.commit_id)
                # Other processes may have trimmed these. Shipping an evicted one again is idempotent.
                self._done.put((commit.thread_id, commit.commit_id), True)
            else:
                misfits.append(commit)
        return misfits

    def _remember(self, thread_id: str, end: str | None) -> None:
        if end is None:
            self._ends.pop(thread_id)
        else:
            self._ends.put(thread_id, end)


def _same_thread(here: Applied, there: Applied) -> bool:
    return (here.basis and here.basis.incarnation) == (there.basis and there.basis.incarnation)
