"""The Redis storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import ConnectionPool

from clew.errors import ClewError, ConfigError
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.feed import FeedPage, FeedQuery
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    Content,
    JournalPage,
    JournalQuery,
    MessageQuery,
    SearchQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, FoundMessage, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.storage.conversions import bytes_text, text_bytes
from clew.storage.loops import PerLoop
from clew.storage.protocol import Capabilities, Own
from clew.storage.redis import queries
from clew.storage.redis.caller import Caller
from clew.storage.redis.commits import Applier
from clew.storage.redis.feed import FeedReader
from clew.storage.redis.journal import Journal
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import digits_time, owner_name, time_digits, user_field
from clew.storage.redis.scripts import LEASE, OWN, TOKEN
from clew.storage.redis.search import search
from clew.storage.redis.session import connect, prepare, warn
from clew.storage.redis.settings import Address, Limits, check_seconds, connection_options
from clew.storage.redis.thread_index import list_threads, rebuild, totals
from clew.storage.rules import check_owner
from clew.validation import checked_number

_LEASE_OUTLIVES = 86_400
"""Seconds that Redis keeps an expired lease without a thread. Callers' clocks decide expiry."""


@dataclass(slots=True)
class _Session:
    """The connections of one event loop in one process."""

    caller: Caller
    applier: Applier
    journal: Journal
    feed: FeedReader

    async def close(self) -> None:
        await self.feed.close()
        await self.caller.router.close()

    def drop(self) -> None:
        self.feed.abandon()
        self.caller.router.drop()


