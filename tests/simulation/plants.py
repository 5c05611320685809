"""Planted faults in stores and replication, which the simulator must find."""

from __future__ import annotations

import math

from msgspec.structs import replace

from clew.errors import ConflictError
from clew.model.commit import HEAD
from clew.storage.memory import MemoryStorage
from clew.storage.replicated.coordinator import Coordinator
from clew.storage.replicated.failover import SILENT
from clew.testing.simulation import simulate


class WithoutReceipts(MemoryStorage):
    """Ignores the receipts of a copied thread, so that a retry is applied to the copy again."""

    def _apply(self, commit):
        return super()._apply(replace(commit, receipts=()))


class WithoutFence(MemoryStorage):
    """Accepts commits of former lease holders."""

    def _apply(self, commit):
        return super()._apply(replace(commit, fence=None))


class DroppingEntries(MemoryStorage):
    """Omits every 15th commit from its journal."""

    OFTEN = 15

    def __init__(self):
        super().__init__()
        self._count = 0

    def _add_journal_entry(self, commit, found, left):
        self._count += commit.journal is not None
        if commit.journal is None or self._count % self.OFTEN:
            super()._add_journal_entry(commit, found, left)


class WithoutEnds(MemoryStorage):
    """Forgets the chains of deleted threads, so that late commits create the threads again."""

    def _end_chain(self, commit):
        pass


class WithoutBranches(MemoryStorage):
    """Lets a conversation go on where it is, whatever checkpoint the new one starts from."""

    def _apply(self, commit):
        new = commit.checkpoint
        if new is not None and new.parent is not None:
            new = replace(new, parent=HEAD)
        return super()._apply(replace(commit, checkpoint=new, back_to=None))


class WithoutConflicts(MemoryStorage):
    """Keeps rejecting saves that do not follow from the head, which has moved."""

    def _apply(self, commit):
        new = commit.checkpoint
        return super()._apply(commit if new is None else replace(commit, checkpoint=replace(new, on_conflict="branch")))


class Denying(MemoryStorage):
    """Answers every 15th rejecting save with a conflict, even if it has applied it."""

    OFTEN = 15

    def __init__(self):
        super().__init__()
        self._count = 0

    async def apply(self, commits):
        outcomes = await super().apply(commits)
        for at, commit in enumerate(commits):
            if commit.checkpoint is not None and commit.checkpoint.on_conflict == "reject":
                self._count += 1
                if self._count % self.OFTEN == 0:
                    outcomes[at] = ConflictError("the head has moved")
        return outcomes


class Credulous(Coordinator):
    """Uses roles that it read some seconds ago."""

    OLD = 6.0

    async def _answer(self, side):
        read = self.__dict__.setdefault("read", {})
        at, roles = read.get(side, (-math.inf, SILENT))
        now = self._clock.monotonic()
        if now - at < self.OLD and roles is not SILENT:
            return roles
        roles = await super()._answer(side)
        read[side] = now, roles
        return roles


def seed_that_finds(kinds, scenario, seeds):
    """Return the first seed that finds a fault of one of these kinds."""
    return next((seed for seed in seeds if kinds & simulate(scenario, seed).findings.counts.keys()), None)
