"""Setup of a PostgreSQL schema: concurrent, migrated, and refused where it can't be used."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from clew.errors import ConfigError, SchemaVersionError, StorageError
from clew.model.commit import Applied
from clew.model.queries import MessageQuery
from clew.storage.postgres import PgStorage, schema
from clew.testing.build import commit, message
from clew.testing.servers import shared_postgres
from tests.rings import rounds
from tests.storage.postgres_support import own_schema

PROCESSES = rounds(4, 8)


@pytest.fixture
def name(tmp_path):
    with own_schema(tmp_path) as name:
        yield name


async def opened(name: str, **options: object) -> PgStorage:
    storage = PgStorage(shared_postgres(), schema=name, **options)  # type: ignore[arg-type]
    await storage.setup()
    return storage


async def set_up(name: str, **options: object) -> None:
    storage = PgStorage(shared_postgres(), schema=name, **options)  # type: ignore[arg-type]
    try:
        await storage.setup()
    finally:
        await storage.close()


async def asked(statement: str, *parameters: object) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(shared_postgres())
    try:
        return [tuple(row) for row in await connection.fetch(statement, *parameters)]
    finally:
        await connection.close()


def _set_up_here(url: str, name: str, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    asyncio.run(_set_up_at(url, name))


async def _set_up_at(url: str, name: str) -> None:
    storage = PgStorage(url, schema=name)
    await storage.setup()
    await storage.apply([commit(messages=[message("m1")])])
    await storage.close()


def test_several_processes_may_set_up_at_once(name):
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(PROCESSES)
    processes = [context.Process(target=_set_up_here, args=(shared_postgres(), name, start)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert asyncio.run(asked(f'SELECT version FROM "{name}".clew_schema')) == [(len(schema.MIGRATIONS),)]


@pytest.mark.parametrize(
    "odd", ['quote"d', "it's", "semi; colon", "Über", "select", "$1", "@schema", "white space", "$$", "a.b"]
)
def test_a_schema_may_have_any_name(odd):
    async def run() -> None:
        storage = await opened(odd)
        await storage.apply([commit(messages=[message("m1")])])
        await storage.lease("t", None, holder="me", now=commit().at, ttl=5)
        assert len((await storage.stats(None)).by_thread) == 1
        await storage.reclaim()
        await storage.close()
        connection = await asyncpg.connect(shared_postgres())
        quoted = odd.replace('"', '""')
        await connection.execute(f'DROP SCHEMA "{quoted}" CASCADE')
        await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("bad", ["", "a\0b", "x" * 64, "$clew$", "a\ud800", 5])
def test_an_invalid_schema_name_is_refused(bad):
    with pytest.raises(ConfigError, match="schema"):
        PgStorage(schema=bad)


def test_a_schema_of_a_newer_version_is_refused(name):
    async def run() -> None:
        await set_up(name)
        await asked(f'UPDATE "{name}".clew_schema SET version = 99')
        with pytest.raises(SchemaVersionError, match=r"version 99.*upgrade"):
            await set_up(name)

    asyncio.run(run())


def test_a_schema_that_is_not_clews_is_refused_and_left_alone(name):
    async def run() -> None:
        connection = await asyncpg.connect(shared_postgres())
        await connection.execute(f'CREATE SCHEMA "{name}"; CREATE TABLE "{name}".messages (id integer)')
        await connection.close()
        with pytest.raises(SchemaVersionError, match="not Clew's"):
            await set_up(name)
        tables = await asked("SELECT tablename::text FROM pg_tables WHERE schemaname = $1", name)
        assert tables == [("messages",)]

    asyncio.run(run())


def test_another_type_of_the_owner_column_is_refused(name):
    async def run() -> None:
        await set_up(name, user_id_type="bigint")
        await set_up(name, user_id_type="bigint")
        with pytest.raises(ConfigError, match=r"type bigint, not text.*user_id_type='string'"):
            await set_up(name)

    asyncio.run(run())


@pytest.fixture
def next_version(monkeypatch):
    """Makes this code that of the next version, which has one more script."""

    def make() -> None:
        more = "ALTER TABLE @schema.threads ADD COLUMN more text; CREATE INDEX more ON @schema.threads (more);"
        real = schema.script
        monkeypatch.setattr(schema, "script", lambda file: more if file == "more.sql" else real(file))
        monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "more.sql"))

    return make


def test_migrating_step_by_step_gives_what_a_fresh_schema_is(name, tmp_path, next_version):
    """Each version's script runs once, with data in the tables or without."""

    async def run(fresh: str) -> None:
        await _set_up_at(shared_postgres(), name)
        next_version()
        await set_up(name)
        await set_up(fresh)
        assert await described(name) == await described(fresh)
        for each in (name, fresh):
            assert await asked(f'SELECT version FROM "{each}".clew_schema') == [(len(schema.MIGRATIONS),)]
        assert await asked(f'SELECT thread_id FROM "{name}".threads') == [("t",)]

    with own_schema(tmp_path / "fresh") as fresh:
        asyncio.run(run(fresh))


