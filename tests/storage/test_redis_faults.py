"""Faults: servers restart and connections break, but acknowledged commits survive."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hiredis import ReplyError
from redis.asyncio.sentinel import Sentinel

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.ids import new_id
from clew.model.commit import Applied
from clew.model.queries import CheckpointQuery, JournalQuery, MessageQuery, ThreadQuery
from clew.storage.locked import LockingStorage
from clew.storage.redis import RedisStorage
from clew.storage.redis.failures import failure
from clew.testing.build import checkpoint, commit, message, row
from clew.testing.contract.base import full_commit
from clew.testing.servers import Proxy, RedisSentinel, RedisServer
from clew.testing.servers.redis import wait_until
from tests.storage.redis_support import opened, persistent, saved

ALWAYS = {"appendonly": "yes", "appendfsync": "always"}
EVERYSEC = {"appendonly": "yes", "appendfsync": "everysec"}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def prefix() -> str:
    return new_id()


async def ids_of(storage: RedisStorage, thread_id: str) -> list[str]:
    query = CheckpointQuery(thread_id=thread_id, user=None, limit=None)
    page = await persistent(lambda: storage.checkpoints(query))
    return [found.checkpoint_id for found in reversed(page.checkpoints)]


def test_nothing_acknowledged_is_lost_and_nothing_doubled_while_connections_are_cut(server, prefix):
    """200 rounds: each cuts all connections or drops answers while eight writers are at work."""

    async def work(proxy: Proxy) -> None:
        storage = RedisStorage(proxy.url(server.url), prefix=prefix, dial_timeout=2, read_timeout=2)
        rounds = 200
        acknowledged: list[list[str]] = [[] for _ in range(8)]
        written = asyncio.Event()
        done = False

        async def write(number: int) -> None:
            count = 0
            while not done:
                new = checkpoint(f"c{count}")
                said = [message(f"m{count}")]
                made = commit(f"t{number}", values=row(count), checkpoint=new, messages=said, journal=b"%d" % count)
                await saved(storage, made)
                acknowledged[number].append(f"c{count}")
                count += 1
                written.set()

        async def break_things() -> None:
            nonlocal done
            chance = random.Random(1)
            for _ in range(rounds):
                written.clear()
                await written.wait()
                if chance.random() < 0.5:
                    await asyncio.to_thread(proxy.cut)
                else:
                    await asyncio.to_thread(proxy.lose_answers, after=chance.randrange(400))
                    await asyncio.sleep(0)
                    await asyncio.to_thread(proxy.accept)
            done = True

        await asyncio.gather(break_things(), *(write(number) for number in range(8)))
        for number, expected in enumerate(acknowledged):
            assert await ids_of(storage, f"t{number}") == expected
            query = MessageQuery(thread_id=f"t{number}", user=None, limit=None)
            found = await persistent(partial(storage.messages, query))
            assert len(found) == len(expected)
        threads = await persistent(lambda: storage.threads(ThreadQuery(user=None)))
        assert len(threads) == 8
        noted = (await persistent(lambda: storage.journal(JournalQuery(limit=100_000)))).entries
        for number, expected in enumerate(acknowledged):
            assert [int(each.data) for each in noted if each.thread_id == f"t{number}"] == [*range(len(expected))]
        await storage.close()

    with Proxy.before(server.url) as proxy:
        asyncio.run(work(proxy))


def test_a_killed_server_comes_back_with_everything_acknowledged(prefix):
    """200 rounds of SIGKILL under a writer, with `appendfsync always`."""

    async def work(server: RedisServer) -> None:
        storage = RedisStorage(server.url, prefix=prefix, retries=1)
        acknowledged: list[str] = []
        five = asyncio.Event()
        done = False

        async def write() -> None:
            while not done:
                name = f"c{len(acknowledged)}"
                await saved(storage, commit(values=row(len(acknowledged)), checkpoint=checkpoint(name)))
                acknowledged.append(name)
                if len(acknowledged) % 5 == 0:
                    five.set()

        async def kill() -> None:
            nonlocal done
            for _ in range(200):
                five.clear()
                await five.wait()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            done = True

        await asyncio.gather(write(), kill())
        assert await ids_of(storage, "t") == acknowledged
        await storage.close()

    with RedisServer(ALWAYS) as server:
        asyncio.run(work(server))


def test_a_server_that_loses_its_last_second_loses_whole_commits_from_the_end(prefix):
    """With `appendfsync everysec`, Redis may answer before its log is written."""
    with RedisServer(EVERYSEC) as server, opened(server.url, prefix=prefix) as store:
        for round_number in range(10):
            names = [f"c{round_number}.{number}" for number in range(40)]
            before = store.checkpoint_ids()[::-1]
            for name in names:
                page = store.values()
                first = page.basis.next_value if page.basis else 0
                store.apply(commit(values=row(first), checkpoint=checkpoint(name, covers=[(0, first + 1)])))
            server.kill()
            server.start()
            query = CheckpointQuery(thread_id="t", user=None, limit=None, detail="state")
            page_after = store.run(persistent(partial(store.storage.checkpoints, query)))
            found = [each.checkpoint_id for each in reversed(page_after.checkpoints)]
            assert found == [*before, *names][: len(found)]
            assert len(page_after.rows) == len(found)


def test_a_restart_between_calls_is_one_transient_error_at_most(prefix):
    with RedisServer(ALWAYS) as server, opened(server.url, prefix=prefix) as store:
        store.apply(full_commit())
        server.restart()
        store.run(saved(store.storage, commit(messages=[message("m2")])))  # type: ignore[arg-type]
        assert store.message_ids() == ["m1", "m2"]


def test_a_server_that_is_gone_is_a_transient_error_that_says_where(prefix):
    with RedisServer() as server, opened(server.url, prefix=prefix, retries=0) as store:
        store.apply(full_commit())
        server.kill()
        for _ in range(3):
            with pytest.raises(TransientStorageError, match=str(server.port)):
                store.apply(commit(messages=[message("m2")]))
        with pytest.raises(TransientStorageError):
            store.run(store.storage.ping())


def test_calls_to_a_hanging_server_time_out(prefix):
    """Any number of calls: they share connections, so none waits for a free one."""

    async def work(server: RedisServer) -> None:
        storage = RedisStorage(server.url, prefix=prefix, pool_size=1, read_timeout=0.4, dial_timeout=0.4, retries=0)
        await storage.apply([full_commit()])
        query = CheckpointQuery(thread_id="t", user=None)
        await storage.checkpoints(query)
        await asyncio.to_thread(server.pause)
        calls: list[Any] = [storage.checkpoints(query) for _ in range(50)]
        calls += [storage.apply([commit(messages=[message(str(number))])]) for number in range(50)]
        outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
        assert all(isinstance(outcome, TransientStorageError) for outcome in outcomes)
        await asyncio.to_thread(server.resume)
        await saved(storage, commit(messages=[message("after")]))
        await storage.close()

    with RedisServer() as server:
        asyncio.run(work(server))


async def stuffed(server: RedisServer, storage: RedisStorage) -> list[asyncio.Future[Any]]:
    """Call a hanging server until its buffers are full, below asyncio's high-water mark."""
    link = await (await storage._session()).caller.router.masters()[0].link(commits=False)
    await asyncio.to_thread(server.pause)
    calls = []
    while not link._transport.get_write_buffer_size():
        calls.append(link.call("PING", bytes(30_000)))
        await asyncio.sleep(0)
    return calls


