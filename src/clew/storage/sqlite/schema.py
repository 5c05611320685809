"""The file's schema: created, checked, and migrated to this version."""

from __future__ import annotations

import sqlite3
from functools import cache
from importlib.resources import files

from clew.errors import SchemaVersionError

APPLICATION_ID = 0x436C6577
"""`Clew` in the file's header, so that `file` and this code recognise it."""
_UNRELEASED_ID = 0x434C4557
"""`CLEW`: the files of development versions, before the first release."""

MIGRATIONS = ("schema.sql",)
"""Script n takes a file from version n to n + 1. A fresh file runs all of them."""

VERSION = len(MIGRATIONS)

_HEADER = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_application_id, pragma_user_version
"""
# One statement has one snapshot: another process may be creating the file at the same time.


@cache
def script(name: str) -> str:
    """The text of one of this package's SQL files."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def named(name: str) -> dict[str, str]:
    """The statements of an SQL file, by the names in their `-- name:` lines."""
    statements: dict[str, str] = {}
    for part in script(name).split("-- name:")[1:]:
        title, _, text = part.partition("\n")
        lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("--")]
        statements[title.strip()] = " ".join(filter(None, lines))
    return statements


def check(connection: sqlite3.Connection, path: str) -> int:
    """Return the file's version, 0 if it is empty.

    Raises SchemaVersionError if the file isn't Clew's, is newer than this code, or was written by a
    development version.
    """
    application_id, version, tables = connection.execute(_HEADER).fetchone()
    if application_id == APPLICATION_ID:
        if version > VERSION:
            message = (
                f"{path} has schema version {version}, and this Clew knows versions up to {VERSION}: "
                f"upgrade the 'clew' package, or open another file"
            )
            raise SchemaVersionError(message, path=path, found=version, known=VERSION)
        return int(version)
    if application_id == _UNRELEASED_ID:
        message = (
            f"{path} was written by a development version of Clew (layout {version}), which this version can't read: "
            f"open a new file; to keep the threads, copy them with the version that wrote them"
        )
        raise SchemaVersionError(message, path=path, found=version, known=VERSION)
    if application_id or version or tables:
        message = f"{path} is an SQLite database, but not one of Clew's; give Clew a file of its own"
        raise SchemaVersionError(message, path=path, found=application_id, known=APPLICATION_ID)
    return 0


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the file to `VERSION` in one transaction. A concurrent second caller finds it done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for name in MIGRATIONS[check(connection, path) :]:
            for statement in statements(script(name)):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def statements(text: str) -> list[str]:
    """The statements of a script, one by one: `executescript` would commit what came before."""
    found: list[str] = []
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found
