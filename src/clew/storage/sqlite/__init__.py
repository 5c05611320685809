"""Threads in one SQLite file: durable, shared by processes, with group commit."""

from clew.storage.sqlite.connections import Synchronous
from clew.storage.sqlite.storage import SQLiteStorage

__all__ = ["SQLiteStorage", "Synchronous"]
