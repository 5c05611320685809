"""The PostgreSQL storage: one statement for each operation, and one for all commits that come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg

from clew.errors import ClewError, ConfigError, StorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER, User
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
from clew.storage.packing import micros
from clew.storage.postgres import reading
from clew.storage.postgres.batching import Batcher, Outcome
from clew.storage.postgres.commits import (
    alone_outcome,
    alone_parameters,
    commit_parameters,
    is_plain,
    is_usual,
    outcome,
    usual_outcomes,
    usual_parameters,
)
from clew.storage.postgres.connections import CLOSE_TIMEOUT, UNHURRIED, Connections
from clew.storage.postgres.failures import COMMITS_FAULT
from clew.storage.postgres.schema import Schema
from clew.storage.postgres.settings import PoolSettings, usable_here
from clew.storage.postgres.texts import escaped
from clew.storage.postgres.users import UserColumn, UserIdType
from clew.storage.protocol import Capabilities
from clew.storage.rules import not_the_owner
from clew.storage.together import Together

_TABLES = tuple(
    f"@schema.{name}"
    for name in ("threads", "value_rows", "checkpoints", "attachments", "messages", "receipts", "leases", "journal")
)

_LOADS_AT_ONCE, _LOADS_TOGETHER = 4, 16
"""Several statements, so that one is decoded while the server works on the next."""
_Load = tuple[CheckpointQuery, list[Any]]
"""A query for a head, and its parameters."""


class _Home:
    """What belongs to one event loop: its connections, and the commits and loads that wait on them."""

    def __init__(self, connections: Connections, batcher: Batcher, loads: Together[_Load, CheckpointPage]) -> None:
        self.connections = connections
        self.batcher = batcher
        self.loads = loads


class PgStorage:
    """A storage in one schema of a PostgreSQL database, shared by any number of processes.

    It connects to `dsn` through a pool of its own for each event loop that uses it; `pool_config` goes to
    `asyncpg.create_pool`, but for `acquire_timeout`: the seconds that a call waits while all connections are taken. Or it
    uses `pool`, which stays open when the storage is closed unless `release_resources`. `user_id_type` is the type of the
    owner column. Behind PgBouncer in transaction mode, give `statement_cache_size=0`.
    """

    capabilities = Capabilities(name="postgresql", durable=True, suspends=True, shares_forks=False)

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: asyncpg.Pool | None = None,
        pool_config: Mapping[str, Any] | None = None,
        schema: str = "clew",
        user_id_type: UserIdType = "string",
        statement_cache_size: int | None = None,
        release_resources: bool = False,
    ) -> None:
        # How long a call waits for a connection is Clew's own, whosever the pool is.
        made_of = [dsn, statement_cache_size, *(name for name in pool_config or () if name != "acquire_timeout")]
        if pool is not None and any(each is not None for each in made_of):
            raise ConfigError("give a pool, or what one is made of (dsn, pool_config, statement_cache_size), not both")
        self._settings = PoolSettings(dsn, pool_config, statement_cache_size)
        self._pool = pool
        self._release_resources = release_resources
        self._users = UserColumn(user_id_type)
        self._schema = Schema(schema, self._users)
        self._statements = reading.Statements(self._schema, self._users)
        self._homes = PerLoop(f"schema {schema!r}", self._open, self._leave)

    async def _open(self) -> _Home:
        pool = usable_here(self._pool) if self._pool is not None else await self._settings.open()
        own = self._pool is None
        connections = Connections(pool, own=own, acquire_timeout=self._settings.acquire_timeout)
        try:
            async with connections.connection() as connection:
                await self._schema.prepare(connection)
        except BaseException:
            await connections.close(pool_too=own)
            raise
        return _Home(
            connections,
            Batcher(partial(self._many, connections), partial(self._one, connections)),
            Together(partial(self._heads, connections), at_once=_LOADS_AT_ONCE, most=_LOADS_TOGETHER),
        )

    async def _leave(self, home: _Home) -> None:
        await home.batcher.finish(CLOSE_TIMEOUT)
        await home.connections.close(pool_too=self._pool is None or self._release_resources)

    async def _fetch(self, question: reading.Question) -> list[Any]:
        return await (await self._homes.get()).connections.fetch(*question)

    async def setup(self) -> None:
        await self._homes.get()

    async def close(self) -> None:
        await self._homes.close()

    async def ping(self) -> None:
        await self._fetch((self._statements.ping, []))

    async def apply(self, commits: Sequence[Commit]) -> list[Applied | ClewError]:
        batcher = (await self._homes.get()).batcher
        if len(commits) == 1:
            return [self._misfit(commits[0]) or await batcher.apply(commits[0])]
        outcomes: list[Applied | ClewError] = []
        for together in _runs(commits):
            misfits = [self._misfit(commit) for commit in together]
            fitting = [commit for commit, misfit in zip(together, misfits, strict=True) if not misfit]
            applied = iter(await asyncio.gather(*map(batcher.submit, fitting)))
            outcomes += [misfit or next(applied) for misfit in misfits]
        return outcomes

    def _misfit(self, commit: Commit) -> ConfigError | None:
        """The error for a commit that names a user whom the owner column can't hold."""
        if self._users.takes_any:
            return None
        try:
            self._users.stored(commit.user)
            self._users.stored(commit.thread.user_id if commit.thread else None)
        except ConfigError as error:
            return error
        return None

    async def _many(self, connections: Connections, commits: Sequence[Commit]) -> list[Applied | None]:
        if len(commits) == 1 and is_plain(commits[0]):
            parameters = alone_parameters(commits[0], self._users)
            (answer,) = await connections.fetch(self._statements.commit_alone, parameters)
            return [alone_outcome(commits[0], answer)]
        # Locks are taken in the order of the threads' ids.
        arrivals = sorted(range(len(commits)), key=[commit.thread_id for commit in commits].__getitem__)
        in_order = [commits[arrival] for arrival in arrivals]
        parameters = usual_parameters(in_order, arrivals, self._users)
        (answer,) = await connections.fetch(self._statements.commit_usual, parameters)
        return usual_outcomes(in_order, arrivals, answer)

    async def _one(self, connections: Connections, commit: Commit) -> Outcome:
        parameters = commit_parameters(commit, self._users)
        while True:
            try:
                (answer,) = await connections.fetch(self._statements.commit, parameters)
            except StorageError as error:
                if isinstance(error.__cause__, COMMITS_FAULT):
                    return error
                raise
            if answer["outcome"] != "again":
                return outcome(commit, answer)

    async def _heads(self, connections: Connections, loads: Sequence[_Load]) -> list[CheckpointPage]:
        if len(loads) == 1:
            return [reading.checkpoint_page(await connections.fetch(*self._statements.checkpoints(loads[0][0])))]
        rows = await connections.fetch(*self._statements.heads([parameters for _, parameters in loads]))
        return reading.checkpoint_pages(rows, len(loads))

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        load = self._statements.load(query)
        if load is not None:
            return await (await self._homes.get()).loads.ask((query, load))
        return reading.checkpoint_page(await self._fetch(self._statements.checkpoints(query)))

    async def values(self, query: ValueQuery) -> ValuePage:
        return reading.value_page(await self._fetch(self._statements.values(query)))

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return reading.attachment_records(await self._fetch(self._statements.attachments(query)))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        return reading.message_records(await self._fetch(self._statements.messages(query)))

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return self._statements.thread_records(await self._fetch(self._statements.threads(query)))

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        until = micros(now + timedelta(seconds=ttl))
        who = [escaped(thread_id), user is ANY_USER, self._users.stored(user)]
        (row,) = await self._fetch((self._statements.lease, [*who, escaped(holder), micros(now), until, ttl <= 0]))
        if row["denied"]:
            raise not_the_owner(thread_id, user)
        if row["token"] is None:
            return LeaseRecord(thread_id=thread_id, holder=holder, token=0, since=now, expires_at=now)
        return reading.lease_record(thread_id, row)

    async def stats(self, user: User) -> StorageStats:
        return reading.storage_stats(await self._fetch(self._statements.stats(user)))

    async def journal(self, query: JournalQuery) -> JournalPage:
        return reading.journal_page(await self._fetch(self._statements.journal(query)))

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            await self._fetch(self._statements.trim(entries))

    async def reclaim(self) -> None:
        async with (await self._homes.get()).connections.connection() as connection:
            await connection.execute(self._schema.sql(f"VACUUM {', '.join(_TABLES)}"), timeout=UNHURRIED)


def _runs(commits: Sequence[Commit]) -> Iterator[list[Commit]]:
    """The commits in order, those together that may go together: usual ones, each of another thread."""
    together: list[Commit] = []
    for commit in commits:
        usual = is_usual(commit)
        if together and not (usual and all(commit.thread_id != other.thread_id for other in together)):
            yield together
            together = []
        together.append(commit)
        if not usual:
            yield together
            together = []
    if together:
        yield together