def test_a_request_that_the_server_does_not_read_times_out(prefix):
    async def work(server: RedisServer) -> None:
        storage = RedisStorage(server.url, prefix=prefix, read_timeout=1, write_timeout=1)
        calls = await stuffed(server, storage)
        answers = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert any("accepts no data" in str(answer) for answer in answers)
        assert all(isinstance(answer, TransientStorageError) for answer in answers)
        await asyncio.to_thread(server.resume)
        await saved(storage, full_commit())
        await storage.close()

    with RedisServer() as server:
        asyncio.run(work(server))


def test_a_storage_whose_server_reads_nothing_is_closed_in_time(prefix):
    async def work(server: RedisServer) -> None:
        storage = RedisStorage(server.url, prefix=prefix, read_timeout=1, write_timeout=600)
        calls = await stuffed(server, storage)
        await asyncio.wait_for(storage.close(), 120)
        assert all(isinstance(call.result(), TransientStorageError) for call in calls)
        await asyncio.to_thread(server.resume)

    with RedisServer() as server:
        asyncio.run(work(server))


def test_a_save_that_is_cancelled_at_any_moment_leaves_no_lock(server, prefix):
    async def work(proxy: Proxy) -> None:
        locking = LockingStorage(RedisStorage(proxy.url(server.url), prefix=prefix), timeout=0, expiry=30)
        await locking.apply([full_commit()])
        for moment in range(6):
            proxy.delay(0.03)
            with suppress(TimeoutError):
                await asyncio.wait_for(locking.apply([commit(messages=[message("m2")])]), 0.02 + 0.03 * moment)
            proxy.delay(0)
            (outcome,) = await locking.apply([commit(messages=[message("m3")])])
            assert isinstance(outcome, Applied)
        await locking.close()

    with Proxy.before(server.url) as proxy:
        asyncio.run(work(proxy))


