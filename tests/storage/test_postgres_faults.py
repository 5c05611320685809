"""Faults of a PostgreSQL server: nothing is lost, nothing hangs, and errors say what to do."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery, MessageQuery, ThreadQuery
from clew.storage.postgres import PgStorage, batcher
from clew.testing.build import NOON, checkpoint, commit, message, row
from clew.testing.servers import PostgresServer, Proxy, shared_postgres
from tests.storage.postgres_support import own_schema, schema_of


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def name(tmp_path: Path) -> Iterator[str]:
    with own_schema(tmp_path) as name:
        yield name


async def persistent(call: Any) -> Any:
    """Return the result of `call`, retried while it raises TransientStorageError."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except TransientStorageError:
                await asyncio.sleep(0.05)


async def kept(storage: PgStorage, made: Commit) -> Applied | ClewError:
    """Return the commit's outcome, after retries."""
    outcomes: list[Applied | ClewError] = await persistent(partial(storage.apply, [made]))
    return outcomes[0]


async def ids(storage: PgStorage, thread_id: str = "t") -> list[str]:
    query = MessageQuery(thread_id=thread_id, user=ANY_USER, limit=None)
    return [each.message_id for each in await persistent(partial(storage.messages, query))]


def told(number: int, thread_id: str = "t") -> Commit:
    return commit(thread_id, messages=[message(f"m{number}")])


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_server_that_restarts_between_calls_is_found_again(server, tmp_path, how):
    async def run() -> None:
        storage = PgStorage(server.url, schema=schema_of(tmp_path))
        await storage.setup()
        for number in range(3):
            await kept(storage, told(number))
            await asyncio.to_thread(server.kill if how == "kill" else server.stop)
            if how == "restart":
                # After a kill, backends of the server may live on and answer.
                with pytest.raises(TransientStorageError):
                    await storage.apply([told(9)])
            await asyncio.to_thread(server.start)
        assert await ids(storage) == ["m0", "m1", "m2"]
        await storage.close()

    asyncio.run(run())


def test_a_server_that_is_killed_during_calls_loses_and_doubles_nothing(server, tmp_path):
    async def write(storage: PgStorage, thread_id: str, stop: asyncio.Event) -> int:
        number = 0
        while not stop.is_set():
            outcome = await kept(storage, commit(thread_id, values=row(number), checkpoint=checkpoint(f"c{number}")))
            assert isinstance(outcome, Applied)
            number += 1
        return number

    async def run() -> None:
        storage = PgStorage(server.url, schema=schema_of(tmp_path))
        await storage.setup()
        stop = asyncio.Event()
        names = [f"t{number}" for number in range(8)]
        writers = [asyncio.create_task(write(storage, each, stop)) for each in names]
        for _ in range(3):
            await asyncio.sleep(0.2)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        stop.set()
        counts = dict(zip(names, await asyncio.gather(*writers), strict=True))
        found = {
            thread.thread_id: thread.checkpoint_count
            for thread in await persistent(partial(storage.threads, ThreadQuery(user=ANY_USER, limit=None)))
        }
        assert found == counts
        await storage.close()

    asyncio.run(run())


def test_connections_cut_in_the_middle_of_an_answer_lose_and_double_nothing(name):
    async def run() -> None:
        with Proxy.before(shared_postgres()) as proxy:
            storage = PgStorage(proxy.url(shared_postgres()), schema=name)
            await storage.setup()
            for number in range(25):
                made = told(number)
                if number % 3 == 0:
                    proxy.lose_answers(after=number)
                    with pytest.raises(TransientStorageError):
                        await storage.apply([made])
                    proxy.accept()
                elif number % 3 == 1:
                    proxy.cut()
                assert isinstance(await kept(storage, made), Applied)
            assert await ids(storage) == [f"m{number}" for number in range(25)]
            await storage.close()

    asyncio.run(run())


def test_a_server_that_refuses_connections_is_a_transient_failure(name):
    async def run() -> None:
        with Proxy.before(shared_postgres()) as proxy:
            storage = PgStorage(proxy.url(shared_postgres()), schema=name)
            await storage.setup()
            proxy.refuse()
            proxy.cut()
            for call in (storage.ping, partial(storage.apply, [told(0)]), partial(storage.stats, None)):
                with pytest.raises(TransientStorageError, match="can't be reached"):
                    await call()
            proxy.accept()
            await storage.ping()
            await storage.close()

    asyncio.run(run())


