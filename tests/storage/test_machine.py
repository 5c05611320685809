"""The storages do what the reference does, step by random step."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from clew.storage.memory import MemoryStorage
from clew.storage.sqlite import SQLiteStorage
from clew.testing.machine import CI, storage_machine

# The memory storage beside itself: what the machine takes for the same must be so.
TestMemoryMachine = storage_machine(lambda _: MemoryStorage()).TestCase
TestSQLiteMachine = storage_machine(
    lambda directory: SQLiteStorage(directory / "clew.db", synchronous="NORMAL")
).TestCase


class Forgetful(MemoryStorage):
    """Forgets the order of messages."""

    async def messages(self, query):
        found = await super().messages(query)
        return sorted(found, key=lambda each: each.message_id)


class Careless(MemoryStorage):
    """Does not look at the basis of a commit."""

    async def apply(self, commits):
        return await super().apply([replace(commit, basis=None) for commit in commits])


class Unchained(MemoryStorage):
    """Does not look at what a commit comes after."""

    async def apply(self, commits):
        return await super().apply([replace(commit, after=None) for commit in commits])


@pytest.mark.parametrize("broken", [Forgetful, Careless, Unchained])
def test_the_machine_finds_what_is_wrong(broken):
    machine = storage_machine(lambda _: broken())
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=settings(CI, phases=[Phase.generate]))
