"""Taking commits from one store's journal to the other store, in the order of each thread, until the two are the same.

A commit is applied there only after the commit that it came after here (`Commit.after`), and once (its receipt): so it does not
matter who takes it over, how often, or what was lost on the way. Where it does not fit, the two stores differ in that thread.

In async mode, both may have acknowledged what the other lacks: towards the primary the thread is merged, towards the secondary
it is copied. In sync mode, the store that serves has everything that was acknowledged. The other one may have commits that
were not: their writers try again. So the thread is copied, over those commits: a merge would put them beside the head, where a
retry would find them and be acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from clew.errors import ClewError, TransientStorageError
from clew.model.commit import After, Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import JournalQuery, ValueQuery
from clew.model.records import JournalEntry
from clew.storage.copying import read_content, same_content, same_log
from clew.storage.offload import may_block
from clew.storage.protocol import Storage
from clew.storage.replicated.copies import BusyError, Unbroken, copy_thread, waiting
from clew.storage.replicated.failover import Roles, Side
from clew.storage.replicated.merging import Merging, Rebase
from clew.storage.replicated.packing import COPY, circumstances, unpack
from clew.storage.replicated.removed import Removed

PAGE: Final = 100
"""How many entries are read and applied at a time."""
What = Callable[[JournalEntry], Literal["ship", "trim", "leave"]]
"""What to do with an entry: take it over, take it out because that has been done, or leave it to whoever is about to."""
_log = logging.getLogger("clew.replication")


class Drained(Struct, frozen=True, kw_only=True):
    """What one go took over; `left` is how many entries were still in the journal when it ended."""

    taken: int = 0
    left: int = 0


class Shipping:
    """Takes commits over between a primary and a secondary. Both ways may go on at once, in any number of processes."""

    def __init__(
        self,
        primary: Storage,
        secondary: Storage,
        *,
        rebase: Rebase,
        unbroken: Unbroken,
        roles: Callable[[], Roles | None] | None = None,
    ) -> None:
        """`roles` are given in sync mode: what this process knows of them."""
        self._primary = primary
        self._secondary = secondary
        self._unbroken = unbroken
        self._roles = roles
        self._merging = Merging(secondary, primary, rebase=rebase, unbroken=unbroken)
        self._stuck: set[str] = set()
        self.problem: str | None = None
        """Why the last go could not take a thread over, if so."""

    async def to_secondary(self, what: What | None = None) -> Drained:
        """Take over what the primary's journal has; `what` says what is to be done with an entry."""
        return await self._drain(self._primary, self._secondary, what, serving=False)

    async def to_primary(self, *, serving: bool) -> Drained:
        """Take over what the secondary's journal has; `serving`: it is the one that serves."""
        return await self._drain(self._secondary, self._primary, None, serving=serving)

    async def thread_to_secondary(self, thread_id: str) -> str | None:
        """Take over what the primary's journal has of one thread, now; the last commit that both have, if that is known.

        Raises what keeps it from being done."""
        entries = await waiting(self._primary, thread_id)
        if await self._ship(self._primary, self._secondary, entries):
            await self._reconcile(thread_id, to="secondary", serving=False)
            return None
        return entries[-1].commit_id if entries and entries[-1].incarnation is not None else None

    async def same(self, thread_id: str) -> None:
        """Make the secondary's thread what the primary's is, whatever it is now."""
        await self._reconcile(thread_id, to="secondary", serving=False)

    async def back(self, thread_id: str) -> None:
        """Take the secondary's thread over into the primary, whatever it is there."""
        await self._reconcile(thread_id, to="primary", serving=True)

    async def _drain(self, source: Storage, target: Storage, what: What | None, *, serving: bool) -> Drained:
        page = await source.journal(JournalQuery(without=frozenset(self._stuck), limit=PAGE))
        entries = list(page.entries)
        if what is not None:
            sorted_out = [(entry, what(entry)) for entry in entries]
            if known := [entry for entry, way in sorted_out if way == "trim"]:
                await source.trim(known)
            left_alone = {entry.thread_id for entry, way in sorted_out if way == "leave"}
            entries = [entry for entry, way in sorted_out if way == "ship" and entry.thread_id not in left_alone]
        if not self._stuck:
            self.problem = None
        refused = await self._ship(source, target, entries)
        to: Side = "primary" if target is self._primary else "secondary"
        if may_block():
            for thread_id in refused:
                await self._try_to_reconcile(thread_id, to, serving)
        else:
            await asyncio.gather(*(self._try_to_reconcile(thread_id, to, serving) for thread_id in refused))
        taken = len(page.entries)
        if taken < PAGE:
            self._stuck.clear()
        left = (await source.journal(JournalQuery(limit=1))).count if taken else page.count
        return Drained(taken=taken, left=left)

    async def _try_to_reconcile(self, thread_id: str, to: Side, serving: bool) -> None:
        try:
            await self._reconcile(thread_id, to=to, serving=serving)
        except TransientStorageError:
            raise
        except (ClewError, BusyError) as error:
            # The others go on. This one is tried again with the next round.
            self._stuck.add(thread_id)
            self.problem = f"thread {thread_id!r} could not be taken over: {error}"
            _log.warning("%s", self.problem)

    async def _ship(self, source: Storage, target: Storage, entries: Sequence[JournalEntry]) -> list[str]:
        """Apply what `entries` hold to `target`; the threads in which it did not fit, each once."""
        refused: dict[str, None] = {}
        batch: list[tuple[JournalEntry, Commit]] = []
        for entry in sorted(entries, key=lambda each: each.position):
            commit = shipped(entry)
            if commit is None or (entry.after is None and not await self._may_begin(source, target, entry)):
                refused[entry.thread_id] = None
                continue
            if commit.fork is None:
                batch.append((entry, commit))
                continue
            # What it forks has to be there, and not yet what comes after.
            refused.update(await self._apply(source, target, batch, refused))
            refused.update(await self._apply(source, target, [(entry, commit)], refused, keep=True))
            if entry.thread_id not in refused:
                # The entry stays until it is certain that the fork is the same.
                if await self._is_same_fork(source, target, entry):
                    await source.trim([entry])
                elif not await self._is_copied(source, target, entry.thread_id):
                    refused[entry.thread_id] = None
            batch = []
        refused.update(await self._apply(source, target, batch, refused))
        return list(refused)

    async def _may_begin(self, source: Storage, target: Storage, entry: JournalEntry) -> bool:
        """Whether a thread may begin in `target` with `entry`, where no chain shows what has happened to it since.

        Not if the primary has entries of its own, which may have removed something; nor if the thread was deleted in `source`
        since, by a commit of the other store."""
        if target is self._primary and await waiting(target, entry.thread_id, 1):
            return False
        if entry.incarnation is None:
            return True
        position = ValueQuery(thread_id=entry.thread_id, user=ANY_USER, ranges=())
        basis = (await source.values(position)).basis
        return basis is not None and basis.incarnation == entry.incarnation

    async def _apply(
        self,
        source: Storage,
        target: Storage,
        batch: list[tuple[JournalEntry, Commit]],
        refused: dict[str, None],
        *,
        keep: bool = False,
    ) -> dict[str, None]:
        """Apply the entries of each thread in their order, up to the first that does not fit; the threads that have one.

        `target` may have one of them already, of a try that was not acknowledged, after commits of its own; and what comes
        after that would fit by its chain. So the first of a thread goes alone. If it is applied, the chain ended where it
        should, and the others follow. If `target` had it, it fits only if `target` has nothing to hand over of that thread.
        """
        misfits: dict[str, None] = {}
        left = [(entry, commit) for entry, commit in batch if entry.thread_id not in refused]
        while left:
            firsts = {each[0].thread_id: each for each in reversed(left)}
            done, proven = await _fitting(target, list(firsts.values()), misfits)
            for entry in [each for each in done if each.thread_id not in proven]:
                if await waiting(target, entry.thread_id, 1):
                    done.remove(entry)
                    misfits[entry.thread_id] = None
            others = [each for each in left if each is not firsts[each[0].thread_id]]
            rest = [each for each in others if each[0].thread_id not in misfits]
            following = [each for each in rest if each[0].thread_id in proven]
            done += (await _fitting(target, following, misfits))[0]
            if done and not keep:
                await source.trim(done)
            left = [each for each in rest if each[0].thread_id not in proven]
        return misfits

    async def _is_same_fork(self, source: Storage, target: Storage, entry: JournalEntry) -> bool:
        """Whether the fork brought the same there: if the two stores came to what it forks in different ways, it may not."""
        if source.capabilities.shares_forks != target.capabilities.shares_forks:
            # One of them has all values of what it forks, the other only those that the checkpoint needs.
            return False
        if len(await waiting(source, entry.thread_id, 2)) > 1:
            # It has been written to since, so that can't be seen.
            return False
        here = await read_content(source, entry.thread_id)
        there = await read_content(target, entry.thread_id)
        # All of the log: what is written to the fork next may refer to any of it.
        return here is not None and there is not None and same_content(here, there) and same_log(here, there)

    async def _is_copied(self, source: Storage, target: Storage, thread_id: str) -> bool:
        try:
            return await copy_thread(source, target, thread_id, self._unbroken)
        except BusyError:
            return False

    async def _reconcile(self, thread_id: str, *, to: Side, serving: bool) -> None:
        if to == "primary":
            # What the secondary has while the primary serves came too late to be acknowledged.
            if not await self._copied_over(thread_id, "primary" if serving else "secondary"):
                await self._merging.thread(thread_id, serving=serving)
            return
        if not await copy_thread(self._primary, self._secondary, thread_id, self._unbroken):
            if await self._copied_over(thread_id, "secondary"):
                return
            # The secondary has commits of its own, of a writer that came late: those first.
            await self._merging.thread(thread_id, serving=False)
            if not await copy_thread(self._primary, self._secondary, thread_id, self._unbroken):
                raise BusyError(f"thread {thread_id!r} is written to in the secondary")

    async def _copied_over(self, thread_id: str, to: Side) -> bool:
        """In sync mode, copy the thread of the store that serves over commits in the other one that were not acknowledged.

        Returns `False` if there may be some that were: in async mode, and what is left from it. Raises BusyError if the roles
        that this process knows, or the terms of the entries, show that it comes too late."""
        if self._roles is None:
            return False
        source, target = (self._secondary, self._primary) if to == "primary" else (self._primary, self._secondary)
        entries = await waiting(target, thread_id)
        roles = self._roles()
        if roles is None or (to == "primary") != (roles.active == "secondary" or roles.closing):
            raise BusyError(f"thread {thread_id!r}: the stores have changed roles")
        notes = [circumstances(each) for each in entries]
        if to == "primary" and any(each.lone for each in notes):
            return False
        if any(each.term >= roles.term for each in notes):
            raise BusyError(f"thread {thread_id!r}: the stores have changed roles")
        over = Removed(position=entries[-1].position if entries else -1)
        return await copy_thread(source, target, thread_id, self._unbroken, over=over)