def test_a_server_that_has_no_connection_left_is_a_transient_error(prefix):
    async def work(server: RedisServer) -> None:
        first = RedisStorage(server.url, prefix=prefix, retries=0)
        await first.setup()
        server.call("CONFIG", "SET", "maxclients", 1)
        second = RedisStorage(server.url, prefix=prefix, retries=0)
        with pytest.raises(TransientStorageError):
            await second.setup()
        await first.apply([full_commit()])
        await second.close()
        await first.close()

    with RedisServer() as server:
        asyncio.run(work(server))


def test_a_replica_refuses_commits_with_a_transient_error(prefix):
    with RedisServer() as leader, RedisServer() as replica:
        with opened(leader.url, prefix=prefix) as store:
            store.apply(full_commit())
        replica.call("REPLICAOF", "127.0.0.1", leader.port)
        wait_until(lambda: replica.call("INFO", "replication")["master_link_status"] == "up")

        async def write() -> None:
            storage = RedisStorage(replica.url, prefix=prefix)
            try:
                with pytest.raises(TransientStorageError, match="replica"):
                    await storage.apply([commit(messages=[message("m2")])])
                assert len(await storage.threads(ThreadQuery(user=None))) == 1
            finally:
                await storage.close()

        asyncio.run(write())


def test_a_temporary_condition_is_a_transient_error():
    for text in (
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "ERR Error running script (call to f_1): @user_script: 1: -READONLY You can't write against a read only replica.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "NOREPLICAS Not enough good replicas to write.",
        "CLUSTERDOWN The cluster is down",
    ):
        error = failure(ReplyError(text), "here")
        assert isinstance(error, TransientStorageError)
        assert "here" in str(error)
    assert not isinstance(failure(ReplyError("ERR something READ ONLY"), "here"), TransientStorageError)


def test_a_failover_by_sentinel_is_survived(prefix):
    async def work(leader: RedisServer, sentinel: RedisSentinel) -> None:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/clew/0"
        storage = RedisStorage(url, prefix=prefix, retries=0, dial_timeout=1, read_timeout=1)
        await storage.setup()
        count = 0
        for count in range(20):
            await saved(storage, commit(values=row(count), checkpoint=checkpoint(f"c{count}")))
        # Wait for replication, so that the leader has nothing of its own.
        await asyncio.to_thread(leader.call, "WAIT", 1, 5000)
        await asyncio.to_thread(leader.kill)
        for number in range(count + 1, count + 20):
            await saved(storage, commit(values=row(number), checkpoint=checkpoint(f"c{number}")), seconds=60)
        assert await ids_of(storage, "t") == [f"c{number}" for number in range(count + 20)]
        assert len(await storage.threads(ThreadQuery(user=None))) == 1
        await storage.close()

    with RedisServer() as leader, RedisServer() as replica:
        replica.call("REPLICAOF", "127.0.0.1", leader.port)
        wait_until(lambda: replica.call("INFO", "replication")["master_link_status"] == "up")
        with RedisSentinel(leader) as sentinel:
            wait_until(lambda: sentinel.call("SENTINEL", "CKQUORUM", "clew") is not None)
            wait_until(lambda: len(sentinel.call("SENTINEL", "REPLICAS", "clew")) == 1)
            asyncio.run(work(leader, sentinel))


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[RedisServer, RedisSentinel]]:
    """A server and its Sentinel, each with a password of its own."""
    with RedisServer({"requirepass": "servers"}) as leader:
        own = {"requirepass": "sentinels", "sentinel auth-pass clew": "servers"}
        with RedisSentinel(leader, own) as sentinel:
            yield leader, sentinel


def watched_url(sentinel: RedisSentinel, *, name: str = "clew", password: str = "sentinels") -> str:
    return f"redis+sentinel://:servers@127.0.0.1:{sentinel.port}/{name}/0?sentinel_password={password}"


