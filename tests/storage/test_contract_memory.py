"""The memory storage keeps the contract, and so would one that copies values into forks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import settings

from clew.model.commit import Commit
from clew.model.records import CheckpointRecord
from clew.storage.memory import MemoryStorage
from clew.storage.memory.decisions import overlapping
from clew.storage.memory.thread import Log, Thread, size_of
from clew.testing import StorageContract
from clew.testing.machine import CI, storage_machine


class CopyingStorage(MemoryStorage):
    """One that shares nothing between threads, as storages do that spread them over machines."""

    capabilities = replace(MemoryStorage.capabilities, name="copying", shares_forks=False)

    def _new_thread(self, commit: Commit, source: tuple[Thread, CheckpointRecord] | None) -> Thread:
        thread = super()._new_thread(commit, source)
        if source:
            thread.rows = overlapping(thread.rows, source[1].covers)
            thread.size += sum(map(size_of, thread.rows))
            thread.log = Log()
        return thread


class TestMemoryStorage(StorageContract):
    def make_storage(self, tmp_path: Path) -> MemoryStorage:
        return MemoryStorage()


class TestCopyingStorage(StorageContract):
    def make_storage(self, tmp_path: Path) -> MemoryStorage:
        return CopyingStorage()


TestCopyingMachine = storage_machine(lambda _: CopyingStorage()).TestCase
TestCopyingMachine.settings = settings(CI, max_examples=40)
