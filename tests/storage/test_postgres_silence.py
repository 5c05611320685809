"""A paused PostgreSQL server and silent connections: every call ends, and so does closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from clew.errors import TransientStorageError
from clew.model.commit import Applied, Commit
from clew.storage.postgres import PgStorage, connections, schema, storage
from clew.testing.build import commit, message
from clew.testing.servers import PostgresServer, Proxy, shared_postgres
from tests.storage.postgres_support import own_schema, schema_of

PATIENCE = 0.2


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def paused(server: PostgresServer) -> Iterator[PostgresServer]:
    """The server, which is resumed after the test."""
    yield server
    server.resume()


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    with own_schema(tmp_path) as name:
        yield name


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter timeouts."""
    monkeypatch.setattr(connections, "RELEASE_TIMEOUT", PATIENCE)
    monkeypatch.setattr(connections, "CLOSE_TIMEOUT", PATIENCE)
    monkeypatch.setattr(storage, "CLOSE_TIMEOUT", PATIENCE)


def told(thread_id: str = "t") -> list[Commit]:
    return [commit(thread_id, messages=[message("m")])]


def ends(run: Callable[[], Awaitable[None]]) -> None:
    """Check that it ends: without the tested timeout it would wait forever."""

    async def whole() -> None:
        async with asyncio.timeout(60):
            await run()

    asyncio.run(whole())


def test_a_storage_with_idle_connections_closes_though_the_server_is_paused(paused, tmp_path):
    async def run() -> None:
        opened = PgStorage(paused.url, schema=schema_of(tmp_path))
        await opened.setup()
        await opened.apply(told())
        paused.pause()
        await opened.close()

    ends(run)


def test_a_storage_closes_after_calls_that_a_paused_server_never_answered(paused, tmp_path):
    async def run() -> None:
        opened = PgStorage(paused.url, schema=schema_of(tmp_path))
        await opened.setup()
        paused.pause()
        given_up = [asyncio.create_task(opened.apply(told(f"t{number % 3}"))) for number in range(9)]
        await asyncio.wait(given_up, timeout=PATIENCE)
        for each in given_up[:6]:
            each.cancel()
        await opened.close()
        # The waiting calls get an error.
        assert {type(error) for error in await asyncio.gather(*given_up[6:], return_exceptions=True)} == {
            TransientStorageError
        }

    ends(run)


def test_a_statement_that_is_not_answered_ends_with_command_timeout(paused, tmp_path):
    async def run() -> None:
        # Long enough for an answer on a busy machine.
        config = {"command_timeout": 1.5, "timeout": 1.5}
        opened = PgStorage(paused.url, schema=schema_of(tmp_path), pool_config=config)
        await opened.setup()
        await opened.ping()
        paused.pause()
        with pytest.raises(TransientStorageError, match=r"did not answer within command_timeout.*pool_config"):
            await opened.apply(told())
        with pytest.raises(TransientStorageError, match=r"no connection within `timeout`.*pool_config"):
            await opened.ping()
        paused.resume()
        assert isinstance((await opened.apply(told()))[0], Applied)
        await opened.close()

    ends(run)


def test_statements_have_a_limit_unless_told_otherwise(name):
    limits: list[float | None] = []

    async def look(connection: asyncpg.Connection) -> None:
        limits.append(connection._config.command_timeout)

    async def run() -> None:
        for config in ({}, {"command_timeout": None}, {"command_timeout": 5}):
            opened = PgStorage(shared_postgres(), schema=name, pool_config={**config, "init": look})
            await opened.setup()
            await opened.close()

    ends(run)
    assert limits == [60.0, None, 5]


def test_connections_that_went_silent_come_back_to_the_pool(name):
    async def run() -> None:
        with Proxy.before(shared_postgres()) as proxy:
            config = {"max_size": 2, "command_timeout": 30}
            opened = PgStorage(proxy.url(shared_postgres()), schema=name, pool_config=config)
            await opened.setup()
            await asyncio.gather(opened.stats(None), opened.stats(None))
            proxy.delay(3600)
            given_up = [asyncio.create_task(opened.stats(None)) for _ in range(2)]
            await asyncio.wait(given_up, timeout=PATIENCE)
            for each in given_up:
                each.cancel()
            await asyncio.wait(given_up)
            proxy.delay(0)
            await opened.stats(None)
            await opened.close()

    ends(run)


def test_a_migration_and_a_vacuum_may_take_longer_than_a_statement(name, monkeypatch):
    slow = "SELECT pg_sleep(1.6); "
    real = schema.script
    monkeypatch.setattr(schema, "script", lambda file: (slow if file == "tables.sql" else "") + real(file))

    async def run() -> None:
        config = {"command_timeout": 1.5}
        # The second waits until the first has migrated.
        both = [PgStorage(shared_postgres(), schema=name, pool_config=config) for _ in range(2)]
        await asyncio.gather(*(each.setup() for each in both))
        blocker = await asyncpg.connect(shared_postgres())
        async with blocker.transaction():
            await blocker.execute(f'LOCK TABLE "{name}".journal IN SHARE UPDATE EXCLUSIVE MODE')
            vacuum = asyncio.create_task(both[0].reclaim())
            await asyncio.wait([vacuum], timeout=1.7)
            assert not vacuum.done()
        await vacuum
        await blocker.close()
        for each in both:
            await each.close()

    ends(run)
