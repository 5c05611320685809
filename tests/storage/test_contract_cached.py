"""The contract for cached storages: any hot storage, alone and stacked, working and failing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from clew.model.queries import CheckpointQuery
from clew.storage.cached import CachedStorage
from clew.storage.locked import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.redis import RedisStorage
from clew.storage.sqlite import SQLiteStorage
from clew.testing import DurableStorageContract, FaultyStorage, RetryingStorage, StorageContract, script
from clew.testing.contract.checkpoints import CheckpointContract
from clew.testing.contract.concurrency import ConcurrencyContract
from clew.testing.contract.forks import ForkContract
from clew.testing.contract.removal import RemovalContract
from clew.testing.contract.values import ValueContract
from clew.testing.machine import machine_settings, storage_machine
from clew.testing.servers import shared_redis
from tests.storage.postgres_support import PostgresMachine
from tests.storage.redis_support import remove_keys
from tests.storage.test_contract_faulty import PLANS, FaultyContract
from tests.storage.test_contract_postgres import PostgresContract


class Through(CachedStorage):
    """A cached storage that reads every state through the hot tier, without a limit too."""

    def _through_hot(self, query: CheckpointQuery) -> bool:
        return query.detail == "state"


def cached(cold: Storage, hot: Storage | None = None) -> Storage:
    # A long timeout: on a busy machine, a slow answer is no failure.
    return Through(cold, MemoryStorage() if hot is None else hot, timeout=60)


def over_redis(directory: Path, cold: Storage) -> Storage:
    return cached(cold, RedisStorage(shared_redis(), prefix=f"{directory}:cache", ttl=3600, pool_size=2))


class TestMemoryOverMemory(StorageContract):
    paths = ("warm", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return cached(MemoryStorage())


class TestSQLiteWithMemory(DurableStorageContract):
    kind = "cached"
    paths = ("cold", "between")

    def make_storage(self, tmp_path: Path) -> Storage:
        return cached(SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL"))


class StatesContract(CheckpointContract, ValueContract, RemovalContract, ForkContract, ConcurrencyContract):
    """The parts of the contract that a hot tier could break."""


@pytest.mark.full
class TestMemoryWithSQLite(StatesContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return cached(MemoryStorage(), SQLiteStorage(tmp_path / "hot.db", synchronous="NORMAL"))


class TestPostgresWithRedis(PostgresContract):
    kind = "cached"
    paths = ("cold", "batched")

    @pytest.fixture(autouse=True)
    def leave_nothing(self, tmp_path: Path) -> Iterator[None]:
        yield
        remove_keys(shared_redis(), f"{tmp_path}:cache")

    def make_storage(self, tmp_path: Path) -> Storage:
        return over_redis(tmp_path, super().make_storage(tmp_path))


class TestLockedAndCached(CheckpointContract, ValueContract, RemovalContract, ForkContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return LockingStorage(cached(MemoryStorage()), timeout=60, expiry=120)


@pytest.mark.full
class TestCachedAndFaulty(FaultyContract):
    """The cold storage fails and loses answers, and the caller of the cache retries."""

    kind = "retried"
    paths = ("cold", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return RetryingStorage(cached(FaultyStorage(MemoryStorage(), PLANS[self.chosen]())), attempts=1000)


class TestFaultyHotTier(StatesContract):
    """The hot storage fails every third time and is suspended each time: no caller notices."""

    def make_storage(self, tmp_path: Path) -> Storage:
        faults = script(cycle([None, None, "before apply", None, None, "after apply"]), kinds=("apply", "read"))
        return cached(MemoryStorage(), FaultyStorage(MemoryStorage(), faults))


@pytest.mark.full
class TestDeadHotTier(StatesContract):
    """The hot storage never answers."""

    def make_storage(self, tmp_path: Path) -> Storage:
        dead = script(cycle(["before apply"]), kinds=("apply", "read"))
        return cached(MemoryStorage(), FaultyStorage(MemoryStorage(), dead))


TestCachedMachine = storage_machine(lambda _: cached(MemoryStorage())).TestCase


class _PostgresWithRedis(PostgresMachine):
    def make_storage(self, directory: Path) -> Storage:
        return over_redis(directory, super().make_storage(directory))


TestPostgresWithRedisMachine = _PostgresWithRedis.TestCase
TestPostgresWithRedisMachine.settings = machine_settings(15)
