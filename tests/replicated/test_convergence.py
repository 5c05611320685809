"""Convergence: after everything is shipped, both stores are equal, and nothing acknowledged is
missing."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from clew.errors import ConflictError, TransientStorageError
from clew.model.commit import Commit
from clew.storage.protocol import Storage
from clew.testing.build import checkpoint, commit, deletion, fork_of, message, row
from clew.testing.machine import StorageMachine, machine_settings
from tests.replicated.support import Pair, Process, assert_same
from tests.rings import rounds


class ReplicatedMachine(StorageMachine):
    """Random commits of every kind. In the end, both stores have the same content."""

    mode = "async"

    def make_storage(self, directory: Path) -> Storage:
        self.pair = Pair(mode=self.mode)
        self.process = self.pair.process()
        return self.process.storage

    def teardown(self) -> None:
        self.pair.settle(self.process)
        assert_same(self.pair.primary, self.pair.secondary)
        super().teardown()
        self.pair.close()


class SyncMachine(ReplicatedMachine):
    mode = "sync"


TestAsyncMachine = ReplicatedMachine.TestCase
TestAsyncMachine.settings = machine_settings(12)
TestSyncMachine = SyncMachine.TestCase
TestSyncMachine.settings = machine_settings(12)


class Storm:
    """Three processes write while stores go down and answers get lost. Records what was
    acknowledged."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.chance = random.Random(seed)
        self.processes = [pair.process() for _ in range(3)]
        self.count = 0
        self.checkpoints: dict[str, set[str]] = {}
        self.messages: dict[str, set[str]] = {}
        self.deleted: set[str] = set()

    def step(self) -> None:
        process = self.chance.choice(self.processes)
        thread_id = self.chance.choice("abcd")
        self.count += 1
        name = f"{thread_id}{self.count}"
        match self.chance.random():
            case roll if roll < 0.1:
                side = self.chance.choice(["primary", "secondary"])
                self.pair.down ^= {side}
            case roll if roll < 0.4:
                if self.write(process, commit(thread_id, commit_id=name, messages=[message(name)])):
                    self.messages.setdefault(thread_id, set()).add(name)
            case roll if roll < 0.8:
                if self.save(process, thread_id, name):
                    self.checkpoints.setdefault(thread_id, set()).add(name)
            case roll if roll < 0.85:
                # Each fork has a new name, so a missing one shows in the end.
                fork = f"f{self.count}"
                if self.write(process, commit(fork, commit_id=name, fork=fork_of(thread_id, as_checkpoint_id=name))):
                    self.checkpoints.setdefault(fork, set()).add(name)
            case roll if roll < 0.9:
                gone = self.chance.choice("xy")
                self.write(process, commit(gone, commit_id=name, messages=[message(name)]))
                self.write(process, deletion(gone))
            case _:
                time.sleep(self.chance.choice([0.001, 0.03]))

    def save(self, process: Process, thread_id: str, name: str) -> bool:
        """Save like a checkpointer: read the thread, then write on top of it."""
        for _ in range(20):
            try:
                basis = process.values(thread_id).basis
            except TransientStorageError:
                return False
            first = basis.next_value if basis else 0
            new = checkpoint(name, covers=[(0, first + 1)])
            made = commit(thread_id, commit_id=name, basis=basis, values=row(first), checkpoint=new)
            try:
                return self.write(process, made)
            except ConflictError:
                continue
        return False

    def write(self, process: Process, made: Commit) -> bool:
        """Try to apply the commit a few times. Returns whether it was acknowledged."""
        for _ in range(self.chance.choice([1, 3])):
            try:
                process.apply(made)
            except TransientStorageError:
                continue
            except ConflictError:
                if made.fork is not None:
                    return False
                raise
            return True
        return False

    def calm(self) -> None:
        """Bring both stores back for good, and ship everything."""
        self.pair.down.clear()
        (one, *_) = self.processes

        def served_by_the_primary() -> bool:
            roles = one.state.roles
            return roles is not None and roles.active == "primary" and not roles.closing

        one.until(served_by_the_primary, seconds=20)
        self.pair.settle(one)

    def check(self) -> None:
        assert_same(self.pair.primary, self.pair.secondary)
        primary = self.pair.primary
        for thread_id, names in self.checkpoints.items():
            there = primary.checkpoint_ids(thread_id)
            assert names <= set(there), f"{thread_id} lacks {names - set(there)}"
            assert len(there) == len(set(there))
        for thread_id, names in self.messages.items():
            there = primary.message_ids(thread_id)
            assert names <= set(there), f"{thread_id} lacks {names - set(there)}"
            assert len(there) == len(set(there))


@pytest.mark.parametrize("seed", range(rounds(4, 8)))
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_nothing_acknowledged_is_lost_in_a_storm(mode, seed):
    with Pair(mode=mode, health_check_interval=0.02) as pair:
        storm = Storm(pair, seed)
        for _ in range(3):
            for _ in range(60):
                storm.step()
            storm.calm()
            storm.check()