def test_eight_may_migrate_at_once_while_a_process_of_the_version_before_writes(name, next_version):
    async def run() -> None:
        older = await opened(name)
        written: list[str] = []

        async def write() -> None:
            written.append(f"m{len(written)}")
            (outcome,) = await older.apply([commit(messages=[message(written[-1])])])
            assert isinstance(outcome, Applied), outcome

        await write()
        next_version()
        migrations = [asyncio.create_task(set_up(name)) for _ in range(PROCESSES)]
        while not all(task.done() for task in migrations):
            await write()
        await asyncio.gather(*migrations)
        await write()
        assert await asked(f'SELECT version FROM "{name}".clew_schema') == [(len(schema.MIGRATIONS),)]
        found = await older.messages(MessageQuery(thread_id="t", user=None, limit=None))
        assert [each.message_id for each in found] == written
        await older.close()

    asyncio.run(run())


async def described(name: str) -> list[list[tuple[object, ...]]]:
    """Return all that a schema consists of, without the schema's name."""
    questions = """
        SELECT table_name::text, column_name::text, data_type::text, is_nullable::text, collation_name::text
        FROM information_schema.columns WHERE table_schema = $1 ORDER BY 1, ordinal_position;
        SELECT replace(indexdef, quote_ident($1), '') FROM pg_indexes WHERE schemaname = $1 ORDER BY 1;
        SELECT proname::text, replace(prosrc, quote_ident($1), ''), proconfig FROM pg_proc
        WHERE pronamespace = quote_ident($1)::regnamespace ORDER BY 1;
        SELECT relname::text, reloptions, relkind::text FROM pg_class
        WHERE relnamespace = quote_ident($1)::regnamespace ORDER BY 1
    """
    return [await asked(question, name) for question in questions.split(";")]


def test_a_user_without_rights_to_create_uses_a_schema_that_is_there(name, tmp_path):
    role = f"r{abs(hash(str(tmp_path)))}"

    async def run() -> None:
        await set_up(name)
        connection = await asyncpg.connect(shared_postgres())
        try:
            await connection.execute(
                f'CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA "{name}" TO {role};'
                f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{name}" TO {role};'
                f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA "{name}" TO {role}'
            )
            storage = PgStorage(shared_postgres().replace("postgres@", f"{role}@"), schema=name)
            await storage.setup()
            (outcome,) = await storage.apply([commit(messages=[message("m1")])])
            assert not isinstance(outcome, Exception)
            await storage.close()
            elsewhere = PgStorage(shared_postgres().replace("postgres@", f"{role}@"), schema="elsewhere")
            with pytest.raises(StorageError, match="lacks a privilege"):
                await elsewhere.setup()
            await elsewhere.close()
        finally:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
            await connection.close()

    assert urlsplit(shared_postgres()).username == "postgres"
    asyncio.run(run())


def test_setup_does_without_a_trigram_extension_that_the_user_may_not_use(tmp_path):
    """As on Supabase, where the extension is in a schema of its own."""
    name = f"r{abs(hash(str(tmp_path)))}"

    async def run() -> None:
        admin = await asyncpg.connect(shared_postgres())
        await admin.execute(f"CREATE DATABASE {name}")
        await admin.execute(f"CREATE ROLE {name} LOGIN; GRANT CREATE ON DATABASE {name} TO {name}")
        try:
            there = urlsplit(shared_postgres())._replace(path=f"/{name}").geturl()
            connection = await asyncpg.connect(there)
            await connection.execute("CREATE SCHEMA extensions")
            if await connection.fetchval("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_trgm'"):
                await connection.execute("CREATE EXTENSION pg_trgm SCHEMA extensions")
            storage = PgStorage(there.replace("postgres@", f"{name}@"))
            await storage.setup()
            await storage.apply([commit(messages=[message("m1", text="a needle")])])
            (found,) = await storage.messages(MessageQuery(thread_id="t", user=None, search="needle"))
            assert found.message_id == "m1"
            assert not await connection.fetch("SELECT FROM pg_indexes WHERE indexname = 'messages_by_text'")
            await storage.close()
            await connection.close()
        finally:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
            await admin.execute(f"DROP ROLE {name}")
            await admin.close()

    asyncio.run(run())


