"""The SQLite storage: durable threads in one file that processes share, with group commit."""

from clew.storage.sqlite.connections import Synchronous
from clew.storage.sqlite.storage import SQLiteStorage

__all__ = ["SQLiteStorage", "Synchronous"]
