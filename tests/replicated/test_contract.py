"""Two replicated stores of any kind keep the contract, even while each of them sometimes fails."""

from __future__ import annotations

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
from tests.storage.redis_support import remove_keys


class TestTwoMemoryStorages(StorageContract):
    paths = ("warm", "between")

    def make_storage(self, tmp_path: Path) -> Storage:
        return replicated(MemoryStorage(), MemoryStorage(), mode="async")


class TestTwoStoragesThatFail(StorageContract):
    """Each store fails at random without an answer, and the caller retries."""

    kind = "retried"
    paths = ("cold", "retried")

    answers_get_lost = True

    def make_storage(self, tmp_path: Path) -> Storage:
        # Rare enough that a store is never taken for lost: other tests cover that.
        primary = RetryingStorage(FaultyStorage(MemoryStorage(), at_random(seed=7, rate=0.2)), attempts=3)
        secondary = RetryingStorage(FaultyStorage(MemoryStorage(), at_random(seed=8, rate=0.2)), attempts=3)
        made = replicated(primary, secondary, mode="sync", auto_failover=False)
        # Enough attempts to last until the stores are asked for the roles again: one takes
        # microseconds.
        return RetryingStorage(made, attempts=1_000_000)


class TestSQLiteAndRedis(DurableStorageContract):
    kind = "replicated"
    paths = ("batched", "retried")

    @pytest.fixture(autouse=True)
    def leave_nothing(self, tmp_path: Path) -> Iterator[None]:
        yield
        remove_keys(shared_redis(), str(tmp_path))

    def make_storage(self, tmp_path: Path) -> Storage:
        primary = SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL")
        secondary = RedisStorage(shared_redis(), prefix=str(tmp_path))
        # On a busy machine, a server may be slow to confirm the roles, which sync mode needs.
        return replicated(primary, secondary, mode="sync", health_check_interval=20.0)