def test_a_pool_that_is_exhausted_says_so_after_a_bounded_wait(name):
    async def run() -> None:
        blocker = await asyncpg.connect(shared_postgres())
        storage = PgStorage(shared_postgres(), schema=name, pool_config={"max_size": 2, "acquire_timeout": 0.2})
        await storage.setup()
        await storage.apply([told(0)])
        async with blocker.transaction():
            await blocker.execute(f'LOCK TABLE "{name}".threads, "{name}".messages')
            stuck = [asyncio.create_task(storage.messages(MessageQuery(thread_id="t", user=None))) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(TransientStorageError, match=r"all 2 of the pool are in use.*max_size"):
                await storage.ping()
        assert [len(found) for found in await asyncio.gather(*stuck)] == [1, 1]
        await storage.ping()
        await storage.close()
        await blocker.close()

    asyncio.run(run())


def test_a_statement_timeout_is_a_transient_failure(name):
    async def run() -> None:
        blocker = await asyncpg.connect(shared_postgres())
        settings = {"server_settings": {"statement_timeout": "100"}}
        storage = PgStorage(shared_postgres(), schema=name, pool_config=settings)
        await storage.setup()
        await storage.apply([told(0)])
        async with blocker.transaction():
            await blocker.execute(f'LOCK TABLE "{name}".threads')
            with pytest.raises(TransientStorageError, match="statement_timeout"):
                await storage.apply([told(1)])
            with pytest.raises(TransientStorageError, match="statement_timeout"):
                await ids_once(storage)
        assert isinstance(await kept(storage, told(1)), Applied)
        await storage.close()
        await blocker.close()

    asyncio.run(run())


async def ids_once(storage: PgStorage) -> None:
    await storage.messages(MessageQuery(thread_id="t", user=None))


def test_a_read_only_replica_answers_and_says_that_it_takes_no_commits(server, tmp_path):
    name = schema_of(tmp_path)

    async def fill() -> None:
        storage = PgStorage(server.url, schema=name)
        await storage.setup()
        await storage.apply(
            [commit(values=row(0), checkpoint=checkpoint("c1", covers=[(0, 1)]), messages=[message("m0")])]
        )
        await storage.close()

    async def run(url: str) -> None:
        storage = PgStorage(url, schema=name)
        await storage.setup()
        assert await ids(storage) == ["m0"]
        page = await storage.checkpoints(CheckpointQuery(thread_id="t", user=None, detail="state"))
        assert page.rows == (row(0),)
        assert (await storage.stats(ANY_USER)).by_thread.keys() == {"t"}
        for call in (
            partial(storage.apply, [told(1)]),
            partial(storage.lease, "t", None, holder="me", now=NOON, ttl=5),
        ):
            with pytest.raises(StorageError, match=r"read-only; connect to the primary") as caught:
                await call()
            assert not isinstance(caught.value, TransientStorageError)
        await storage.close()
        fresh = PgStorage(url, schema="not there")
        with pytest.raises(StorageError, match="read-only"):
            await fresh.setup()
        await fresh.close()

    asyncio.run(fill())
    with Standby(server) as standby:
        asyncio.run(run(standby.url))


class Standby(PostgresServer):
    """A hot standby of another server."""

    def __init__(self, primary: PostgresServer) -> None:
        self._primary = primary
        super().__init__()

    def prepare(self) -> None:
        self.binaries = self._primary.binaries
        owner = self.owner()
        if owner:
            os.chown(self.directory, owner["user"], owner["group"])
        copy = [str(self.binaries / "pg_basebackup"), "-D", str(self.data), "-d", self._primary.url]
        subprocess.run(
            [*copy, "-R", "-X", "stream", "-c", "fast"], check=True, capture_output=True, cwd=self.directory, **owner
        )
        self.data.chmod(0o700)


def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path):
    """A limit on the size of files acts like a full disk."""

    async def run(url: str) -> None:
        storage = PgStorage(url, schema="full")
        await storage.setup()
        done: list[str] = []
        with pytest.raises(StorageError) as caught:  # noqa: PT012
            for number in range(100):
                made = commit("t", values=row(number, data=os.urandom(200_000)), checkpoint=checkpoint(f"c{number}"))
                await storage.apply([made])
                done.append(f"c{number}")
        assert "disk is full" in str(caught.value) or "too large" in str(caught.value)
        assert done
        page = await storage.checkpoints(CheckpointQuery(thread_id="t", user=None, limit=None))
        assert [found.checkpoint_id for found in page.checkpoints] == done[::-1]
        (outcome,) = await storage.apply([told(1)])
        assert isinstance(outcome, Applied)
        await storage.close()

    with Limited({"fsync": "off", "wal_segment_size": None}) as server:
        asyncio.run(run(server.url))


