"""A storage with a hot tier keeps the contract of the cold one, alone and stacked, whatever the hot one is or does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from clew.model.queries import CheckpointQuery
from clew.storage.cached import CachedStorage
from clew.storage.locking import LockingStorage
from clew.storage.memory import MemoryStorage
from clew.storage.postgres import PgStorage
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
from clew.testing.servers import shared_postgres, shared_redis
from tests.storage.test_contract_faulty import PLANS, FaultyContract
from tests.storage.test_contract_postgres import PostgresContract, drop, schema_of
from tests.storage.test_contract_redis import clean


class Through(CachedStorage):
    """A cached storage through which every state is read: those too that are only gone through."""

    def _through_hot(self, query: CheckpointQuery) -> bool:
        return query.detail == "state"


def cached(cold: Storage, hot: Storage | None = None) -> Storage:
    # Patient: on a busy machine, a slow answer is no failure.
    return Through(cold, MemoryStorage() if hot is None else hot, timeout=10)


def over_redis(directory: Path) -> Storage:
    hot = RedisStorage(shared_redis(), prefix=f"{directory}:cache", ttl=3600, pool_size=2)
    return cached(PgStorage(shared_postgres(), schema=schema_of(directory)), hot)


class TestMemoryOverMemory(StorageContract):
    paths = ("warm", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return cached(MemoryStorage())


class TestSQLiteWithMemory(DurableStorageContract):
    paths = ("cold", "between")

    def make_storage(self, tmp_path: Path) -> Storage:
        return cached(SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL"))


class StatesContract(CheckpointContract, ValueContract, RemovalContract, ForkContract, ConcurrencyContract):
    """What a hot tier could get wrong."""


class TestMemoryWithSQLite(StatesContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return cached(MemoryStorage(), SQLiteStorage(tmp_path / "hot.db", synchronous="NORMAL"))


class TestPostgresWithRedis(PostgresContract):
    paths = ("cold", "batched")

    @pytest.fixture(autouse=True)
    def leave_nothing(self, tmp_path: Path) -> Iterator[None]:
        yield
        asyncio.run(clean(shared_redis(), f"{tmp_path}:cache"))

    def make_storage(self, tmp_path: Path) -> Storage:  # type: ignore[override]
        return over_redis(tmp_path)


class TestLockedAndCached(CheckpointContract, ValueContract, RemovalContract, ForkContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return LockingStorage(cached(MemoryStorage()), timeout=10, expiry=30)


class TestCachedAndFaulty(FaultyContract):
    """The cold storage fails and loses answers, and whoever is above the cache tries again."""

    paths = ("cold", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return RetryingStorage(cached(FaultyStorage(MemoryStorage(), PLANS[self.chosen]())), attempts=1000)


class TestFaultyHotTier(StatesContract):
    """The hot storage fails every third time, and stays away for a while each time: nobody notices."""

    def make_storage(self, tmp_path: Path) -> Storage:
        faults = script(cycle([None, None, "before apply", None, None, "after apply"]), kinds=("apply", "read"))
        return cached(MemoryStorage(), FaultyStorage(MemoryStorage(), faults))


class TestDeadHotTier(StatesContract):
    """The hot storage never answers."""

    def make_storage(self, tmp_path: Path) -> Storage:
        dead = script(cycle(["before apply"]), kinds=("apply", "read"))
        return cached(MemoryStorage(), FaultyStorage(MemoryStorage(), dead))


TestCachedMachine = storage_machine(lambda _: cached(MemoryStorage())).TestCase


class _Dropping(storage_machine(over_redis)):  # type: ignore[misc]
    """The machine, which takes away the schema that it used."""

    def teardown(self) -> None:
        directory = Path(self._directory.name)
        super().teardown()
        drop(directory)


TestPostgresWithRedisMachine = _Dropping.TestCase
TestPostgresWithRedisMachine.settings = machine_settings(15)
