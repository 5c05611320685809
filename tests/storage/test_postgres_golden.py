"""Golden schemas: new code must open `tests/golden/postgres-N.sql`, a dump of a schema of version
N."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

import clew
from clew.errors import SchemaVersionError
from clew.model.commit import After, Removal
from clew.storage.postgres.schema import MIGRATIONS
from clew.storage.protocol import Own
from clew.testing.build import NOON, commit
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import opened, own_schema
from tests.storage.test_golden_file import GOLDEN, check
from tests.storage.test_postgres_setup import asked, described, set_up

FILES = sorted(GOLDEN.glob("postgres-[0-9]*.sql"))


def restore(file: Path, name: str) -> None:
    script = file.read_text(encoding="utf-8").replace('"golden schema"', f'"{name}"')

    async def run() -> None:
        connection = await asyncpg.connect(shared_postgres())
        await connection.execute(script)
        await connection.close()

    asyncio.run(run())


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def name(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A schema restored from a golden file."""
    with own_schema(tmp_path) as name:
        restore(request.param, name)
        yield name


def test_there_is_a_golden_file_of_the_current_version():
    assert GOLDEN / f"postgres-{len(MIGRATIONS)}.sql" in FILES


def test_a_schema_of_every_version_opens_reads_and_goes_on(name):
    with clew.PgCheckpointer(shared_postgres(), schema=name) as checkpointer:
        check(checkpointer)


def test_journal_lease_and_own_records_of_every_version_are_there(name):
    with opened(name) as store:
        entries = [(each.thread_id, each.commit_id, each.after, each.data) for each in store.journal()]
        assert entries == [("trip", "noted", None, b"for another store")]
        store.apply(commit("trip", user="ana", remove=Removal(), after=After("noted"), journal=b"more"))
        held = store.lease("other", "trip", user="ana", now=NOON)
        assert (held.holder, held.token) == ("me", 1)
        assert store.own(Own.ROLES) == b"own record"


def test_a_schema_of_every_version_becomes_what_a_fresh_one_is(name, tmp_path):
    async def run(fresh: str) -> None:
        await set_up(name)
        await set_up(fresh)
        for part, expected in zip(await described(name), await described(fresh), strict=True):
            # Only new schemas get the trigram index, and only on servers that have pg_trgm.
            assert part == [each for each in expected if "messages_by_text" not in str(each[0])]

    with own_schema(tmp_path / "fresh") as fresh:
        asyncio.run(run(fresh))


@pytest.mark.parametrize("version", [1, 5])
def test_a_layout_from_before_the_first_release_is_refused_and_left_alone(tmp_path, version):
    """Versions 1 to 5 existed before the first release, and then numbering began again."""

    async def run(name: str) -> None:
        await asked(f'UPDATE "{name}".clew_schema SET version = {version}')
        before = await described(name)
        with pytest.raises(
            SchemaVersionError, match=rf"before the first release \(version {version}.*use another schema"
        ):
            await set_up(name)
        assert await described(name) == before

    with own_schema(tmp_path) as name:
        restore(GOLDEN / "postgres-unreleased.sql", name)
        asyncio.run(run(name))