class Limited(PostgresServer):
    """A server whose files are limited to 17 MB, just over a WAL segment."""

    def __init__(self, settings: dict[str, object]) -> None:
        super().__init__({name: value for name, value in settings.items() if value is not None})

    def command(self) -> list[str]:
        # PostgreSQL ignores SIGXFSZ, and reports the failed write as a full disk.
        return ["bash", "-c", 'ulimit -f 17000; exec "$@"', "bash", *super().command()]


def test_a_caller_that_gives_up_leaves_the_connection_and_the_others_alone(name, monkeypatch):
    # A cancelled caller waits this long for the commit, which is blocked here.
    monkeypatch.setattr(batcher, "RELEASE_TIMEOUT", 0.5)

    async def run() -> None:
        blocker = await asyncpg.connect(shared_postgres())
        storage = PgStorage(shared_postgres(), schema=name, pool_config={"max_size": 2})
        await storage.setup()
        await storage.apply([told(0)])
        for turn in range(3):
            async with blocker.transaction():
                await blocker.execute(f'LOCK TABLE "{name}".threads')
                waiting = [
                    asyncio.create_task(storage.apply([told(10 * turn + number, f"t{number}")])) for number in range(5)
                ]
                reading = asyncio.create_task(ids_once(storage))
                await wait_until_blocked(blocker, name)
                for task in [*waiting[:3], reading]:
                    task.cancel()
                await asyncio.wait([*waiting[:3], reading])
            for task in waiting[3:]:
                assert isinstance((await task)[0], Applied)
        assert await ids(storage, "t3") == ["m3", "m13", "m23"]
        await asyncio.gather(*(storage.ping() for _ in range(5)))
        await storage.close()
        await blocker.close()

    asyncio.run(run())


async def wait_until_blocked(connection: Any, name: str) -> None:
    """Wait until a session waits for the table's lock."""
    statement = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass"
    while not await connection.fetchval(statement, f'"{name}".threads'):
        pass


def test_the_callers_pool_is_used_and_left_open(name):
    async def run() -> None:
        pool = await asyncpg.create_pool(shared_postgres(), min_size=0, max_size=2)
        storage = PgStorage(pool=pool, schema=name)
        await storage.setup()
        await asyncio.gather(*(storage.apply([told(number, f"t{number}")]) for number in range(10)))
        await storage.close()
        assert await pool.fetchval("SELECT 1") == 1
        released = PgStorage(pool=pool, schema=name, release_resources=True)
        assert len((await released.stats(ANY_USER)).by_thread) == 10
        await released.close()
        with pytest.raises(asyncpg.InterfaceError):
            await pool.fetchval("SELECT 1")

    asyncio.run(run())


def test_a_closed_storage_says_so(name):
    async def run() -> None:
        storage = PgStorage(shared_postgres(), schema=name)
        await storage.setup()
        await storage.close()
        await storage.close()
        with pytest.raises(StorageError, match="was closed"):
            await storage.ping()

    asyncio.run(run())


def test_what_was_submitted_is_finished_before_the_storage_closes(name):
    async def run() -> None:
        storage = PgStorage(shared_postgres(), schema=name)
        await storage.setup()
        tasks = [asyncio.create_task(storage.apply([told(number, f"t{number % 7}")])) for number in range(50)]
        await asyncio.sleep(0)
        await storage.close()
        assert all(isinstance(outcome, Applied) for (outcome,) in await asyncio.gather(*tasks))

    asyncio.run(run())


def test_each_event_loop_has_connections_of_its_own(name):
    storage = PgStorage(shared_postgres(), schema=name)
    asyncio.run(storage.setup())

    async def call(number: int) -> None:
        assert isinstance(await kept(storage, told(number)), Applied)

    threads = [threading.Thread(target=asyncio.run, args=(call(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()

    async def last() -> None:
        assert sorted(await ids(storage)) == ["m0", "m1", "m2", "m3"]
        await storage.close()

    asyncio.run(last())


def test_a_forked_process_opens_connections_of_its_own(name):
    async def run() -> None:
        storage = PgStorage(shared_postgres(), schema=name)
        await storage.setup()
        await kept(storage, told(0))
        child = os.fork()
        if child == 0:
            # The child has this thread only, inside the parent's running loop, so it starts another.
            code = 1
            try:
                thread = threading.Thread(target=asyncio.run, args=(in_child(storage),))
                thread.start()
                thread.join()
                code = 0
            finally:
                os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert status == 0
        await kept(storage, told(2))
        assert await ids(storage) == ["m0", "m1", "m2"]
        await storage.close()

    async def in_child(storage: PgStorage) -> None:
        await kept(storage, told(1))
        await storage.close()

    asyncio.run(run())
