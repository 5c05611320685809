"""Commits are idempotent: the contract holds when answers are lost and every apply is tried again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.sqlite import SQLiteStorage
from clew.testing import DurableStorageContract, FaultyStorage, RetryingStorage, StorageContract, at_random, script
from clew.testing.faults import Plan

PLANS: dict[str, Callable[[], Plan]] = {
    "every first answer is lost": lambda: script(cycle(["after apply", None])),
    "some of everything fails": lambda: at_random(seed=7, rate=0.3),
}


def retried(inner: Storage, plan: str) -> Storage:
    # Many attempts: in tests with several OS threads, one thread may get all faults.
    return RetryingStorage(FaultyStorage(inner, PLANS[plan]()), attempts=1000)


LOST, SOME = PLANS


class FaultyContract(StorageContract):
    answers_get_lost = True

    @pytest.fixture(autouse=True, params=[LOST, pytest.param(SOME, marks=pytest.mark.full)])
    def plan(self, request: pytest.FixtureRequest) -> str:
        self.chosen = str(request.param)
        return self.chosen


class TestFaultyMemoryStorage(FaultyContract):
    paths = ("cold", "retried")

    @pytest.fixture(autouse=True, params=[LOST, SOME])
    def plan(self, request: pytest.FixtureRequest) -> str:
        self.chosen = str(request.param)
        return self.chosen

    def make_storage(self, tmp_path: Path) -> Storage:
        return retried(MemoryStorage(), self.chosen)


class TestFaultySQLiteStorage(FaultyContract, DurableStorageContract):
    kind = "retried"
    paths = ("cold", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return retried(SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL"), self.chosen)
