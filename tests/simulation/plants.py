"""Faults that are planted into stores and replication: the simulator must find each of them."""

from __future__ import annotations

from msgspec.structs import replace

from clew.storage.memory import MemoryStorage
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


async def held(self, use):
    """Roles that were read once hold for ever."""
    return True


def has_roles(state, now, settings):
    """Roles that were read once are never too old."""
    return state.roles is not None


def first_finding(scenario, seeds):
    """The first seed that finds something, with its findings."""
    for seed in seeds:
        outcome = simulate(scenario, seed)
        if not outcome.holds:
            return seed, outcome.findings
    return None
