"""The storage class: each operation is one statement, and concurrent commits and loads share
statements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

import asyncpg

from clew.errors import ClewError, ConfigError, StorageError
from clew.model.commit import Applied, Commit
from clew.model.config import ANY_USER, User
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
from clew.storage.batching import ReadBatcher
from clew.storage.columns import damaged_thread
from clew.storage.content import content_of, content_queries
from clew.storage.conversions import micros
from clew.storage.loops import PerLoop
from clew.storage.postgres import queries
from clew.storage.postgres.batcher import Batcher, Outcome
from clew.storage.postgres.commits import (
    commit_parameters,
    fast_append_outcomes,
    fast_append_parameters,
    fast_save_outcome,
    fast_save_parameters,
    is_append,
    is_save,
    outcome,
)
from clew.storage.postgres.connections import CLOSE_TIMEOUT, MAINTENANCE_TIMEOUT, Connections
from clew.storage.postgres.failures import COMMITS_FAULT, DAMAGED_NUMBERS
from clew.storage.postgres.lists import Question
from clew.storage.postgres.notifications import Watching
from clew.storage.postgres.schema import TABLES, Schema
from clew.storage.postgres.search import Search
from clew.storage.postgres.search_index import index_messages
from clew.storage.postgres.settings import PoolSettings, server_of_pool, usable_here
from clew.storage.postgres.texts import escaped
from clew.storage.postgres.users import UserColumn, UserIdType
from clew.storage.protocol import Capabilities, Own
from clew.storage.refusals import not_the_owner
from clew.storage.search_plan import DIRECT_THREADS, is_direct, is_due

_LOADS_AT_ONCE, _LOADS_TOGETHER = 4, 16
"""Several concurrent statements, so that one is decoded while the server runs the next."""
_Load = tuple[CheckpointQuery, list[Any]]
"""A query for the state at a head, and its parameters."""


class _Home:
    """The state of one event loop: its connections, and the commits and loads that wait for them."""

    def __init__(
        self,
        connections: Connections,
        watching: Watching,
        batcher: Batcher,
        loads: ReadBatcher[_Load, CheckpointPage],
    ) -> None:
        self.connections = connections
        self.watching = watching
        self.batcher = batcher
        self.loads = loads


class PgStorage:
    """A storage in one schema of a PostgreSQL database, shared by any number of processes.

    It opens a pool for each event loop that uses it, from `dsn` and `pool_config`. The latter is
    passed to `asyncpg.create_pool`, except for `acquire_timeout`: the seconds that a call waits for
    a free connection. Alternatively it uses `pool`, which it closes only with `release_resources`.
    `user_id_type` is the type of the owner column. Behind PgBouncer in transaction mode, set
    `statement_cache_size=0`.
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
        # `acquire_timeout` is Clew's own setting, so it is valid with any pool.
        settings = [dsn, statement_cache_size, *(name for name in pool_config or () if name != "acquire_timeout")]
        if pool is not None and any(each is not None for each in settings):
            raise ConfigError("pass either a pool, or the settings for one (dsn, pool_config, statement_cache_size)")
        self._settings = PoolSettings(dsn, pool_config, statement_cache_size)
        self._pool = pool
        self.server = self._settings.where if pool is None else server_of_pool(pool)
        """Host and port, for messages and telemetry."""
        self._release_resources = release_resources
        self._users = UserColumn(user_id_type)
        self._schema = Schema(schema, self._users)
        self._statements = queries.Statements(self._schema, self._users)
        self._search = Search(self._schema.statements, self._users)
        self._homes = PerLoop(f"schema {schema!r}", self._open, self._leave)

    async def _open(self) -> _Home:
        pool = usable_here(self._pool) if self._pool is not None else await self._settings.open()
        own = self._pool is None
        connections = Connections(pool, own=own, acquire_timeout=self._settings.acquire_timeout, where=self.server)
        try:
            async with connections.connection() as connection:
                await self._schema.prepare(connection)
        except BaseException:
            await connections.close(pool_too=own)
            raise
        watching = Watching(connections, self._statements, self._users, self._schema.name)
        given = connections, watching
        return _Home(
            connections,
            watching,
            Batcher(partial(self._many, *given), partial(self._series, *given), partial(self._one, *given)),
            ReadBatcher(partial(self._heads, connections), at_once=_LOADS_AT_ONCE, most=_LOADS_TOGETHER),
        )

    async def _leave(self, home: _Home) -> None:
        await home.batcher.finish(CLOSE_TIMEOUT)
        await home.watching.close()
        await home.connections.close(pool_too=self._pool is None or self._release_resources)

    async def _fetch(self, question: Question) -> list[Any]:
        return await (await self._homes.get()).connections.fetch(*question)

    async def setup(self) -> None:
        home = self._homes.opened()
        if home is None:
            await self._homes.get()
            return
        # The schema may have been dropped since it was opened.
        async with home.connections.connection() as connection:
            await self._schema.prepare(connection)

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
        """Return the error for a commit whose user the owner column can't hold."""
        if self._users.takes_any:
            return None
        try:
            self._users.stored(commit.user)
            self._users.stored(commit.thread.user_id if commit.thread else None)
        except ConfigError as error:
            return error
        return None

    async def _many(
        self, connections: Connections, watching: Watching, commits: Sequence[Commit]
    ) -> list[Applied | None]:
        if len(commits) == 1 and is_save(commits[0]):
            parameters = fast_save_parameters(commits[0], self._users)
            (answer,) = await connections.fetch(self._statements.commit_fast_save, parameters)
            if answer["fed"]:
                watching.announce()
            return [fast_save_outcome(commits[0], answer)]
        # Sorted, because the server locks the threads in this order: another could deadlock.
        arrivals = sorted(range(len(commits)), key=[commit.thread_id for commit in commits].__getitem__)
        in_order = [commits[arrival] for arrival in arrivals]
        parameters = fast_append_parameters(in_order, arrivals, self._users)
        (answer,) = await connections.fetch(self._statements.commit_fast_appends, parameters)
        if answer["fed"]:
            watching.announce()
        return fast_append_outcomes(in_order, arrivals, answer)

    async def _series(
        self, connections: Connections, watching: Watching, commits: Sequence[Commit]
    ) -> list[Outcome | None]:
        """Apply commits of one thread in one transaction, except where the outcome is `None`."""
        parameters = [each for commit in commits for each in commit_parameters(commit, self._users)]
        answers = await connections.fetch(self._statements.commit_series(len(commits)), parameters)
        if any(answer["fed"] for answer in answers):
            watching.announce()
        return [
            None if answer["outcome"] == "again" else outcome(commit, answer)
            for commit, answer in zip(commits, answers, strict=True)
        ]

    async def _one(self, connections: Connections, watching: Watching, commit: Commit) -> Outcome:
        parameters = commit_parameters(commit, self._users)
        while True:
            try:
                (answer,) = await connections.fetch(self._statements.commit, parameters)
            except StorageError as error:
                if isinstance(error.__cause__, DAMAGED_NUMBERS):
                    thread_id = commit.fork.thread_id if commit.fork else commit.thread_id
                    return damaged_thread(thread_id, f"its numbers don't fit ({error.__cause__})")
                if isinstance(error.__cause__, COMMITS_FAULT):
                    return error
                raise
            if answer["outcome"] != "again":
                if answer["fed"]:
                    watching.announce()
                return outcome(commit, answer)

    async def _heads(self, connections: Connections, loads: Sequence[_Load]) -> list[CheckpointPage]:
        if len(loads) == 1:
            return [queries.checkpoint_page(await connections.fetch(*self._statements.checkpoints(loads[0][0])))]
        rows = await connections.fetch(*self._statements.heads([parameters for _, parameters in loads]))
        return queries.checkpoint_pages(rows, len(loads))

    async def checkpoints(self, query: CheckpointQuery) -> CheckpointPage:
        load = self._statements.load(query)
        if load is not None:
            return await (await self._homes.get()).loads.ask((query, load))
        return queries.checkpoint_page(await self._fetch(self._statements.checkpoints(query)))

    async def values(self, query: ValueQuery) -> ValuePage:
        return queries.value_page(await self._fetch(self._statements.values(query)))

    async def attachments(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return queries.attachment_records(await self._fetch(self._statements.attachments(query)))

    async def messages(self, query: MessageQuery) -> list[MessageRecord]:
        found = queries.message_records(await self._fetch(self._statements.messages(query)))
        return found[::-1] if query.newest else found

    async def search(self, query: SearchQuery) -> list[FoundMessage]:
        ((messages, threads),) = await self._fetch(self._search.own(query))
        own = None if threads > DIRECT_THREADS else messages
        if is_direct(own):
            return self._search.found(await self._fetch(self._search.scan(query)))
        async with (
            (await self._homes.get()).connections.connection() as connection,
            # One snapshot for all statements.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            found, waiting = await self._search.run(connection, query, own)
        if is_due(waiting):
            # The answer does not depend on it: a user who may only read can search.
            with suppress(StorageError):
                await self._index_messages()
        return found

    async def _index_messages(self) -> bool:
        """Extend the index for searches across threads by a step. Returns whether there may be more."""
        async with (await self._homes.get()).connections.connection() as connection:
            return await index_messages(connection, self._schema.statements, self._schema.name)

    async def threads(self, query: ThreadQuery) -> list[ThreadRecord]:
        return self._statements.thread_records(await self._fetch(self._statements.threads(query)))

    async def content(self, thread_id: str) -> Content | None:
        threads, values, checkpoints, attachments, messages = content_queries(thread_id)
        ask = self._statements
        asked = (
            ask.threads(threads),
            ask.values(values),
            ask.checkpoints(checkpoints),
            ask.attachments(attachments),
            ask.messages(messages),
        )
        async with (
            (await self._homes.get()).connections.connection() as connection,
            # One snapshot for all statements.
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            rows = [await connection.fetch(statement, *parameters) for statement, parameters in asked]
        return content_of(
            ask.thread_records(rows[0]),
            queries.value_page(rows[1]),
            queries.checkpoint_page(rows[2]),
            queries.attachment_records(rows[3]),
            queries.message_records(rows[4]),
        )

    async def lease(self, thread_id: str, user: User, *, holder: str, now: datetime, ttl: float) -> LeaseRecord:
        until = micros(now + timedelta(seconds=ttl))
        who = [escaped(thread_id), user is ANY_USER, self._users.stored(user)]
        (row,) = await self._fetch((self._statements.lease, [*who, escaped(holder), micros(now), until, ttl <= 0]))
        if row["denied"]:
            raise not_the_owner(thread_id, user)
        if row["token"] is None:
            return LeaseRecord(thread_id=thread_id, holder=holder, token=0, since=now, expires_at=now)
        return queries.lease_record(thread_id, row)

    async def stats(self, user: User) -> StorageStats:
        return queries.storage_stats(await self._fetch(self._statements.stats(user)))

    async def journal(self, query: JournalQuery) -> JournalPage:
        return queries.journal_page(await self._fetch(self._statements.journal(query)))

    async def trim(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            await self._fetch(self._statements.trim(entries))

    async def feed(self, query: FeedQuery) -> FeedPage:
        return await (await self._homes.get()).watching.page(query)

    async def own(self, name: Own) -> bytes | None:
        found = await self._fetch((self._statements.own, [name.value]))
        return cast("bytes", found[0]["data"]) if found else None

    async def put_own(self, name: Own, data: bytes, *, instead_of: bytes | None) -> bool:
        return bool(await self._fetch((self._statements.put_own, [name.value, data, instead_of])))

    async def reclaim(self) -> None:
        while await self._index_messages():
            pass
        async with (await self._homes.get()).connections.connection() as connection:
            tables = ", ".join(f"@schema.{name}" for name in TABLES)
            await connection.execute(self._schema.sql(f"VACUUM {tables}"), timeout=MAINTENANCE_TIMEOUT)


def _runs(commits: Sequence[Commit]) -> Iterator[list[Commit]]:
    """Split `commits` into runs that may be submitted concurrently: appends to different threads or
    with a basis."""
    together: list[Commit] = []
    for commit in commits:
        append = is_append(commit)
        if together and not (append and (commit.basis is not None or _is_other_thread(commit, together))):
            yield together
            together = []
        together.append(commit)
        if not append:
            yield together
            together = []
    if together:
        yield together


def _is_other_thread(commit: Commit, others: Sequence[Commit]) -> bool:
    return all(commit.thread_id != other.thread_id for other in others)