def test_setup_of_a_schema_that_is_ready_is_one_query(name):
    queries: list[str] = []

    async def listen(connection) -> None:
        connection.add_query_logger(lambda query: queries.append(query.query))

    async def run() -> None:
        await set_up(name)
        await set_up(name, pool_config={"init": listen})

    asyncio.run(run())
    assert len(queries) == 1


@pytest.fixture
def other_code(monkeypatch):
    """A context manager in which the functions have another digest, as those of other code."""
    real = schema.script

    @contextmanager
    def other_code(remark: str = "-- A correction.") -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(
                schema, "script", lambda file: real(file) + (f"\n{remark}\n" if file in schema.FUNCTIONS else "")
            )
            yield

    return other_code


async def functions(name: str) -> dict[str, tuple[object, ...]]:
    """Return the functions of a schema, each with the columns that change if it is replaced."""
    rows = await asked(
        "SELECT proname::text, oid::text, xmin::text FROM pg_proc WHERE pronamespace = quote_ident($1)::regnamespace",
        name,
    )
    assert len({row[0] for row in rows}) == len(rows)
    return {str(row[0]): row[1:] for row in rows}


def code_of(name: str) -> str:
    return PgStorage(schema=name)._schema.sql("@code")


def test_every_function_of_the_code_has_its_digest_in_its_name(name):
    asyncio.run(set_up(name))
    known = PgStorage(schema=name)._schema.functions
    text = "".join(map(schema.script, schema.FUNCTIONS))
    assert len(known) == text.count("CREATE OR REPLACE FUNCTION ") == text.count("$clew$;")
    # An index uses these two.
    assert set(asyncio.run(functions(name))) == {*known, "thread_words", "thread_sought"}
    assert all(each.endswith(f"_{code_of(name)}") for each in known)


WITHOUT_A_CHECK = (
    "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('@schema.commit_fast_save_@code'::regproc),"
    " 't.next_value = in_first', 'true'); END $do$"
)


@pytest.mark.parametrize(
    "tampering",
    [
        WITHOUT_A_CHECK,
        "ALTER FUNCTION @schema.commit_fast_appends_@code RESET enable_seqscan",
        "DROP FUNCTION @schema.lease_@code",
        "DROP FUNCTION @schema.commit_@code, @schema.commit_fast_appends_@code, @schema.commit_fast_save_@code",
    ],
    ids=["a check is gone", "a setting is gone", "one is gone", "several are gone"],
)
def test_functions_that_were_changed_or_dropped_are_restored_by_the_next_setup(name, tampering):
    async def run() -> None:
        await set_up(name)
        before = await described(name)
        await asked(PgStorage(schema=name)._schema.sql(tampering))
        assert await described(name) != before
        await set_up(name)
        assert await described(name) == before

    asyncio.run(run())


def test_a_correction_reaches_a_schema_that_has_the_functions_of_older_code(name, other_code):
    async def run() -> None:
        with other_code("-- As it was."):
            await set_up(name)
            older = code_of(name)
        assert older != code_of(name)
        await set_up(name)
        assert {f"commit_{older}", f"commit_{code_of(name)}"} <= set(await functions(name))

    asyncio.run(run())


def test_older_and_newer_processes_leave_each_others_functions_alone(name, other_code):
    """They set up in turn, and both write to one thread."""

    async def run() -> None:
        older = await opened(name)
        with other_code():
            newer = await opened(name)
        there = await functions(name)
        written: list[str] = []
        for turn in range(6):
            for storage in (older, newer):
                written.append(f"m{len(written)}")
                (outcome,) = await storage.apply([commit(messages=[message(written[-1])])])
                assert isinstance(outcome, Applied), outcome
            with other_code() if turn % 2 else nullcontext():
                await set_up(name)
            assert await functions(name) == there
        found = await newer.messages(MessageQuery(thread_id="t", user=None, limit=None))
        assert [each.message_id for each in found] == written
        await older.close()
        await newer.close()

    asyncio.run(run())


