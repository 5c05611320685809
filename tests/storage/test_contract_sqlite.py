"""The contract on the SQLite storage."""

from pathlib import Path

from clew.storage.sqlite import SQLiteStorage
from clew.testing import DurableStorageContract


class TestSQLiteStorage(DurableStorageContract):
    def make_storage(self, tmp_path: Path) -> SQLiteStorage:
        return SQLiteStorage(tmp_path / "clew.db")
