"""Translation of SQLite's errors to Clew's."""

from __future__ import annotations

import sqlite3

from clew.errors import ClewError, CorruptRecordError, SchemaVersionError, StorageError, TransientStorageError

_ADVICE: dict[int, tuple[type[ClewError], str]] = {
    sqlite3.SQLITE_BUSY: (
        TransientStorageError,
        "is in use by another process for longer than `busy_timeout`; try again",
    ),
    sqlite3.SQLITE_LOCKED: (TransientStorageError, "is in use by another connection; try again"),
    sqlite3.SQLITE_FULL: (StorageError, "can't grow: the disk or its quota is full; free some space"),
    sqlite3.SQLITE_READONLY: (
        StorageError,
        "can't be written: make the file and its directory writable for this process",
    ),
    sqlite3.SQLITE_PERM: (StorageError, "can't be accessed: check the permissions of the file and its directory"),
    sqlite3.SQLITE_CANTOPEN: (
        StorageError,
        "can't be opened: create its directory and make both writable for this process",
    ),
    sqlite3.SQLITE_IOERR: (
        StorageError,
        "had a disk error: check the disk and the system's log; nothing was acknowledged",
    ),
    sqlite3.SQLITE_NOMEM: (StorageError, "ran out of memory"),
    sqlite3.SQLITE_TOOBIG: (StorageError, "can't store a value of that size; split it, or store a reference"),
    sqlite3.SQLITE_CORRUPT: (
        CorruptRecordError,
        "is damaged: save a copy, then recover it with `sqlite3 FILE .recover`",
    ),
    sqlite3.SQLITE_NOTADB: (SchemaVersionError, "is not a database; give Clew a file of its own"),
}

FILE_FAILURES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOTADB,
    }
)
"""Codes of failures of the whole file, which no commit has caused."""


def error_code(error: BaseException) -> int | None:
    """SQLite's primary code for `error`, if it has one."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""The driver's errors. UnicodeDecodeError: SQLite's message quotes a damaged name from the file."""


def is_undecodable(error: BaseException) -> bool:
    """Return whether `error` is the driver's own error for damaged text, which has no code."""
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode to UTF-8")


def storage_error(error: BaseException, path: str) -> ClewError:
    """Return Clew's error for `error`: what happened and what to do. `error` is its cause."""
    if isinstance(error, ClewError):
        return error
    kind, advice = _ADVICE.get(error_code(error) or -1, (StorageError, "failed"))
    if is_undecodable(error) or isinstance(error, UnicodeDecodeError):
        kind, advice = CorruptRecordError, "contains damaged text"
    mapped = kind(f"{path} {advice} ({type(error).__name__}: {error})", path=path)
    mapped.__cause__ = error
    return mapped
