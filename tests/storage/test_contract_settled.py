"""The storage that a checkpointer with durability="background" sees keeps the whole contract."""

from __future__ import annotations

from pathlib import Path

from clew.checkpointer.background import Background, SettledStorage
from clew.checkpointer.runner import LoopRunner
from clew.storage.memory import MemoryStorage
from clew.storage.protocol import Storage
from clew.testing import StorageContract


def settled(inner: Storage) -> Storage:
    return SettledStorage(inner, Background(LoopRunner(), max_saves=10, max_bytes=1000, tasks=()))


class TestSettledMemoryStorage(StorageContract):
    paths = ("warm", "retried")

    def make_storage(self, tmp_path: Path) -> Storage:
        return settled(MemoryStorage())
