"""Schema setup: creates or migrates the tables, and creates the functions of this code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from hashlib import md5, sha256
from importlib.resources import files
from typing import Any

import asyncpg

from clew.errors import ConfigError, SchemaVersionError, StorageError, TransientStorageError, shown
from clew.storage.branches import MOST_POINTS
from clew.storage.columns import LARGEST
from clew.storage.conversions import FIRST_TIME, LAST_TIME
from clew.storage.execution import is_blocked
from clew.storage.postgres.connections import MAINTENANCE_TIMEOUT
from clew.storage.postgres.users import UserColumn
from clew.storage.protocol import ENDS_KEPT, RECEIPTS_KEPT, RECEIPTS_PRUNED

MIGRATIONS = ("tables.sql",)
"""Script n brings the tables to version n; a new schema runs all. A released one never changes."""

FUNCTIONS = ("feed.sql", "shared.sql", "commit.sql", "fast_appends.sql", "fast_save.sql", "lease.sql")
"""The functions. Their names end with a digest, so each process calls those of its own code.

feed.sql also creates the tables of the feed where they are missing."""

TABLES = (
    *("threads", "value_rows", "checkpoints", "attachments", "messages", "receipts", "leases", "journal", "own"),
    "ended_threads",
    *("search_segments", "search_cells", "search_chunks", "search_waiting"),
    *("feed", "feed_state"),
)
"""The tables with records."""

SEARCH = "search.sql"
"""The tables of the index for searches across threads, which is created with the functions."""

RULES = "rules.sql"
"""Named texts that replace `@rule_<name>` in the functions."""

INDEXED_FROM = 1_000
"""Position from which messages are in the trigram index. Scanning the first ones is as fast."""

NEWEST_THREADS = 500
"""Number of newest threads that a search scans before it uses the index."""

_NAME_BYTES = 63
_LOOK_SECONDS = 0.05
_setups: list[tuple[asyncio.AbstractEventLoop, str]] = []
"""The setups under way in this process: event loops, and names of schemas."""
_MARKS = re.compile(
    r"@(schema|text_schema|text_name|user_type|user|code|receipts_kept|receipts_pruned|most_points|indexed_from"
    r"|newest_threads|largest|ends_kept|first_time|last_time)\b"
)
_RULE = re.compile(r"@rule_(\w+)")
_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION @schema\.(\w+_@code)\((.*?)\$clew\$(.*?)\$clew\$;", re.DOTALL)
_SETTING = re.compile(r"\bSET (\w+) = (\w+)")


@contextmanager
def _noted(loop: asyncio.AbstractEventLoop, name: str) -> Iterator[None]:
    _setups.append((loop, name))
    try:
        yield
    finally:
        _setups.remove((loop, name))


@cache
def script(name: str) -> str:
    """Return the text of an SQL file, with the rules filled in."""
    text = files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
    return text if name == RULES else _RULE.sub(lambda mark: _rules()[mark[1]], text)


@cache
def _rules() -> dict[str, str]:
    rules = named(script(RULES))
    # A rule may contain another one.
    return {name: _RULE.sub(lambda mark: rules[mark[1]], text) for name, text in rules.items()}


@cache
def _created_tables() -> list[str]:
    """The tables that the migrations create. Others are made when they are missing."""
    return re.findall(r"CREATE TABLE @schema\.(\w+)", "\n".join(map(script, MIGRATIONS)))


@cache
def named(text: str) -> Mapping[str, str]:
    """Return the parts of an SQL file by the names in their `-- name:` lines."""
    found: dict[str, str] = {}
    for part in text.split("-- name:")[1:]:
        title, _, body = part.partition("\n")
        lines = [line.strip() for line in body.splitlines() if not line.lstrip().startswith("--")]
        found[title.strip()] = " ".join(filter(None, lines))
    return found


class Schema:
    """One schema of a database: its setup, and SQL with its name filled in."""

    def __init__(self, name: str, users: UserColumn) -> None:
        if not isinstance(name, str) or not name or "\0" in name or "$clew$" in name:
            raise ConfigError(f"schema must be a valid PostgreSQL schema name, not {shown(name)}")
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise ConfigError(f"schema must not contain lone surrogates: {shown(name)}") from error
        if size > _NAME_BYTES:
            raise ConfigError(f"schema must have at most {_NAME_BYTES} bytes: {name!r}")
        self.name = name
        self._users = users
        self.quoted = '"' + name.replace('"', '""') + '"'
        self._functions = "\n".join(map(script, FUNCTIONS))
        self._values = {
            "@user": users.sql_type,
            "@user_type": users.definition,
            "@receipts_kept": str(RECEIPTS_KEPT),
            "@receipts_pruned": str(RECEIPTS_PRUNED),
            "@most_points": str(MOST_POINTS),
            "@indexed_from": str(INDEXED_FROM),
            "@newest_threads": str(NEWEST_THREADS),
            "@largest": str(LARGEST),
            "@first_time": str(FIRST_TIME),
            "@last_time": str(LAST_TIME),
            "@ends_kept": f"interval '{ENDS_KEPT} seconds'",
        }
        made_of = "\n".join((self._functions, *self._values.values()))
        self._values |= {
            "@schema": self.quoted,
            "@text_name": name.replace("'", "''"),
            "@text_schema": self.quoted.replace("'", "''"),
            "@code": sha256(made_of.encode()).hexdigest()[:12],
        }

    def sql(self, text: str) -> str:
        """Return `text` with the schema's name, the owner column's type and the digest filled in."""
        # In one pass, because a schema's name may look like a mark.
        return _MARKS.sub(lambda mark: self._values[mark[0]], text)

    @cached_property
    def statements(self) -> dict[str, str]:
        """The queries by name."""
        return {name: self.sql(text) for name, text in named(script("queries.sql")).items()}

    @cached_property
    def functions(self) -> dict[str, str]:
        """Each function's name, and its description as the `version` query returns it."""
        found: dict[str, str] = {}
        for name, head, body in _FUNCTION.findall(self._functions):
            settings = ",".join(f"{setting}={value}" for setting, value in _SETTING.findall(head))
            # MD5 because every server has it; security does not matter here.
            digest = md5(self.sql(body).encode(), usedforsecurity=False).hexdigest()
            found[self.sql(name)] = f"{self.sql(name)} {settings} {digest}"
        return found

    async def prepare(self, connection: Any) -> None:
        """Create the schema, or bring it to this version and code. Idempotent.

        Raises SchemaVersionError if its version is newer or unreleased, or if it has tables that
        are not Clew's."""
        try:
            version, ready = await self._found(connection)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            version, ready = 0, False
        if version == len(MIGRATIONS) and ready:
            return
        with _noted(asyncio.get_running_loop(), self.name):
            await self._prepare(connection)

    async def _prepare(self, connection: Any) -> None:
        async with connection.transaction(isolation="read_committed"):
            await self._lock(connection)
            there = await connection.fetchval("SELECT to_regclass($1)", f"{self.quoted}.clew_schema")
            version, ready = await self._found(connection) if there else (0, False)
            if version < len(MIGRATIONS):
                await self._migrate(connection, version)
            if not ready:
                await self._make_functions(connection)

    async def _lock(self, connection: Any) -> None:
        """Wait until no other setup of this schema runs, in any process.

        Raises TransientStorageError instead of waiting forever, if the other setup is a task of an event loop
        that a sync call blocks until this setup ends."""
        # A transaction's lock, because a session's could stay with a pooler's connection.
        lock = "SELECT pg_try_advisory_xact_lock(hashtextextended('clew schema ' || $1, 0))"
        while not await connection.fetchval(lock, self.name):
            if any(name == self.name and is_blocked(loop) for loop, name in list(_setups)):
                raise TransientStorageError(
                    f"schema {self.name!r} is being set up by a task of the event loop that this sync call blocks; "
                    f"await that task first, or use async methods only"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _found(self, connection: Any) -> tuple[int, bool]:
        """Return the schema's version, and whether it has the functions of this code.

        Raises SchemaVersionError or ConfigError if this code can't use the schema."""
        expected = self.functions
        row = await connection.fetchrow(self.statements["version"], list(expected), _created_tables())
        version, unreleased, user_type, functions, missing = row
        if unreleased:
            message = (
                f"schema {self.name!r} has the table layout of a Clew from before the first release (version {version} "
                f"then), which can't be migrated: use another schema, or drop this one if its threads are not needed"
            )
            raise SchemaVersionError(message, schema=self.name, found=version, known=len(MIGRATIONS))
        if missing and version == len(MIGRATIONS):
            message = (
                f"schema {self.name!r} lacks tables of Clew that were dropped: {', '.join(sorted(missing))}. Restore them from "
                f"a backup, or drop the whole schema, with its threads, and call setup again"
            )
            raise SchemaVersionError(message, schema=self.name, missing=tuple(sorted(missing)))
        if version > len(MIGRATIONS):
            message = (
                f"schema {self.name!r} has version {version}, but this Clew knows versions up to {len(MIGRATIONS)} only: "
                f"upgrade the 'clew' package, or use another schema"
            )
            raise SchemaVersionError(message, schema=self.name, found=version, known=len(MIGRATIONS))
        if user_type != self._users.sql_type:
            message = (
                f"schema {self.name!r} has an owner column of type {user_type}, not {self._users.sql_type} "
                f"(user_id_type={self._users.user_id_type!r}): open it with the type that it was created with"
            )
            raise ConfigError(message, schema=self.name, found=user_type, asked=self._users.sql_type)
        return int(version), set(expected.values()) <= set(functions or ())

    async def _migrate(self, connection: Any, version: int) -> None:
        scripts = [script(name) for name in MIGRATIONS[version:]]
        namespace = "SELECT true FROM pg_namespace WHERE nspname = $1"
        # Not IF NOT EXISTS, which needs the right to create schemas even if this one exists.
        if version == 0 and not await connection.fetchval(namespace, self.name):
            scripts.insert(0, "CREATE SCHEMA @schema;")
        try:
            await connection.execute(self.sql("\n".join(scripts)), timeout=MAINTENANCE_TIMEOUT)
        except (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError, asyncpg.DuplicateObjectError) as error:
            message = f"schema {self.name!r} has tables that are not Clew's; give Clew a schema of its own"
            raise SchemaVersionError(message, schema=self.name) from error
        await connection.execute(self.sql("UPDATE @schema.clew_schema SET version = $1"), len(MIGRATIONS))
        if version == 0:
            await self._index_texts(connection)

    async def _make_functions(self, connection: Any) -> None:
        """Create the functions of this code, and replace those that were changed.

        Functions of other code stay, because other processes may use them."""
        try:
            await connection.execute(self.sql(script(SEARCH)), timeout=MAINTENANCE_TIMEOUT)
            await connection.execute(self.sql(self._functions), timeout=MAINTENANCE_TIMEOUT)
        except asyncpg.InsufficientPrivilegeError as error:
            message = (
                f"schema {self.name!r} lacks functions of this Clew ({self.sql('commit_@code')} and others), or they were "
                f"changed, and this user may not create them: open it once as the user who owns it ({error})"
            )
            raise StorageError(message, schema=self.name) from error

    async def _index_texts(self, connection: Any) -> None:
        """Create the trigram index if this user may use pg_trgm. Without it, searches scan."""
        try:
            async with connection.transaction():
                await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        except (asyncpg.UndefinedFileError, asyncpg.FeatureNotSupportedError, asyncpg.InsufficientPrivilegeError):
            return
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError):
            # A concurrent setup of another schema has just created it.
            pass
        where = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = $1"
        home = await connection.fetchval(where, "pg_trgm")
        index = f"CREATE INDEX messages_by_text ON @schema.messages USING gin (text {home}.gin_trgm_ops)"
        try:
            async with connection.transaction():
                await connection.execute(
                    self.sql(f"{index} WHERE position >= @indexed_from"), timeout=MAINTENANCE_TIMEOUT
                )
        except (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedObjectError):
            # The extension is in a schema that this user may not use, or it is incomplete.
            pass
