"""Sync mode: a commit is acknowledged when both stores have it."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace

from clew.clock import Clock
from clew.errors import ClewError, StorageError
from clew.model.commit import After, Applied, Commit
from clew.model.records import JournalEntry
from clew.storage.protocol import StaleBasisError, Storage
from clew.storage.replicated.copies import BusyError
from clew.storage.replicated.shipping import Shipping
from clew.storage.replicated.steering import UnreplicatedError

_KNOWN: Final = 10_000
_DONE: Final = 100_000
_PATIENCE: Final = 5.0
"""After so many seconds an entry is taken over by whoever finds it: its writer has probably died."""


class Syncing:
    """Applies commits to the primary, and then to the secondary: two round trips for a thread that this process knows.

    It knows with which commit the chain of a thread ended in both, and has the primary check that it still does: then the
    commit fits the secondary too, and its entry need not be read. Entries are taken out later, many at a time (`what`).
    """

    def __init__(self, primary: Storage, secondary: Storage, shipping: Shipping, clock: Clock) -> None:
        self._primary = primary
        self._secondary = secondary
        self._shipping = shipping
        self._clock = clock
        self._ends: OrderedDict[str, str] = OrderedDict()
        self._done: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def what(self, entry: JournalEntry) -> Literal["ship", "trim", "leave"]:
        """What the background does with an entry: its writer brings it over itself, unless that takes too long."""
        key = entry.thread_id, entry.commit_id
        if key in self._done:
            self._done.discard(key)
            self._found.pop(key, None)
            return "trim"
        # By this process's own clock: those of the writers may be wrong.
        now = self._clock.monotonic()
        if len(self._found) >= _DONE:
            self._found.clear()
        return "ship" if now - self._found.setdefault(key, now) > _PATIENCE else "leave"

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        """Apply the commits to both stores. Raises UnreplicatedError if only the primary has them: they are safe there."""
        often = Counter(commit.thread_id for commit in commits)
        chained = [self._chained(commit) if often[commit.thread_id] == 1 else commit for commit in commits]
        outcomes = await self._primary.apply(chained)
        outcomes, chained = await self._unchained(commits, chained, outcomes)
        try:
            await self._replicate(chained, outcomes)
        except (StorageError, BusyError) as error:
            raise UnreplicatedError(
                f"the commit is safe in the primary, but not in the secondary yet; trying again is safe ({error})"
            ) from error
        return outcomes

    def _chained(self, commit: Commit) -> Commit:
        end = self._ends.get(commit.thread_id)
        return commit if end is None or commit.after is not None else replace(commit, after=After(end))

    async def _unchained(
        self, commits: Sequence[Commit], chained: list[Commit], outcomes: list[Applied | ClewError]
    ) -> tuple[list[Applied | ClewError], list[Commit]]:
        """Apply those again, without saying what they come after, whose thread was written to by others since."""
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
            end = await self._shipping.thread_to_secondary(thread_id)
            self._remember(thread_id, end)

    async def _direct(self, applied: list[tuple[Commit, Applied]]) -> list[Commit]:
        """Apply commits to the secondary of which the primary has checked what they come after; those that did not fit."""
        found = await self._secondary.apply([_for_the_other(commit) for commit, _ in applied])
        misfits = []
        for (commit, here), there in zip(applied, found, strict=True):
            if isinstance(there, Applied) and _same_thread(here, there):
                self._remember(commit.thread_id, commit.commit_id if here.basis is not None else None)
                if len(self._done) >= _DONE:
                    # Others have taken them out. What is forgotten is taken over again, and recognised.
                    self._done.clear()
                self._done.add((commit.thread_id, commit.commit_id))
            else:
                misfits.append(commit)
        return misfits

    def _remember(self, thread_id: str, end: str | None) -> None:
        with self._lock:
            self._ends.pop(thread_id, None)
            if end is not None:
                self._ends[thread_id] = end
                if len(self._ends) > _KNOWN:
                    self._ends.popitem(last=False)


def _for_the_other(commit: Commit) -> Commit:
    removal = commit.remove
    if removal is not None and removal.as_of is not None:
        removal = replace(removal, as_of=None)
    return replace(commit, fence=None, journal=None, remove=removal)


def _same_thread(here: Applied, there: Applied) -> bool:
    return (here.basis and here.basis.incarnation) == (there.basis and there.basis.incarnation)