async def _fitting(
    target: Storage, batch: Sequence[tuple[JournalEntry, Commit]], misfits: dict[str, None]
) -> tuple[list[JournalEntry], set[str]]:
    """Apply the commits: the entries that fit, and the threads in which one was applied that `target` did not have.

    Adds the threads to `misfits` in which one did not fit."""
    done: list[JournalEntry] = []
    proven: set[str] = set()
    outcomes = await target.apply([commit for _, commit in batch]) if batch else []
    for (entry, commit), outcome in zip(batch, outcomes, strict=True):
        if entry.thread_id in misfits or not fits(entry, commit, outcome):
            misfits[entry.thread_id] = None
            continue
        done.append(entry)
        if isinstance(outcome, Applied) and not outcome.repeated:
            proven.add(entry.thread_id)
    return done, proven


def shipped(entry: JournalEntry) -> Commit | None:
    """The commit to apply to the other store; `None` if it can't be told there whether it fits, or stands for the whole."""
    if entry.data == COPY:
        return None
    commit = unpack(entry)
    created = commit.begin is not None and commit.begin.incarnation == entry.incarnation
    if entry.after is None and entry.incarnation is not None and not created:
        # The thread was there before it was replicated: nothing shows whether the other store has the same.
        return None
    return replace(commit, after=After(entry.after))


def fits(entry: JournalEntry, commit: Commit, outcome: Applied | ClewError) -> bool:
    """Whether the other store's thread is what it is here, as far as this commit tells."""
    if isinstance(outcome, TransientStorageError):
        raise outcome
    if isinstance(outcome, ClewError):
        return False
    deletes = commit.remove is not None and commit.remove.thread
    if outcome.basis is None:
        return deletes or entry.incarnation is None
    return outcome.basis.incarnation == entry.incarnation
