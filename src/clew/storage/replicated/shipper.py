"""Log shipping: applies the entries of one store's journal to the other, thread by thread.

A commit is applied only after the commit that preceded it in the first store (`Commit.after`), and
once (its receipt). So it does not matter which process ships it, how often, or what gets lost on
the way. A commit that does not fit shows that the stores differ in that thread.

In async mode, each store may have acknowledged what the other lacks. Towards the primary, the
thread is merged; towards the secondary, it is copied. In sync mode, the serving store has
everything that was acknowledged. The other store may have unacknowledged commits, whose writers
will retry, so the thread is copied over them. A merge would make them siblings of the head, where a
retry would find them and be acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from clew.bounded import BoundedMap
from clew.errors import ClewError, CorruptRecordError, TransientStorageError
from clew.model.commit import After, Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import JournalQuery, ValueQuery
from clew.model.records import JournalEntry
from clew.storage.content import read_content, same_content, same_log
from clew.storage.execution import may_block
from clew.storage.protocol import Storage
from clew.storage.replicated.copies import BusyError, Unbroken, copy_thread, pending_entries
from clew.storage.replicated.failover import Roles, Side
from clew.storage.replicated.journal_format import COPY, origin, unpack
from clew.storage.replicated.merger import Merger
from clew.storage.replicated.removals import Removals
from clew.storage.replicated.value_log import Rebase

PAGE: Final = 100
"""How many entries are read and applied at a time."""
Triage = Callable[[JournalEntry], Literal["ship", "trim", "leave"]]
"""Decides about an entry: ship it, trim it as already shipped, or leave it to its writer."""
_REMEMBERED: Final = 10_000
_OFTEN: Final = 20
"""A thread that was postponed so many times in a row is worth a warning."""
_log = logging.getLogger("clew.replication")


class Drained(Struct, frozen=True, kw_only=True):
    """The number of entries that one drain read, and that the journal still had when it ended."""

    taken: int = 0
    left: int = 0


class Shipper:
    """Ships commits between two stores. Any number of processes may do so at once."""

    def __init__(
        self,
        primary: Storage,
        secondary: Storage,
        *,
        rebase: Rebase,
        unbroken: Unbroken,
        roles: Callable[[], Roles | None] | None = None,
    ) -> None:
        """`roles` returns the roles that this process knows; only in sync mode."""
        self._primary = primary
        self._secondary = secondary
        self._unbroken = unbroken
        self._roles = roles
        self._merger = Merger(secondary, primary, rebase=rebase, unbroken=unbroken)
        self._stuck: set[str] = set()
        self._postponed: BoundedMap[str, int] = BoundedMap(max_entries=_REMEMBERED)
        self.problem: str | None = None
        """Why the last drain failed to ship a thread, if it did."""

    async def to_secondary(self, triage: Triage | None = None) -> Drained:
        """Ship a page of the primary's journal; `triage` decides about each entry."""
        return await self._drain(self._primary, self._secondary, triage, serving=False)

    async def to_primary(self, *, serving: bool) -> Drained:
        """Ship a page of the secondary's journal; `serving` says whether the secondary serves."""
        return await self._drain(self._secondary, self._primary, None, serving=serving)

    async def thread_to_secondary(self, thread_id: str) -> str | None:
        """Ship one thread's entries in the primary's journal, now. Returns the last commit that
        both stores have, if that is known. Raises ClewError or BusyError if it fails."""
        entries = await pending_entries(self._primary, thread_id)
        if await self._ship(self._primary, self._secondary, entries):
            await self._reconcile(thread_id, to="secondary", serving=False)
            return None
        return entries[-1].commit_id if entries else None

    async def repair(self, thread_id: str, *, serving: Side) -> None:
        """Make the thread the same in both stores; the serving store's is right."""
        other: Side = "secondary" if serving == "primary" else "primary"
        await self._reconcile(thread_id, to=other, serving=serving == "secondary")

    async def _drain(self, source: Storage, target: Storage, triage: Triage | None, *, serving: bool) -> Drained:
        page = await source.journal(JournalQuery(without=frozenset(self._stuck), limit=PAGE))
        entries = list(page.entries)
        if triage is not None:
            decided = [(entry, triage(entry)) for entry in entries]
            if shipped_before := [entry for entry, decision in decided if decision == "trim"]:
                await source.trim(shipped_before)
            left_alone = {entry.thread_id for entry, decision in decided if decision == "leave"}
            entries = [entry for entry, decision in decided if decision == "ship" and entry.thread_id not in left_alone]
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
        except BusyError as error:
            # Usual under many writers, and no reason to worry unless it does not end.
            times = (self._postponed.get(thread_id) or 0) + 1
            self._postponed.put(thread_id, times)
            level = logging.WARNING if times == _OFTEN else logging.DEBUG
            self._put_off(thread_id, f"shipping postponed: {error}", level)
        except ClewError as error:
            self._put_off(thread_id, f"shipping failed: thread {thread_id!r}: {error}", logging.WARNING)
        else:
            self._postponed.pop(thread_id)

    def _put_off(self, thread_id: str, problem: str, level: int) -> None:
        """Leave the thread to the next round. Other threads are not affected."""
        self._stuck.add(thread_id)
        self.problem = problem
        _log.log(level, "%s", problem)

    async def _ship(self, source: Storage, target: Storage, entries: Sequence[JournalEntry]) -> list[str]:
        """Apply the commits of `entries` to `target`. Returns the threads where one did not fit."""
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
            # The source thread must be as it was when it was forked: commits before the fork are
            # applied first, commits after it later.
            refused.update(await self._apply(source, target, batch, refused))
            refused.update(await self._apply(source, target, [(entry, commit)], refused, keep=True))
            if entry.thread_id not in refused:
                # The entry stays until the forks are known to be the same.
                if await self._is_same_fork(source, target, entry):
                    await source.trim([entry])
                elif not await self._is_copied(source, target, entry.thread_id):
                    refused[entry.thread_id] = None
            batch = []
        refused.update(await self._apply(source, target, batch, refused))
        return list(refused)

    async def _may_begin(self, source: Storage, target: Storage, entry: JournalEntry) -> bool:
        """Return whether `entry` may create its thread in `target`, where it has no chain.

        It may not if `target` is the primary and has entries for the thread, because they may remove
        something, or if a commit of the other store has deleted the thread in `source` since.
        """
        if target is self._primary and await pending_entries(target, entry.thread_id, 1):
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
        """Apply each thread's entries up to the first that does not fit. Returns the misfits' threads.

        `target` may have one of the commits already, from an unacknowledged attempt that followed
        commits of its own, and the next commit would fit by its chain. So a thread's first entry
        goes alone. If it is applied, the chains match, and the others follow. If `target` had it,
        it fits only if the thread has no entries in `target`'s journal.
        """
        misfits: dict[str, None] = {}
        left = [(entry, commit) for entry, commit in batch if entry.thread_id not in refused]
        while left:
            firsts = {each[0].thread_id: each for each in reversed(left)}
            done, proven = await _fitting(target, list(firsts.values()), misfits)
            for entry in [each for each in done if each.thread_id not in proven]:
                if await pending_entries(target, entry.thread_id, 1):
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
        """Return whether the fork has the same content in both stores, whose source threads may differ."""
        if source.capabilities.shares_forks != target.capabilities.shares_forks:
            # A shared fork has all values of its source, a copied one only those that its
            # checkpoint needs.
            return False
        if len(await pending_entries(source, entry.thread_id, 2)) > 1:
            # The fork has been written to since, so the two forks can't be compared.
            return False
        try:
            here = await read_content(source, entry.thread_id)
            there = await read_content(target, entry.thread_id)
        except CorruptRecordError:
            return False
        # The whole value log, because the next commit to the fork may refer to any value in it.
        return here is not None and there is not None and same_content(here, there) and same_log(here, there)

    async def _is_copied(self, source: Storage, target: Storage, thread_id: str) -> bool:
        try:
            return await copy_thread(source, target, thread_id, self._unbroken)
        except (BusyError, CorruptRecordError):
            # A damaged thread is put off, and does not hold up the others.
            return False

    async def _reconcile(self, thread_id: str, *, to: Side, serving: bool) -> None:
        if to == "primary":
            # Commits in the secondary while the primary serves came too late to be acknowledged.
            if not await self._copied_over(thread_id, "primary" if serving else "secondary"):
                await self._merger.merge(thread_id, serving=serving)
            return
        if not await copy_thread(self._primary, self._secondary, thread_id, self._unbroken):
            if await self._copied_over(thread_id, "secondary"):
                return
            # The secondary has commits of a late writer: merge them first.
            await self._merger.merge(thread_id, serving=False)
            if not await copy_thread(self._primary, self._secondary, thread_id, self._unbroken):
                raise BusyError(f"thread {thread_id!r} has concurrent writers in the secondary")

    async def _copied_over(self, thread_id: str, to: Side) -> bool:
        """In sync mode, copy the serving store's thread over unacknowledged commits in the other.

        Returns `False` if the other store may have acknowledged commits: in async mode, or left
        over from it. Raises BusyError if this process's roles or the terms of the entries show that
        the roles have changed.
        """
        if self._roles is None:
            return False
        source, target = (self._secondary, self._primary) if to == "primary" else (self._primary, self._secondary)
        entries = await pending_entries(target, thread_id)
        roles = self._roles()
        if roles is None or (to == "primary") != (roles.active == "secondary" or roles.closing):
            raise BusyError(f"thread {thread_id!r}: the stores have changed roles")
        notes = [origin(each) for each in entries]
        if to == "primary" and any(each.lone for each in notes):
            return False
        if any(each.term >= roles.term for each in notes):
            raise BusyError(f"thread {thread_id!r}: the stores have changed roles")
        over = Removals(position=entries[-1].position if entries else -1)
        return await copy_thread(source, target, thread_id, self._unbroken, over=over)


async def _fitting(
    target: Storage, batch: Sequence[tuple[JournalEntry, Commit]], misfits: dict[str, None]
) -> tuple[list[JournalEntry], set[str]]:
    """Apply the commits. Returns the entries that fit, and the threads with a new commit in `target`.

    Adds threads with a commit that did not fit to `misfits`.
    """
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
    """Return the commit to apply to the other store; `None` if the thread must be copied."""
    if entry.data == COPY:
        return None
    commit = unpack(entry)
    created = commit.begin is not None and commit.begin.incarnation == entry.incarnation
    if entry.after is None and entry.incarnation is not None and not created:
        # The thread is older than its replication: no chain shows whether the other store has the
        # same.
        return None
    return replace(commit, after=After(entry.after))


def fits(entry: JournalEntry, commit: Commit, outcome: Applied | ClewError) -> bool:
    """Return whether the outcome shows that the commit was applied to the same thread."""
    if isinstance(outcome, TransientStorageError):
        raise outcome
    if isinstance(outcome, ClewError):
        return False
    deletes = commit.remove is not None and commit.remove.thread
    if outcome.basis is None:
        return deletes or entry.incarnation is None
    return outcome.basis.incarnation == entry.incarnation