class RedisStorage:
    """Threads in Redis 6.2 or newer, or Valkey: a single server, a master behind Sentinel, or a
    cluster (detected).

    Acknowledged commits are as durable as the server makes them: with `appendonly yes` and
    `appendfsync always` they survive everything but the loss of the disk; `docs/redis.md` explains
    other settings. A thread expires as a whole, `ttl` seconds after its last commit (0 or `None`: never). Each event
    loop has connections of its own; any number of loops may use one storage.
    """

    capabilities = Capabilities(name="redis", durable=True, suspends=True, shares_forks=False)

    def __init__(
        self,
        url: str | None = None,
        *,
        host: str | None = None,
        port: int = 6379,
        username: str | None = None,
        password: str | None = None,
        db: int | None = None,
        cluster: bool | None = None,
        prefix: str = "clew",
        ttl: float | None = None,
        pool_size: int = 8,
        min_idle: int = 1,
        health_check_interval: float = 30.0,
        retries: int = 3,
        dial_timeout: float = 5.0,
        read_timeout: float = 10.0,
        write_timeout: float = 10.0,
        advise: bool = True,
    ) -> None:
        """`advise`: whether to log a warning if the server's settings weaken durability."""
        if (url is None) == (host is None):
            raise ConfigError("the location of Redis is missing or given twice; pass either url= or host= and port=")
        checked_number("port", port, "whole number", at_least=1)
        options = connection_options(
            username=username,
            password=password,
            db=db,
            retries=retries,
            dial_timeout=dial_timeout,
            read_timeout=read_timeout,
        )
        address = Address(url if url is not None else f"redis://{host}:{port}", options, cluster=cluster)
        limits = Limits(
            pool_size=pool_size,
            min_idle=min_idle,
            health_check=health_check_interval,
            read_timeout=read_timeout,
            write_timeout=write_timeout,
        )
        self._begin(address, limits, prefix=prefix, ttl=ttl, advise=advise)

    @classmethod
    def from_client(
        cls,
        client: Redis | RedisCluster,
        *,
        prefix: str = "clew",
        ttl: float | None = None,
        pool_size: int = 8,
        read_timeout: float = 10.0,
        write_timeout: float = 10.0,
        advise: bool = True,
    ) -> Self:
        """Return a storage that connects like an existing client, which the caller has to close."""
        if not isinstance(client, Redis | RedisCluster):
            raise ConfigError(
                "from_client takes a Redis or RedisCluster of redis.asyncio; got "
                f"{type(client).__module__}.{type(client).__name__}. For a URL, use RedisStorage(url)"
            )
        self = cls.__new__(cls)
        if isinstance(client, RedisCluster):
            nodes = list(client.nodes_manager.startup_nodes.values())
            first = [node.name for node in nodes]
            kwargs = {key: value for key, value in nodes[0].connection_kwargs.items() if key != "response_callbacks"}
            pool = ConnectionPool(connection_class=nodes[0].connection_class, **kwargs)
            address = Address.of_pool(pool, cluster=True, first=first)
        else:
            address = Address.of_pool(client.connection_pool, cluster=None)
        limits = Limits(
            pool_size=pool_size, min_idle=0, health_check=0, read_timeout=read_timeout, write_timeout=write_timeout
        )
        self._begin(address, limits, prefix=prefix, ttl=ttl, advise=advise)
        return self

    def _begin(self, address: Address, limits: Limits, *, prefix: str, ttl: float | None, advise: bool) -> None:
        self.server = address.where
        """Host and port, for messages and telemetry."""
        if ttl == 0:
            ttl = None
        if ttl is not None:
            check_seconds("ttl", ttl)
        self._address, self._limits, self._advise = address, limits, advise
        self._keys = Keys(prefix)
        self._ttl = None if ttl is None else max(1, round(ttl * 1000))
        self._sessions = PerLoop(
            f"Redis at {address.where}",
            self._start,
            _Session.close,
            _Session.drop,
        )
        self._session = self._sessions.get

    async def _start(self) -> _Session:
        caller = await connect(self._address, self._limits)
        try:
            await prepare(caller, self._keys)
            for node in caller.router.masters():
                await node.warm(self._limits.min_idle)
            if self._advise:
                await warn(caller, ttl=self._ttl is not None, where=self._address.where)
        except BaseException:
            await caller.router.close()
            raise
        keys = self._keys
        return _Session(caller, Applier(caller, keys, self._ttl), Journal(caller, keys), FeedReader(caller, keys))

    async def setup(self) -> None:
        await prepare((await self._session()).caller, self._keys)

    async def close(self) -> None:
        await self._sessions.close()

    async def ping(self) -> None:
        session = await self._session()
        for node in session.caller.router.masters():
            await session.caller.command_on(node, "PING")

    # Commits and leases

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        session = await self._session()
        return await session.applier.apply(commits)

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        caller = (await self._session()).caller
        expires = now + timedelta(seconds=ttl)
        given = (user_field(user), text_bytes(holder), time_digits(now), time_digits(expires), 1 if ttl <= 0 else 0)
        patience = round(max(ttl, 0) + _LEASE_OUTLIVES) * 1000
        token: bytes | int = b""
        while True:
            answer: list[Any] = await queries.ask(caller, LEASE, self._keys, thread_id, *given, token, patience)
            if answer[0] == b"owner":
                check_owner(thread_id, owner_name(answer[1]), user)
            if answer[0] == b"lease":
                _, number, since, until, name = answer
                return LeaseRecord(
                    thread_id=thread_id,
                    holder=bytes_text(name),
                    token=number,
                    since=digits_time(since),
                    expires_at=digits_time(until),
                )
            # A new holder needs a token that was never given before.
            token = int(await caller.call(TOKEN, self._keys.token, answer[1]))

    # Queries

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        return await queries.checkpoints((await self._session()).caller, self._keys, query)

    async def values(self, query: ValueQuery) -> ValuePage:
        return await queries.values((await self._session()).caller, self._keys, query)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await queries.attachments((await self._session()).caller, self._keys, query)

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return await queries.messages((await self._session()).caller, self._keys, query)

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        """Return the newest matches. Reads all messages of the user; each thread is a snapshot."""
        return await search((await self._session()).caller, self._keys, query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await list_threads((await self._session()).caller, self._keys, query)

    async def content(self, thread_id: str) -> Content | None:
        return await queries.content((await self._session()).caller, self._keys, thread_id)

    async def journal(self, query: JournalQuery) -> JournalPage:
        """Return a page. With entries in hundreds of threads, `count` may be some seconds old."""
        return await (await self._session()).journal.page(query)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        await (await self._session()).journal.trim(entries)

    async def feed(self, query: FeedQuery) -> FeedPage:
        return await (await self._session()).feed.page(query)

    async def own(self, name: Own) -> bytes | None:
        key = self._keys.own(name)
        return cast("bytes | None", await (await self._session()).caller.command(key, "GET", key))

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        caller = (await self._session()).caller
        given = (data,) if instead_of is None else (data, instead_of)
        return bool(await caller.call(OWN, self._keys.own(name), *given))

    async def stats(self, user: User) -> StorageStats:
        """Return totals. `stored_bytes` is the servers' `used_memory`, with other programs' data."""
        return await totals((await self._session()).caller, self._keys, user)

    async def reclaim(self) -> None:
        """Rebuild the indexes: list every existing thread, remove entries of missing ones."""
        await rebuild((await self._session()).caller, self._keys)
