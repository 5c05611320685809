"""The SQLite storage keeps the contract."""

from pathlib import Path

from clew.storage.sqlite import SQLiteStorage
from clew.testing import StorageContract


class TestSQLiteStorage(StorageContract):
    def make_storage(self, tmp_path: Path) -> SQLiteStorage:
        return SQLiteStorage(tmp_path / "clew.db")
