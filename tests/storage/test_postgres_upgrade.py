"""New code must use old schemas: `tests/golden/postgres-N.sql` is as version N made it, with the golden threads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import clew
from clew.model.commit import After, Applied, Commit
from clew.storage.postgres import PgStorage
from clew.storage.postgres.commits import commit_parameters, outcome
from clew.storage.postgres.schema import MIGRATIONS, Schema
from clew.storage.postgres.users import UserColumn
from clew.storage.protocol import RECEIPTS_KEPT, RECEIPTS_PRUNED, StaleBasisError
from clew.testing import DrivenStorage
from clew.testing.build import checkpoint, commit, message, row
from clew.testing.servers import shared_postgres
from tests.storage.test_contract_postgres import drop, schema_of
from tests.storage.test_golden_file import GOLDEN, check
from tests.storage.test_postgres_setup import FUNCTIONS_PART, asked, described, set_up

FILES = sorted(GOLDEN.glob("postgres-*.sql"))
USERS = UserColumn("string")


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def name(request: pytest.FixtureRequest, tmp_path: Path):
    """A schema of an older version."""
    name = schema_of(tmp_path)
    script = request.param.read_text(encoding="utf-8").replace('"golden schema"', f'"{name}"')
    asyncio.run(restore(script))
    yield name
    drop(tmp_path)


async def restore(script: str) -> None:
    connection = await asyncpg.connect(shared_postgres())
    try:
        await connection.execute(script)
    finally:
        await connection.close()


class Older:
    """A process of version 1 that has long been set up: it calls what that version called, prepared once."""

    def __init__(self, connection: Any, name: str) -> None:
        self.connection = connection
        self.schema = Schema(name, USERS)
        self.statement: Any = None

    async def apply(self, made: Commit) -> Applied:
        parameters = commit_parameters(made, USERS)[:59]
        if self.statement is None:
            numbers = ", ".join(f"${number}" for number in range(1, len(parameters) + 1))
            self.statement = await self.connection.prepare(self.schema.sql(f"SELECT * FROM @schema.commit({numbers})"))
        applied = outcome(made, await self.statement.fetchrow(*parameters))
        assert isinstance(applied, Applied), applied
        assert not applied.repeated
        return applied


def test_a_schema_of_every_version_opens_reads_and_goes_on(name):
    with clew.PgCheckpointer(shared_postgres(), schema=name) as checkpointer:
        check(checkpointer)


def test_a_migrated_schema_is_what_a_fresh_one_is(name, tmp_path):
    async def run() -> None:
        await set_up(name)
        await set_up(fresh)
        found, expected = await described(name), await described(fresh)
        # Processes of version 1 go on with its functions.
        found[FUNCTIONS_PART] = [each for each in found[FUNCTIONS_PART] if each[0] not in older]
        for part, wanted in zip(found, expected, strict=True):
            # Only what is new has the trigram index, where the server can have one.
            assert part == [each for each in wanted if "messages_by_text" not in str(each[0])]

    fresh_directory = tmp_path / "fresh"
    fresh = schema_of(fresh_directory)
    older = {each[0] for each in asyncio.run(described(name))[FUNCTIONS_PART]}
    assert "commit" in older
    try:
        asyncio.run(run())
    finally:
        drop(fresh_directory)


def test_eight_may_migrate_at_once_while_an_older_one_writes(name):
    store = DrivenStorage(lambda: PgStorage(shared_postgres(), schema=name))

    async def run() -> list[str]:
        connection = await asyncpg.connect(shared_postgres())
        older = Older(connection, name)
        written: list[str] = []

        async def write() -> None:
            written.append(f"m{len(written)}")
            await older.apply(commit("old", messages=[message(written[-1])]))

        try:
            await write()
            migrations = [asyncio.create_task(set_up(name)) for _ in range(8)]
            while not all(task.done() for task in migrations):
                await write()
            await asyncio.gather(*migrations)
            await write()
        finally:
            await connection.close()
        return written

    written = store.run(run())
    assert store.run(asked(f'SELECT version FROM "{name}".clew_schema')) == [(len(MIGRATIONS),)]
    assert store.message_ids("old", limit=None) == written
    store.close()


def test_functions_of_an_older_version_are_left_as_they_are(name):
    before = asyncio.run(described(name))[FUNCTIONS_PART]
    asyncio.run(set_up(name))
    after = asyncio.run(described(name))[FUNCTIONS_PART]
    assert [each for each in after if each[0] in {name for name, *_ in before}] == before


def test_receipts_that_an_older_version_kept_for_ever_are_pruned(name):
    store = DrivenStorage(lambda: PgStorage(shared_postgres(), schema=name))
    store.apply(commit(messages=[message("m1")]))
    store.run(asked(f"INSERT INTO \"{name}\".receipts SELECT 't', 'old' || n, 1, true FROM generate_series(1, 999) n"))
    store.apply_all(
        *(commit(messages=[message("m1", str(number))]) for number in range(RECEIPTS_KEPT + RECEIPTS_PRUNED))
    )
    assert not store.run(asked(f'SELECT FROM "{name}".receipts WHERE lasting'))
    store.close()


def test_a_commit_of_an_older_process_ends_a_chain(name):
    store = DrivenStorage(lambda: PgStorage(shared_postgres(), schema=name))
    store.apply(commit(commit_id="a", values=row(0), checkpoint=checkpoint("c1"), journal=b"j"))

    async def run() -> None:
        connection = await asyncpg.connect(shared_postgres())
        await Older(connection, name).apply(commit(messages=[message("m1")]))
        await connection.close()

    store.run(run())
    store.refused(commit(messages=[message("m2")], after=After("a")), StaleBasisError)
    store.apply(commit(messages=[message("m2")], after=After(None)))
    store.close()
