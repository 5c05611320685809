"""The contract for the Redis storage, on a single server and on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.model.commit import Applied
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED, Storage
from clew.storage.redis import RedisStorage
from clew.testing import DurableStorageContract
from clew.testing.build import checkpoint, commit
from clew.testing.machine import machine_settings, storage_machine
from clew.testing.servers import shared_cluster, shared_redis
from tests.storage.redis_support import remove_keys
from tests.storage.test_contract_faulty import FaultyContract, retried


class RedisContract(DurableStorageContract):
    url: Callable[[], str]

    @pytest.fixture(autouse=True)
    def leave_nothing(self, tmp_path: Path) -> Iterator[None]:
        yield
        remove_keys(type(self).url(), str(tmp_path))

    def make_storage(self, tmp_path: Path) -> Storage:
        return RedisStorage(type(self).url(), prefix=str(tmp_path))


class TestRedisStorage(RedisContract):
    url = staticmethod(shared_redis)

    def test_the_fast_path_leaves_a_bounded_number_of_receipts(self, store):
        basis = store.apply(commit(checkpoint=checkpoint("c"))).basis
        made = [commit(basis=basis, checkpoint=checkpoint(f"c{number}")) for number in range(RECEIPTS_KEPT * 2)]
        assert all(isinstance(outcome, Applied) for outcome in store.outcomes(*made))

        async def members():
            key = store.storage._keys.thread("t")
            return await (await store.storage._session()).caller.command(key, "ZRANGE", key, 0, -1)

        receipts = [member for member in store.run(members()) if member.startswith(b"r")]
        assert RECEIPTS_KEPT <= len(receipts) <= RECEIPTS_KEPT + RECEIPTS_PRUNED


class TestRedisClusterStorage(RedisContract):
    kind = "cluster"
    paths = ("warm", "between")

    url = staticmethod(shared_cluster)


class TestFaultyRedisStorage(FaultyContract, RedisContract):
    kind = "retried"
    paths = ("cold", "retried")

    url = staticmethod(shared_redis)

    def make_storage(self, tmp_path: Path) -> Storage:
        return retried(super().make_storage(tmp_path), self.chosen)


# With a ttl, so that leftovers expire.
TestRedisMachine = storage_machine(
    lambda directory: RedisStorage(shared_redis(), prefix=str(directory), ttl=3600)
).TestCase
TestRedisClusterMachine = storage_machine(
    lambda directory: RedisStorage(shared_cluster(), prefix=str(directory), ttl=3600)
).TestCase
TestRedisMachine.settings = TestRedisClusterMachine.settings = machine_settings(25)
