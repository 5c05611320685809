"""State machines: each storage does what the memory storage does, step by random step."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from clew.storage.memory import MemoryStorage
from clew.storage.sqlite import SQLiteStorage
from clew.testing.machine import machine_settings, storage_machine

# The memory storage against itself: the machine must see no difference.
TestMemoryMachine = storage_machine(lambda _: MemoryStorage()).TestCase
TestSQLiteMachine = storage_machine(
    lambda directory: SQLiteStorage(directory / "clew.db", synchronous="NORMAL")
).TestCase
TestSQLiteMachine.settings = machine_settings(30)


class Forgetful(MemoryStorage):
    """Forgets the order of messages."""

    async def messages(self, query):
        found = await super().messages(query)
        return sorted(found, key=lambda each: each.message_id)


class Careless(MemoryStorage):
    """Ignores the basis of a commit."""

    async def apply(self, commits):
        return await super().apply([replace(commit, basis=None) for commit in commits])


class Unchained(MemoryStorage):
    """Ignores `after` of a commit."""

    async def apply(self, commits):
        return await super().apply([replace(commit, after=None) for commit in commits])


@pytest.mark.parametrize("broken", [Forgetful, Careless, Unchained])
def test_the_machine_finds_what_is_wrong(broken):
    machine = storage_machine(lambda _: broken())
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=settings(machine_settings(), phases=[Phase.generate]))


def fresh_run(**environment: str) -> str:
    """The output of a machine that finds a difference, run in a subprocess."""
    environment = {**os.environ, **environment}
    asked = [sys.executable, "-m", "tests.storage.test_machine"]
    found = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode != 0
    return found.stdout + found.stderr


def steps(printed: str) -> list[str]:
    return [line.partition("(")[0].strip() for line in printed.splitlines() if "state." in line]


def test_a_fresh_run_tells_its_seed_and_the_seed_takes_the_same_steps_again():
    first = fresh_run(CLEW_FRESH="1")
    (seed,) = set(re.findall(r"CLEW_SEED=(\d+)", first))
    again = fresh_run(CLEW_SEED=seed)
    assert set(re.findall(r"CLEW_SEED=(\d+)", again)) == {seed}
    assert len(steps(first)) > 2
    assert steps(again) == steps(first)


if __name__ == "__main__":
    run_state_machine_as_test(
        storage_machine(lambda _: Forgetful()), settings=settings(machine_settings(), phases=[Phase.generate])
    )
