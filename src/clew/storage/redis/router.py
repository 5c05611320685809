"""Routers: which server has a key. Single server, Sentinel's master, or a cluster by slots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from hiredis import ReplyError
from redis.asyncio.connection import AbstractConnection

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.storage.fresh_context import in_fresh_context
from clew.storage.redis.failures import failure
from clew.storage.redis.keys import slot_of
from clew.storage.redis.link import Link
from clew.storage.redis.settings import Limits


class Node:
    """One server: a link for commits, and links for queries. With `pool_size` 1, one for both."""

    def __init__(self, where: str, connect: Callable[[], Awaitable[AbstractConnection]], limits: Limits) -> None:
        self.where = where
        self._connect = connect
        self._limits = limits
        self._links: list[Link | None] = [None] * limits.pool_size
        self._opening = [asyncio.Lock() for _ in self._links]

    def apart(self) -> Node:
        """Return the same server with one link of its own, for calls that block it."""
        return Node(self.where, self._connect, replace(self._limits, pool_size=1, min_idle=0, health_check=0))

    @property
    def read_timeout(self) -> float:
        return self._limits.read_timeout

    def for_commits(self) -> Link | None:
        """Return the link for commits if it is open."""
        link = self._links[0]
        return link if link is not None and link.alive else None

    async def link(self, *, commits: bool) -> Link:
        """Return the link for commits, or the least busy of the others. Raises StorageError."""
        return await self._open(0 if commits else self._least_busy())

    def _least_busy(self) -> int:
        """Return an idle open link, else an unopened one, else the one with the fewest calls."""

        def load(number: int) -> tuple[int, bool]:
            link = self._links[number]
            return (link.load, False) if link is not None and link.alive else (0, True)

        return min(range(1, len(self._links)), key=load, default=0)

    async def _open(self, number: int) -> Link:
        link = self._links[number]
        if link is not None and link.alive:
            return link
        async with self._opening[number]:
            link = self._links[number]
            if link is not None and link.alive:
                return link
            link = Link(self.where, self._limits)
            try:
                await in_fresh_context(link.open(self._connect))
            except BaseException:
                # If the caller was cancelled, the link may be open, and nobody else would close it.
                link.drop(None)
                raise
            self._links[number] = link
            return link

    async def warm(self, count: int) -> None:
        """Open the first `count` links."""
        for number in range(min(count, len(self._links))):
            await self._open(number)

    def drop(self) -> None:
        """Abort all links."""
        for link in self._links:
            if link is not None:
                link.drop(None)

    async def close(self) -> None:
        """Close all links concurrently: each may have to wait for a server that does not answer."""
        await asyncio.gather(*(link.close() for link in self._links if link is not None))


class Router(Protocol):
    """Maps keys to servers."""

    single: bool
    """Whether one server has all keys."""

    def node_for(self, key: bytes) -> Node: ...

    def masters(self) -> list[Node]:
        """Return every server that has threads."""

    def moved(self, slot: int, where: str) -> None:
        """Note that `slot` is now served at `where`."""

    def at(self, where: str) -> Node:
        """Return the server with that address."""

    async def after(self, error: ClewError) -> None:
        """Discover the servers again if `error` means that they have changed."""

    def drop(self) -> None:
        """Abort all links."""

    async def close(self) -> None: ...


class SingleServer:
    """A router for one server, which Sentinel may name whenever a link is opened."""

    single = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def node_for(self, key: bytes) -> Node:
        return self._node

    def masters(self) -> list[Node]:
        return [self._node]

    def moved(self, slot: int, where: str) -> None:
        raise StorageError(f"Redis at {self._node.where} is part of a cluster: use cluster=True or redis+cluster://")

    def at(self, where: str) -> Node:
        return self._node

    async def after(self, error: ClewError) -> None:
        """Abort the links to a server that is a replica now. New ones ask Sentinel again."""
        if error.facts.get("code") == "READONLY":
            self._node.drop()

    def drop(self) -> None:
        self._node.drop()

    async def close(self) -> None:
        await self._node.close()


class Cluster:
    """A router for a cluster. The slots are read at the first use and when a server fails."""

    single = False

    def __init__(self, first: list[str], make_node: Callable[[str], Node]) -> None:
        self._known = first
        self._make_node = make_node
        self._nodes: dict[str, Node] = {}
        self._served: dict[int, str] = {}
        self._ranges: list[tuple[int, int, str]] = []
        self._refreshing = asyncio.Lock()
        self._refreshed = 0

    def node_for(self, key: bytes) -> Node:
        slot = slot_of(key)
        where = self._served.get(slot)
        if where is None:
            for first, last, address in self._ranges:
                if first <= slot <= last:
                    where = self._served[slot] = address
                    break
            else:
                raise TransientStorageError(f"no server of the cluster serves slot {slot}; try again", slot=slot)
        return self.at(where)

    def at(self, where: str) -> Node:
        node = self._nodes.get(where)
        if node is None:
            node = self._nodes[where] = self._make_node(where)
        return node

    def masters(self) -> list[Node]:
        return [self.at(where) for where in dict.fromkeys(address for _, _, address in self._ranges)]

    def moved(self, slot: int, where: str) -> None:
        self._served[slot] = where

    async def after(self, error: ClewError) -> None:
        try:
            await self.refresh()
        except ClewError:
            pass  # The caller raises its own error.

    async def refresh(self) -> None:
        """Read the slots. Concurrent callers share one refresh."""
        before = self._refreshed
        async with self._refreshing:
            if self._refreshed != before:
                return
            await self._refresh()
            self._refreshed += 1

    async def _refresh(self) -> None:
        """Ask one server after the other for the slots, until one answers."""
        error: ClewError | None = None
        for where in [*dict.fromkeys([*(address for _, _, address in self._ranges), *self._known])]:
            try:
                link = await self.at(where).link(commits=False)
                answer = await link.call("CLUSTER", "SLOTS")
            except ClewError as failed:
                error = failed
                continue
            if isinstance(answer, ReplyError):
                error = failure(answer, where)
            elif isinstance(answer, ClewError):
                error = answer
            elif answer:
                self._learn(answer, where)
                return
        if self._ranges and isinstance(error, TransientStorageError):
            return  # Keep the known slots: calls to a server that is down fail on their own.
        raise error or TransientStorageError("the cluster has no slots yet; try again")

    def _learn(self, slots: list[Any], asked: str) -> None:
        # A server that does not know its own address gives '': it is the one that was asked.
        self._ranges = [
            (first, last, f"{master[0].decode() or asked.rpartition(':')[0]}:{master[1]}")
            for first, last, master, *_ in slots
        ]
        self._served.clear()
        self._known = [*dict.fromkeys([*(address for _, _, address in self._ranges), *self._known])]

    def drop(self) -> None:
        for node in self._nodes.values():
            node.drop()

    async def close(self) -> None:
        await asyncio.gather(*(node.close() for node in self._nodes.values()))
