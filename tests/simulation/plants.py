"""Faults that are planted into stores and replication: the simulator must find each of them."""

from __future__ import annotations

import math

from msgspec.structs import replace

from clew.storage.memory import MemoryStorage
from clew.storage.replicated.failover import SILENT
from clew.storage.replicated.steering import Steering
from clew.testing.simulation import simulate


class WithoutReceipts(MemoryStorage):
    """Does not take over the receipts that a copy of a thread brings, so that a retry is applied to the copy again."""

    def _apply(self, commit):
        return super()._apply(replace(commit, receipts=()))


class WithoutFence(MemoryStorage):
    """Takes commits of whoever had the turn once."""

    def _apply(self, commit):
        return super()._apply(replace(commit, fence=None))


class DroppingEntries(MemoryStorage):
    """Leaves every so-manieth commit out of its journal."""

    OFTEN = 15

    def __init__(self):
        super().__init__()
        self._count = 0

    def _note(self, commit, found, left):
        self._count += commit.journal is not None
        if commit.journal is None or self._count % self.OFTEN:
            super()._note(commit, found, left)


class Credulous(Steering):
    """Takes for the roles what it read of them some seconds ago."""

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


def first_finding(scenario, seeds):
    """The first seed that finds something, with its findings."""
    for seed in seeds:
        outcome = simulate(scenario, seed)
        if not outcome.holds:
            return seed, outcome.findings
    return None