def test_several_processes_may_bring_a_correction_at_once_while_an_older_one_writes(name, other_code):
    async def run() -> None:
        with other_code("-- As it was."):
            older = await opened(name)
        context = multiprocessing.get_context("spawn")
        start = context.Barrier(PROCESSES + 1)
        processes = [
            context.Process(target=_set_up_here, args=(shared_postgres(), name, start)) for _ in range(PROCESSES)
        ]
        for process in processes:
            process.start()
        await asyncio.to_thread(start.wait)
        count = 0
        while any(process.is_alive() for process in processes):
            (outcome,) = await older.apply([commit("old", messages=[message(f"m{count}")])])
            assert isinstance(outcome, Applied), outcome
            count += 1
        assert [process.exitcode for process in processes] == [0] * PROCESSES
        assert f"commit_{code_of(name)}" in await functions(name)
        await older.close()

    asyncio.run(run())


def test_a_user_who_may_not_create_functions_is_told_who_has_to(name, tmp_path, other_code):
    role = f"f{abs(hash(str(tmp_path)))}"

    async def run() -> None:
        with other_code("-- As it was."):
            await set_up(name)
        connection = await asyncpg.connect(shared_postgres())
        storage = PgStorage(shared_postgres().replace("postgres@", f"{role}@"), schema=name)
        try:
            await connection.execute(f'CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA "{name}" TO {role}')
            await connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{name}" TO {role}')
            with pytest.raises(
                StorageError, match=r"lacks functions of this Clew.*open it once as the user who owns it"
            ):
                await storage.setup()
            await set_up(name)
            await storage.setup()
            await storage.close()
            storage = PgStorage(shared_postgres().replace("postgres@", f"{role}@"), schema=name)
            # A function that was changed is treated like a missing one.
            await asked(PgStorage(schema=name)._schema.sql("ALTER FUNCTION @schema.commit_@code RESET ALL"))
            with pytest.raises(StorageError, match="open it once as the user who owns it"):
                await storage.setup()
        finally:
            await storage.close()
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
            await connection.close()

    asyncio.run(run())


def test_no_table_with_records_is_missing_from_the_list(name):
    asyncio.run(set_up(name))
    found = asyncio.run(asked("SELECT tablename::text FROM pg_tables WHERE schemaname = $1", name))
    assert {table for (table,) in found} == {*schema.TABLES, "clew_schema"}


def test_sql_files_say_first_what_they_guarantee():
    for file in (Path(schema.__file__).parent / "sql").iterdir():
        assert file.read_text(encoding="utf-8").startswith("-- "), file


def test_a_schema_that_was_dropped_is_made_again_by_the_storage_that_uses_it(name):
    async def go() -> None:
        storage = await opened(name)
        query = MessageQuery(thread_id="t", user=None)
        try:
            for number in range(2):
                await storage.apply([commit(messages=[message(f"m{number}")])])
                assert [each.message_id for each in await storage.messages(query)] == [f"m{number}"]
                await asked(f'DROP SCHEMA "{name}" CASCADE')
                with pytest.raises(StorageError, match="call setup"):
                    await storage.messages(query)
                with pytest.raises(StorageError, match="call setup"):
                    await storage.apply([commit(messages=[message("lost")])])
                await storage.setup()
                assert await storage.messages(query) == []
            await storage.setup()
        finally:
            await storage.close()

    asyncio.run(go())


@pytest.mark.parametrize("table", ["threads", "receipts", "own"])
def test_setup_says_which_table_was_dropped_and_what_to_do(name, table):
    async def go() -> None:
        storage = await opened(name)
        try:
            await asked(f'DROP TABLE "{name}".{table} CASCADE')
            with pytest.raises(SchemaVersionError, match=f"dropped: {table}. Restore them from a backup") as caught:
                await storage.setup()
            assert caught.value.missing == (table,)
        finally:
            await storage.close()
        with pytest.raises(SchemaVersionError, match=f"dropped: {table}"):
            await set_up(name)

    asyncio.run(go())
