"""The contract on the memory storage, and on one that copies values into forks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clew.ids import new_id
from clew.model.commit import After, Commit, Removal
from clew.storage.memory import MemoryStorage, storage
from clew.storage.memory.facts import overlapping
from clew.storage.memory.thread import Log, Thread, size_of
from clew.storage.protocol import StaleBasisError
from clew.storage.rules import Decision
from clew.testing import StorageContract
from clew.testing.build import commit, message
from clew.testing.driver import InlineStorage
from clew.testing.machine import machine_settings, storage_machine


class CopyingStorage(MemoryStorage):
    """A storage that shares nothing between threads, like one that spreads them over machines."""

    capabilities = replace(MemoryStorage.capabilities, name="copying", shares_forks=False)

    def _new_thread(self, commit: Commit, decided: Decision[Thread]) -> Thread:
        thread = super()._new_thread(commit, decided)
        if decided.origin and commit.fork:
            source, checkpoint_id = decided.origin
            thread.rows = overlapping(thread.rows, source.namespaces[commit.fork.namespace][checkpoint_id].covers)
            thread.size += sum(map(size_of, thread.rows))
            thread.log = Log()
        return thread


class TestMemoryStorage(StorageContract):
    def make_storage(self, tmp_path: Path) -> MemoryStorage:
        return MemoryStorage()


def test_the_ends_of_deleted_threads_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(storage, "_ENDS_KEPT", 2)
    store = InlineStorage(MemoryStorage)
    for name in ("a", "b", "a", "c"):
        store.apply(commit(name, commit_id=new_id(), remove=Removal(), journal=b"j"))
    late = {name: commit(name, messages=[message("m")], after=After(None)) for name in "abc"}
    store.apply(late["b"])
    for name in "ac":
        store.refused(late[name], StaleBasisError)


class TestCopyingStorage(StorageContract):
    paths = ("cold", "retried")

    def make_storage(self, tmp_path: Path) -> MemoryStorage:
        return CopyingStorage()


TestCopyingMachine = storage_machine(lambda _: CopyingStorage()).TestCase
TestCopyingMachine.settings = machine_settings(40)
