"""Making the schema ready: created, checked to be Clew's, migrated to this version, and given the functions of this code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from hashlib import md5, sha256
from importlib.resources import files
from typing import Any

import asyncpg

from clew.errors import ConfigError, SchemaVersionError, StorageError, shown
from clew.storage.postgres.connections import UNHURRIED
from clew.storage.postgres.users import UserColumn
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED

MIGRATIONS = ("tables.sql", "journal.sql", "threads.sql", "receipts.sql")
"""Script n takes the tables from version n to n + 1; a fresh schema runs them all, so they are the tables."""

FUNCTIONS = ("parts.sql", "commit.sql", "usual.sql", "alone.sql", "lease.sql")
"""The functions of this code. Their names end with its digest, so that processes of different code each call their own."""

RULES = "rules.sql"
"""Texts that these scripts share, each named by its `-- name:` line and put where `@rule_…` stands."""

INDEXED_FROM = 1_000
"""From which position on the messages of a thread are in the trigram index: small threads are as fast without it."""

NEWEST_THREADS = 500
"""How many of the newest threads a search looks at before it asks the index."""

_NAME_BYTES = 63
_MARKS = re.compile(
    r"@(schema|text_schema|text_name|user_type|user|code|receipts_kept|receipts_pruned|indexed_from|newest_threads)\b"
)
_RULE = re.compile(r"@rule_(\w+)")
_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION @schema\.(\w+_@code)\((.*?)\$clew\$(.*?)\$clew\$;", re.DOTALL)
_SETTING = re.compile(r"\bSET (\w+) = (\w+)")


@cache
def script(name: str) -> str:
    """The text of one of the SQL files, with the rules that it names."""
    text = files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
    return text if name == RULES else _RULE.sub(lambda mark: _rules()[mark[1]], text)


@cache
def _rules() -> dict[str, str]:
    rules = named(script(RULES))
    # A rule may be made of another.
    return {name: _RULE.sub(lambda mark: rules[mark[1]], text) for name, text in rules.items()}


def named(text: str) -> dict[str, str]:
    """The parts of an SQL file, by the names in their `-- name:` lines."""
    found: dict[str, str] = {}
    for part in text.split("-- name:")[1:]:
        title, _, body = part.partition("\n")
        lines = [line.strip() for line in body.splitlines() if not line.lstrip().startswith("--")]
        found[title.strip()] = " ".join(filter(None, lines))
    return found


class Schema:
    """One schema of the database, and the SQL that speaks of it."""

    def __init__(self, name: str, users: UserColumn) -> None:
        if not isinstance(name, str) or not name or "\0" in name or "$clew$" in name:
            raise ConfigError(f"schema must be the name of a PostgreSQL schema, not {shown(name)}")
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise ConfigError(f"schema can't have a lone surrogate in its name: {shown(name)}") from error
        if size > _NAME_BYTES:
            raise ConfigError(f"schema is longer than PostgreSQL's {_NAME_BYTES} bytes: {name!r}")
        self.name = name
        self._users = users
        self.quoted = '"' + name.replace('"', '""') + '"'
        self._functions = "\n".join(map(script, FUNCTIONS))
        self._values = {
            "@user": users.sql_type,
            "@user_type": users.definition,
            "@receipts_kept": str(RECEIPTS_KEPT),
            "@receipts_pruned": str(RECEIPTS_PRUNED),
            "@indexed_from": str(INDEXED_FROM),
            "@newest_threads": str(NEWEST_THREADS),
        }
        made_of = "\n".join((self._functions, *self._values.values()))
        self._values |= {
            "@schema": self.quoted,
            "@text_name": name.replace("'", "''"),
            "@text_schema": self.quoted.replace("'", "''"),
            "@code": sha256(made_of.encode()).hexdigest()[:12],
        }

    def sql(self, text: str) -> str:
        """`text` with the schema's name and the owner column's type in it."""
        # All at once: a schema's name may look like one of the marks.
        return _MARKS.sub(lambda mark: self._values[mark[0]], text)

    def statements(self) -> dict[str, str]:
        """The queries, by the names in their `-- name:` lines."""
        return {name: self.sql(text) for name, text in named(script("reads.sql")).items()}

    def functions(self) -> Iterator[tuple[str, str]]:
        """Each function's name, and that with its settings and a digest of its source, as the server tells them."""
        for name, head, body in _FUNCTION.findall(self._functions):
            settings = ",".join(f"{setting}={value}" for setting, value in _SETTING.findall(head))
            # Not for security: it is the digest that every server can make.
            digest = md5(self.sql(body).encode(), usedforsecurity=False).hexdigest()
            yield self.sql(name), f"{self.sql(name)} {settings} {digest}"

    async def prepare(self, connection: Any) -> None:
        """Bring the schema to this version, with the functions of this code.

        Raises SchemaVersionError if it is newer, or not Clew's."""
        try:
            version, ready = await self._found(connection)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            version, ready = 0, False
        if version == len(MIGRATIONS) and ready:
            return
        async with connection.transaction(isolation="read_committed"):
            # One at a time; until the end of the transaction, so that a pooler between us can't keep it.
            lock = "SELECT pg_advisory_xact_lock(hashtextextended('clew schema ' || $1, 0))"
            await connection.execute(lock, self.name, timeout=UNHURRIED)
            there = await connection.fetchval("SELECT to_regclass($1)", f"{self.quoted}.clew_schema")
            version, ready = await self._found(connection) if there else (0, False)
            if version < len(MIGRATIONS):
                await self._migrate(connection, version)
            if not ready:
                await self._make_functions(connection)

    async def _found(self, connection: Any) -> tuple[int, bool]:
        """The version that the schema has, and whether it has the functions of this code.

        Raises SchemaVersionError or ConfigError if it can't be used."""
        expected = dict(self.functions())
        version, user_type, functions = await connection.fetchrow(self.statements()["version"], list(expected))
        if version > len(MIGRATIONS):
            message = (
                f"schema {self.name!r} has version {version}, and this Clew knows versions up to {len(MIGRATIONS)}: "
                f"upgrade the 'clew' package, or use another schema"
            )
            raise SchemaVersionError(message, schema=self.name, found=version, known=len(MIGRATIONS))
        if user_type != self._users.sql_type:
            message = (
                f"schema {self.name!r} has an owner column of type {user_type}, not {self._users.sql_type} "
                f"(user_id_type={self._users.user_id_type!r}): open it with the type that it was made with"
            )
            raise ConfigError(message, schema=self.name, found=user_type, asked=self._users.sql_type)
        return int(version), set(expected.values()) <= set(functions or ())

    async def _migrate(self, connection: Any, version: int) -> None:
        scripts = [script(name) for name in MIGRATIONS[version:]]
        if version == 0:
            scripts.insert(
                0,
                "CREATE TABLE @schema.clew_schema (version integer NOT NULL); INSERT INTO @schema.clew_schema VALUES (0);",
            )
            if not await connection.fetchval("SELECT true FROM pg_namespace WHERE nspname = $1", self.name):
                scripts.insert(0, "CREATE SCHEMA @schema;")
        try:
            await connection.execute(self.sql("\n".join(scripts)), timeout=UNHURRIED)
        except (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError, asyncpg.DuplicateObjectError) as error:
            message = f"schema {self.name!r} has tables that are not Clew's; give Clew a schema of its own"
            raise SchemaVersionError(message, schema=self.name) from error
        await connection.execute(self.sql("UPDATE @schema.clew_schema SET version = $1"), len(MIGRATIONS))
        if version == 0:
            await self._index_texts(connection)

    async def _make_functions(self, connection: Any) -> None:
        """Make the functions of this code, or put right those that are not as it has them.

        Those of other code are left as they are: processes may use them."""
        try:
            await connection.execute(self.sql(self._functions), timeout=UNHURRIED)
        except asyncpg.InsufficientPrivilegeError as error:
            message = (
                f"schema {self.name!r} lacks functions of this Clew ({self.sql('commit_@code')} and others), or they are not "
                f"as they should be, and this user may not make them: open it once as the user who owns it ({error})"
            )
            raise StorageError(message, schema=self.name) from error

    async def _index_texts(self, connection: Any) -> None:
        """Make the trigram index, if the server has the extension and this user may use it; searches scan without it."""
        try:
            async with connection.transaction():
                await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        except (asyncpg.UndefinedFileError, asyncpg.FeatureNotSupportedError, asyncpg.InsufficientPrivilegeError):
            return
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
            # Somebody has just created it, for another schema.
            pass
        where = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = $1"
        home = await connection.fetchval(where, "pg_trgm")
        index = f"CREATE INDEX messages_by_text ON @schema.messages USING gin (text {home}.gin_trgm_ops)"
        try:
            async with connection.transaction():
                await connection.execute(self.sql(f"{index} WHERE position >= @indexed_from"), timeout=UNHURRIED)
        except (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedObjectError):
            # It is in a schema that this user may not use, or not all of it is there.
            pass
