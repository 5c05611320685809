"""PostgreSQL settings and DSNs: invalid ones are refused by name, and libpq's work or say why not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

import clew
from clew.errors import ConfigError
from clew.storage.postgres import PgStorage
from clew.testing.servers import shared_postgres
from tests.storage.postgres_support import shared_schema

HERE = "postgresql://agent:secret@127.0.0.1"


@pytest.fixture
def name() -> Iterator[str]:
    with shared_schema() as name:
        yield name


async def used(storage: PgStorage) -> None:
    try:
        await storage.ping()
    finally:
        await storage.close()


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        (f"{HERE}:abc/app", "a port in the DSN"),
        (f"{HERE}:99999/app", "a port in the DSN"),
        (f"{HERE},[::1]:0/app", "a port in the DSN"),
        (f"{HERE}/app?port=5432,x", "a port in the DSN"),
        ("postgresql://agent:secret/s@db/app", "a port in the DSN.*%2F"),
        ("postgresql://agent:secret@s@db/app", "more than one @.*%40"),
        ("host=db dbname=app password=secret", "must be a URL.*postgresql://"),
        ("postgresql+asyncpg://agent:secret@db/app", "write postgresql://"),
        (b"postgresql://db", "must be a string"),
        ("postgresql://[db/app", "not a valid URL"),
        (f"{HERE}/app?sslmode=wrong", "sslmode in the DSN must be one of disable, .*wrong"),
        (f"{HERE}/app?target_session_attrs=wrong", "target_session_attrs in the DSN must be one of any, .*wrong"),
        (
            f"{HERE}/app?sslrootcert=/not/there.crt",
            r"sslrootcert in the DSN is not the path of a file: '/not/there.crt'",
        ),
        (f"{HERE}/app?connect_timeout=soon", "connect_timeout in the DSN must be a number"),
        (f"{HERE}/app?connect_timeout=-1", "timeout.* more than 0"),
        (f"{HERE}/app?keepalives_idle=30", "keepalives_idle=30.*tcp_keepalives_idle.*command_timeout"),
        (f"{HERE}/app?channel_binding=require", "channel_binding=require.*verify-full"),
    ],
)
def test_an_invalid_dsn_is_refused_without_showing_its_password(dsn, told):
    with pytest.raises(ConfigError, match=told) as caught:
        PgStorage(dsn)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"statement_cache_size": -1}, "statement_cache_size must be a whole number, 0 or more; got -1"),
        ({"pool_config": {"max_sise": 3}}, "unknown setting 'max_sise'.*asyncpg.create_pool"),
        ({"pool_config": {"max_size": "3"}}, "max_size must be a whole number, 1 or more; got '3'"),
        ({"pool_config": {"command_timeout": 0}}, "command_timeout.*more than 0"),
        ({"pool_config": {"acquire_timeout": None}}, "acquire_timeout.*more than 0"),
    ],
)
def test_an_invalid_pool_setting_is_refused_by_its_name(options, told):
    with pytest.raises(ConfigError, match=told):
        PgStorage(HERE, **options)


@pytest.mark.parametrize(
    ("query", "config", "told"),
    [
        ("foo=bar", {}, 'refused a setting from the DSN.*"foo"'),
        ("statement_timeout=soon", {}, 'refused a setting from the DSN.*"statement_timeout"'),
        ("a&b", {}, r"these settings \(the DSN, pool_config"),
        ("", {"port": "abc"}, "these settings.*abc"),
        ("", {"port": 99999}, "these settings.*65535"),
        ("", {"ssl": "wrong"}, "these settings.*sslmode"),
        ("", {"min_size": 30}, "these settings.*min_size"),
        ("", {"target_session_attrs": "wrong"}, "these settings.*target_session_attrs"),
    ],
)
def test_settings_that_fail_only_on_connecting_raise_config_error_too(query, config, told):
    if config.keys() & {"port"}:
        config = {"host": "127.0.0.1", **config}
    dsn = "postgresql:///postgres" if "port" in config else f"{shared_postgres()}?{query}"
    with pytest.raises(ConfigError, match=told):
        asyncio.run(used(PgStorage(dsn, pool_config=config)))


def test_a_dsn_of_libpq_works(name, tmp_path):
    found: dict[str, Any] = {}

    async def look(connection: asyncpg.Connection) -> None:
        found["name"] = await connection.fetchval("SHOW application_name")
        found["timeout"] = await connection.fetchval("SHOW statement_timeout")

    (tmp_path / "root.crt").touch()
    said = "connect_timeout=3&application_name=my%20agent&options=-c%20statement_timeout%3D5000&gssencmode=prefer"
    said += f"&sslmode=prefer&sslrootcert={tmp_path}/root.crt&channel_binding=prefer&tcp_keepalives_idle=30"
    dsn = f"{shared_postgres()}?{said}"
    storage = PgStorage(dsn, schema=name, pool_config={"init": look})
    asyncio.run(used(storage))
    assert found == {"name": "my agent", "timeout": "5s"}
    assert storage._settings._options["timeout"] == 3


def test_connect_timeout_of_zero_is_no_limit_and_pool_config_comes_first():
    def timeout(query: str, **config: float) -> float | None:
        found: float | None = PgStorage(HERE + query, pool_config=config)._settings._options["timeout"]
        return found

    assert timeout("/app") == 10
    assert timeout("/app?connect_timeout=0") is None
    assert timeout("/app?connect_timeout=4", timeout=2) == 2


@pytest.mark.parametrize("config", [{"max_size": 3}, {"acquire_timeout": 1, "command_timeout": 3}])
def test_a_pool_and_the_settings_for_one_exclude_each_other(config):
    async def run() -> None:
        async with asyncpg.create_pool(shared_postgres(), min_size=0) as pool:
            PgStorage(pool=pool, pool_config={"acquire_timeout": 1})
            with pytest.raises(ConfigError, match=r"either a pool, or .*pool_config"):
                PgStorage(pool=pool, pool_config=config)

    asyncio.run(run())


def test_a_pool_is_refused_on_another_event_loop(name):
    async def run() -> None:
        async with asyncpg.create_pool(shared_postgres(), min_size=0) as pool:
            memory = clew.PgCheckpointer(pg_pool=pool, schema=name)
            await memory.aput_state("t", {"a": 1})
            with pytest.raises(ConfigError, match=r"the event loop that created it.*pass the DSN"):
                await asyncio.to_thread(memory.get_state, "t")
            assert await memory.aget_state("t") == {"a": 1}
            await memory.arelease()
            # Ends the thread of the sync methods.
            memory._runner.close()
            assert await pool.fetchval("SELECT 1") == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "options",
    [{"durability": "background"}, {"cleanup_interval": 60, "retention": clew.RetentionPolicy(max_history=1)}],
)
def test_a_pool_is_refused_for_features_with_an_event_loop_of_their_own(options):
    async def run() -> None:
        async with asyncpg.create_pool(shared_postgres(), min_size=0) as pool:
            with pytest.raises(ConfigError, match=r"own event loop.*postgres_dsn"):
                clew.PgCheckpointer(pg_pool=pool, **options)
            clew.PgCheckpointer(pg_pool=pool, durability="sync", cleanup_interval=None)

    asyncio.run(run())


def test_a_pool_that_was_never_opened_or_is_closed_is_refused(name):
    async def run() -> None:
        pool = asyncpg.create_pool(shared_postgres(), min_size=0)
        with pytest.raises(ConfigError, match=r"never opened; pass one that was awaited"):
            await used(PgStorage(pool=pool, schema=name))
        await pool
        await pool.close()
        with pytest.raises(ConfigError, match=r"is closed"):
            await used(PgStorage(pool=pool, schema=name))

    asyncio.run(run())
