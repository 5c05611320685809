"""Two stores keep the contract like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.testing import StorageContract
from tests.replicated.support import replicated


class ReplicatedContract(StorageContract):
    @pytest.fixture(autouse=True, params=["sync", "async"])
    def mode(self, request: pytest.FixtureRequest) -> str:
        self.chosen = str(request.param)
        return self.chosen


class TestTwoMemoryStorages(ReplicatedContract):
    def make_storage(self, tmp_path: Path) -> Storage:
        return replicated(MemoryStorage(), MemoryStorage(), mode=self.chosen)
