"""The Redis storage keeps the contract, on one server and on a cluster."""

from __future__ import annotations

from pathlib import Path

from clew.storage.redis import RedisStorage
from clew.testing import DurableStorageContract
from clew.testing.machine import storage_machine
from clew.testing.servers import shared_cluster, shared_redis


class TestRedisStorage(DurableStorageContract):
    def make_storage(self, tmp_path: Path) -> RedisStorage:
        return RedisStorage(shared_redis(), prefix=str(tmp_path))


class TestRedisClusterStorage(DurableStorageContract):
    def make_storage(self, tmp_path: Path) -> RedisStorage:
        return RedisStorage(shared_cluster(), prefix=str(tmp_path))


TestRedisMachine = storage_machine(lambda directory: RedisStorage(shared_redis(), prefix=str(directory))).TestCase
TestRedisClusterMachine = storage_machine(
    lambda directory: RedisStorage(shared_cluster(), prefix=str(directory))
).TestCase
