"""Which server has a key: the only one, the one that Sentinel names, or the one that serves the key's slot in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from hiredis import ReplyError
from redis.asyncio.connection import AbstractConnection

from clew.errors import ClewError, StorageError, TransientStorageError
from clew.storage.redis.failures import failure
from clew.storage.redis.keys import slot_of
from clew.storage.redis.link import Link
from clew.storage.redis.settings import Limits


class Node:
    """One server: a link for commits, so that those of one moment go together, and links for queries, opened as needed.

    If there is to be one link only, it is for both.
    """

    def __init__(self, where: str, connect: Callable[[], Awaitable[AbstractConnection]], limits: Limits) -> None:
        self.where = where
        self._connect = connect
        self._limits = limits
        self._links: list[Link | None] = [None] * limits.pool_size
        self._opening = [asyncio.Lock() for _ in self._links]

    def for_commits(self) -> Link | None:
        """The open link for commits, if there is one."""
        link = self._links[0]
        return link if link is not None and link.alive else None

    async def link(self, *, commits: bool) -> Link:
        """A link to use now: the one for commits, or the least busy of the others. Raises what keeps it from being opened."""
        return await self._open(0 if commits else self._least_busy())

    def _least_busy(self) -> int:
        """An open link that is idle, else one that is not open yet, else the one with the fewest calls under way."""

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
            limits = self._limits
            link = Link(
                self.where,
                read_timeout=limits.read_timeout,
                write_timeout=limits.write_timeout,
                health_check=limits.health_check,
            )
            try:
                await link.open(self._connect)
            except BaseException:
                # Given up by its caller, it may be open: nobody else would close it.
                link.drop(None)
                raise
            self._links[number] = link
            return link

    async def warm(self, count: int) -> None:
        """Open the first `count` links."""
        for number in range(min(count, len(self._links))):
            await self._open(number)

    def drop(self) -> None:
        """Cut all links: the server is not what it was."""
        for link in self._links:
            if link is not None:
                link.drop(None)

    async def close(self) -> None:
        """Close all links at once: each may have to wait for a server that does not answer."""
        await asyncio.gather(*(link.close() for link in self._links if link is not None))


class Router(Protocol):
    """Knows the servers."""

    alone: bool
    """Whether there is one server, so that what is sent on one link is done in the order it was sent."""

    def node_for(self, key: bytes) -> Node: ...

    def masters(self) -> list[Node]:
        """Every server that has threads."""

    def moved(self, slot: int, where: str) -> None:
        """Take note that `slot` is now served at `where`."""

    def at(self, where: str) -> Node:
        """The server with that address."""

    async def after(self, error: ClewError) -> None:
        """Find out anew which servers there are, if `error` says that they are not what they were."""

    def drop(self) -> None:
        """Cut all links."""

    async def close(self) -> None: ...


class OneServer:
    """A router for one server, or one that Sentinel names whenever a link is opened."""

    alone = True

    def __init__(self, node: Node) -> None:
        self._node = node

    def node_for(self, key: bytes) -> Node:
        return self._node

    def masters(self) -> list[Node]:
        return [self._node]

    def moved(self, slot: int, where: str) -> None:
        raise StorageError(f"Redis at {self._node.where} is part of a cluster: say cluster=True, or redis+cluster://")

    def at(self, where: str) -> Node:
        return self._node

    async def after(self, error: ClewError) -> None:
        """Cut the links to a server that is a replica now: when they are opened anew, Sentinel names another."""
        if error.facts.get("code") == "READONLY":
            self._node.drop()

    def drop(self) -> None:
        self._node.drop()

    async def close(self) -> None:
        await self._node.close()


class Cluster:
    """A router for a cluster, which is asked for its slots when it is first needed and when a server is gone."""

    alone = False

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
                raise TransientStorageError(f"no server of the cluster serves slot {slot} now; try again", slot=slot)
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
            pass  # What is raised is the trouble that the caller met.

    async def refresh(self) -> None:
        """Ask for the slots; whoever comes while somebody is asking takes that answer."""
        before = self._refreshed
        async with self._refreshing:
            if self._refreshed != before:
                return  # Another caller did it while this one waited.
            await self._refresh()
            self._refreshed += 1

    async def _refresh(self) -> None:
        """Ask one server after the other for the slots, until one knows."""
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
            return  # What was known is still the best guess; who asks for a key is told that its server is gone.
        raise error or TransientStorageError("the cluster has no slots yet; try again")

    def _learn(self, slots: list[Any], asked: str) -> None:
        # A server that does not know its own address says '': it is the one that was asked.
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
