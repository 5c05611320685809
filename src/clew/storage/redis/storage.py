"""The Redis storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.connection import ConnectionPool

from clew.errors import ClewError, ConfigError
from clew.model.commit import Applied, Commit
from clew.model.config import User
from clew.model.queries import (
    AttachmentQuery,
    CheckpointPage,
    CheckpointQuery,
    JournalPage,
    JournalQuery,
    MessageQuery,
    StorageStats,
    ThreadQuery,
    ValuePage,
    ValueQuery,
)
from clew.model.records import AttachmentRecord, JournalEntry, LeaseRecord, MessageRecord, ThreadRecord
from clew.storage.loops import PerLoop
from clew.storage.packing import bytes_text, text_bytes
from clew.storage.protocol import Capabilities
from clew.storage.redis import reading
from clew.storage.redis.applying import Applier
from clew.storage.redis.calling import Caller
from clew.storage.redis.committing import user_field
from clew.storage.redis.journal import Awaited, Journal
from clew.storage.redis.keys import Keys
from clew.storage.redis.layout import digits_time, owner_name, time_digits
from clew.storage.redis.listing import Listed, list_threads
from clew.storage.redis.scripts import LEASE, TOKEN
from clew.storage.redis.session import connect, prepare, warn
from clew.storage.redis.settings import Address, Limits, check_seconds, check_whole, connection_options
from clew.storage.redis.upkeep import rebuild, totals
from clew.storage.rules import check_owner

_LEASE_OUTLIVES = 86_400
"""How long Redis keeps a lease without a thread after it ran out, in seconds. Who has it is decided by the callers' clocks."""


@dataclass(slots=True)
class _Session:
    """The connections of one event loop in one process."""

    caller: Caller
    applier: Applier
    journal: Journal


class RedisStorage:
    """Threads in Redis 6.2 or newer, or Valkey: one server, one behind Sentinel, or a cluster (found out by itself).

    What is acknowledged is as durable as the server makes it: with `appendonly yes` and `appendfsync always` it survives
    everything but the loss of the disk; `docs/redis.md` says what other settings mean. `ttl` seconds after its last commit
    a thread expires, as a whole. Connections belong to an event loop; any number of loops may use one storage.
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
        """`advise`: whether to say in the log what the server's settings mean for what is acknowledged."""
        if (url is None) == (host is None):
            raise ConfigError("say where Redis is: either url='redis://host:port/db' or host= and port=")
        check_whole("port", port, least=1)
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
        """A storage on the servers of an existing client, connected as that is. The client stays its owner's to close."""
        if not isinstance(client, Redis | RedisCluster):
            raise ConfigError(
                "from_client takes a client of redis.asyncio: a Redis, or a cluster's RedisCluster; got "
                f"{type(client).__module__}.{type(client).__name__}. For a URL there is the class itself"
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
        if ttl is not None:
            check_seconds("ttl", ttl)
        self._address, self._limits, self._advise = address, limits, advise
        self._keys = Keys(prefix)
        self._ttl = None if ttl is None else max(1, round(ttl * 1000))
        self._listed = Listed(self._keys)
        self._awaited = Awaited(self._keys)
        self._sessions = PerLoop(
            f"Redis at {address.where}",
            self._start,
            lambda session: session.caller.router.close(),
            lambda session: session.caller.router.drop(),
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
        applier = Applier(caller, self._keys, self._listed, self._awaited, self._ttl)
        return _Session(caller, applier, Journal(caller, self._keys))

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
            answer: list[Any] = await caller.call(LEASE, self._keys.thread(thread_id), *given, token, patience)
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
            # Somebody new gets it, and with it a number that was never given before.
            token = int(await caller.call(TOKEN, self._keys.token, answer[1]))

    # Queries

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        return await reading.checkpoints((await self._session()).caller, self._keys, query)

    async def values(self, query: ValueQuery) -> ValuePage:
        return await reading.values((await self._session()).caller, self._keys, query)

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return await reading.attachments((await self._session()).caller, self._keys, query)

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return await reading.messages((await self._session()).caller, self._keys, query)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await list_threads((await self._session()).caller, self._keys, query)

    async def journal(self, query: JournalQuery) -> JournalPage:
        """With hundreds of threads that have or just had entries, `count` may be some seconds old."""
        return await (await self._session()).journal.page(query)

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        await (await self._session()).journal.trim(entries)

    async def stats(self, user: User) -> StorageStats:
        """`stored_bytes` is the memory that the servers use (`used_memory`), which other things in them count to."""
        return await totals((await self._session()).caller, self._keys, user)

    async def reclaim(self) -> None:
        """Take entries of threads that are gone out of the indexes, and list every thread that there is."""
        await rebuild((await self._session()).caller, self._keys, self._listed)
