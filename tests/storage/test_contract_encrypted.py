"""The contract for encrypted storages, whose inner storage sees only sealed bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from clew.codec.keyring import Keyring
from clew.model.commit import NewCheckpoint
from clew.model.encryption import Encryption
from clew.model.records import MessageRecord, ValueRow
from clew.storage.encrypted import EncryptedStorage
from clew.storage.encrypted.sealer import Sealer
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.storage.redis import RedisStorage
from clew.storage.sqlite import SQLiteStorage
from clew.testing import DurableStorageContract, FaultyStorage, RetryingStorage, StorageContract, script
from clew.testing.contract.base import ContractPart, Stored
from clew.testing.contract.commits import CommitContract
from clew.testing.contract.forks import ForkContract
from clew.testing.contract.search import SearchContract
from clew.testing.contract.threads import ThreadContract
from clew.testing.machine import machine_settings, storage_machine
from clew.testing.servers import shared_redis
from tests.replicated.support import replicated
from tests.storage.redis_support import remove_keys
from tests.storage.test_contract_cached import cached
from tests.storage.test_contract_faulty import PLANS
from tests.storage.test_contract_postgres import OnPostgres

CIPHER = Keyring(Encryption(keys={"2026": bytes(range(32))}))


def encrypted(inner: Storage) -> Storage:
    return EncryptedStorage(inner, CIPHER)


class Encrypted(ContractPart):
    """Return the size of a sealed record."""

    def stored(self, thread_id: str, *records: Stored) -> int:
        sealer = Sealer(CIPHER, thread_id)
        return super().stored(thread_id, *(_sealed(sealer, each) for each in records))


def _sealed(sealer: Sealer, record: Stored) -> Stored:
    match record:
        case NewCheckpoint():
            return sealer.checkpoint(record)
        case ValueRow():
            return sealer.row(record)
        case MessageRecord():
            return sealer.message(record)
    return sealer.attachment(record)


class TestEncryptedMemory(Encrypted, StorageContract):
    paths = ("batched", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return encrypted(MemoryStorage())


class TestEncryptedSQLite(Encrypted, DurableStorageContract):
    kind = "encrypted"
    paths = ("cold", "between")

    def make_storage(self, tmp_path: Path) -> Storage:
        return encrypted(SQLiteStorage(tmp_path / "clew.db", synchronous="NORMAL"))


# The parts that sealing changes most. The whole contract runs above: a server makes no difference.
class TestEncryptedPostgresWithACache(Encrypted, OnPostgres, CommitContract, ForkContract, SearchContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return encrypted(cached(super().make_storage(tmp_path)))


class TestEncryptedRedis(Encrypted, CommitContract, ForkContract, SearchContract):
    @pytest.fixture(autouse=True)
    def leave_nothing(self, tmp_path: Path) -> Iterator[None]:
        yield
        remove_keys(shared_redis(), str(tmp_path))

    def make_storage(self, tmp_path: Path) -> Storage:
        return encrypted(RedisStorage(shared_redis(), prefix=str(tmp_path)))


class TestTwoEncryptedStorages(Encrypted, CommitContract, ForkContract, SearchContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return replicated(encrypted(MemoryStorage()), encrypted(MemoryStorage()), mode="async")


@pytest.mark.full
class TestEncryptedAndFaulty(Encrypted, CommitContract, ForkContract, ThreadContract):
    """The inner storage fails and loses answers, and the caller retries."""

    answers_get_lost = True

    @pytest.fixture(autouse=True, params=list(PLANS))
    def plan(self, request: pytest.FixtureRequest) -> None:
        self.chosen = str(request.param)

    def make_storage(self, tmp_path: Path) -> Storage:
        # A batch with a fork of an earlier commit takes two calls: one of them must succeed.
        plans = {**PLANS, "every first answer is lost": lambda: script(cycle(["after apply", None, None]))}
        return RetryingStorage(encrypted(FaultyStorage(MemoryStorage(), plans[self.chosen]())), attempts=1000)


TestEncryptedMachine = storage_machine(lambda _: encrypted(MemoryStorage()), exact_sizes=False).TestCase
TestEncryptedMachine.settings = machine_settings(40)
