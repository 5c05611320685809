"""Two stores keep the contract like one, of whatever kinds they are, also while each of them fails now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.redis import RedisStorage
from clew.storage.sqlite import SQLiteStorage
from clew.testing import DurableStorageContract, FaultyStorage, RetryingStorage, StorageContract, at_random
from clew.testing.servers import shared_redis
from tests.replicated.support import replicated
from tests.storage.test_contract_redis import clean


class TestTwoMemoryStorages(StorageContract):
    paths = ("warm", "between")

    def make_storage(self, tmp_path: Path) -> Storage:
        return replicated(MemoryStorage(), MemoryStorage(), mode="async")


class TestTwoStoragesThatFail(StorageContract):
    """Each fails now and then, and what came of it is not told; whoever calls tries again."""

    paths = ("cold", "retried")

    answers_get_lost = True

    def make_storage(self, tmp_path: Path) -> Storage:
        # Not often enough for two in a row to be taken for a store that is lost: that is what other tests are for.
        primary = RetryingStorage(FaultyStorage(MemoryStorage(), at_random(seed=7, rate=0.2)), attempts=3)
        secondary = RetryingStorage(FaultyStorage(MemoryStorage(), at_random(seed=8, rate=0.2)), attempts=3)
        made = replicated(primary, secondary, mode="sync", auto_failover=False)
        # As many as go on until the stores are asked again who serves, and some more: a try takes microseconds.
        return RetryingStorage(made, attempts=1_000_000)


class TestSQLiteAndRedis(DurableStorageContract):
    paths = ("batched", "retried")

    @pytest.fixture(autouse=True)
    def leave_nothing(self, tmp_path: Path) -> Iterator[None]:
        yield
        asyncio.run(clean(shared_redis(), str(tmp_path)))

    def make_storage(self, tmp_path: Path) -> Storage:
        primary = SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL")
        secondary = RedisStorage(shared_redis(), prefix=str(tmp_path))
        # A server on a busy machine may take long to say who serves, and in sync mode it has to.
        return replicated(primary, secondary, mode="sync", health_check_interval=20.0)