def test_a_storage_behind_sentinel_goes_on_in_another_event_loop(watched, prefix):
    _, sentinel = watched
    storage = RedisStorage(watched_url(sentinel), prefix=prefix, retries=0)

    async def save(number: int) -> None:
        await saved(storage, commit(checkpoint=checkpoint(f"c{number}")))
        assert await ids_of(storage, "t") == [f"c{each}" for each in range(number + 1)]

    for number in range(3):
        asyncio.run(save(number))
    asyncio.run(storage.close())
    # No connection is left open.
    gc.collect()


def test_an_existing_client_behind_sentinel_serves_every_event_loop(watched, prefix):
    _, sentinel = watched
    sentinels = Sentinel([("127.0.0.1", sentinel.port)], sentinel_kwargs={"password": "sentinels"})
    storage = RedisStorage.from_client(sentinels.master_for("clew", password="servers"), prefix=prefix)

    async def save(number: int) -> None:
        await saved(storage, commit(checkpoint=checkpoint(f"c{number}")))

    for number in range(2):
        asyncio.run(save(number))
    asyncio.run(storage.close())


@pytest.mark.parametrize(
    ("wrong", "advice"), [({"password": "other"}, "sentinel_password"), ({"name": "nobody"}, "'nobody'")]
)
def test_a_refusal_by_sentinels_is_reported_at_once(watched, prefix, wrong, advice):
    async def ask() -> None:
        storage = RedisStorage(watched_url(watched[1], **wrong), prefix=prefix)
        with pytest.raises(StorageError, match=advice) as error:
            await storage.ping()
        assert not isinstance(error.value, TransientStorageError)
        await storage.close()

    asyncio.run(ask())


# TLS: the wheel's redis-server lacks it, so a proxy terminates it.


TLS = Path(__file__).parent / "tls"
"""A key and a long-lived certificate for localhost, for these tests only."""


CERT = TLS / "cert.pem"


@asynccontextmanager
async def over_tls(port: int) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Forward a TLS port to `port`. Yields it, and a record of the traffic."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERT, TLS / "key.pem")
    heard: list[bytes] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    heard.append(data)
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    terminator = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    yield terminator.sockets[0].getsockname()[1], heard
    terminator.close()
    await terminator.wait_closed()


def test_a_server_is_reached_over_tls(server, prefix):
    async def work() -> None:
        async with over_tls(server.port) as (port, _):
            storage = RedisStorage(f"rediss://localhost:{port}/0?ssl_ca_certs={CERT}", prefix=prefix)
            big = commit(values=row(0, data=bytes(300_000)), checkpoint=checkpoint("c1", covers=[(0, 1)]))
            (outcome,) = await storage.apply([big])
            assert isinstance(outcome, Applied)
            page = await storage.checkpoints(CheckpointQuery(thread_id="t", user=None, detail="state"))
            assert page.rows == (big.values,)
            await storage.close()

            distrustful = RedisStorage(f"rediss://localhost:{port}", prefix=prefix, retries=0)
            with pytest.raises(StorageError):
                await distrustful.ping()
            await distrustful.close()

    asyncio.run(work())


def test_sentinels_are_asked_over_tls_too(watched, prefix):
    leader, sentinel = watched

    async def ask(url: str) -> str:
        storage = RedisStorage(url, prefix=prefix, retries=0, dial_timeout=1)
        # The Sentinel names the server's own port, which has no TLS here.
        with pytest.raises(TransientStorageError) as error:
            await storage.ping()
        await storage.close()
        return str(error.value)

    async def work() -> None:
        async with over_tls(sentinel.port) as (port, heard):
            url = f"rediss+sentinel://localhost:{port}/clew/0?sentinel_password=sentinels"
            assert "no Sentinel knows a master" in await ask(url)
            assert heard == []
            assert "no Sentinel" not in await ask(f"{url}&ssl_ca_certs={CERT}")
            assert str(leader.port).encode() in b"".join(heard)

    asyncio.run(work())


def test_driver_errors_become_clew_errors(server, prefix):
    """Every fault on the way is one of Clew's errors."""

    async def work(proxy: Proxy) -> None:
        storage = RedisStorage(proxy.url(server.url), prefix=prefix, retries=0, dial_timeout=1, read_timeout=1)
        await storage.apply([full_commit()])
        proxy.refuse()
        for call in (
            storage.ping,
            storage.reclaim,
            lambda: storage.stats(None),
            lambda: storage.apply([full_commit("u")]),
            lambda: storage.threads(ThreadQuery(user=None)),
        ):
            with pytest.raises(ClewError):
                await call()
        proxy.accept()
        await persistent(storage.ping)
        await storage.close()

    with Proxy.before(server.url) as proxy:
        asyncio.run(work(proxy))
