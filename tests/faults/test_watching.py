"""Watchers miss nothing when servers restart, connections break, and transactions commit out of order."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

import clew
from clew.model.feed import FeedQuery
from clew.storage.postgres import PgStorage
from clew.storage.postgres.feed import Position
from clew.storage.redis import RedisStorage
from clew.testing.build import checkpoint, commit, message
from clew.testing.servers import PostgresServer, Proxy, RedisServer, shared_cluster, shared_postgres
from tests.storage.postgres_support import shared_schema

ANA = {"thread_id": "t", "user_id": "ana"}
HANGS = 120
KINDS = [
    pytest.param(PostgresServer, id="postgres"),
    pytest.param(lambda: RedisServer({"appendonly": "yes", "appendfsync": "always"}), id="redis"),
]


async def sequences(watch, count):
    async with asyncio.timeout(HANGS):
        return [(await anext(watch)).sequence for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_watch_goes_on_when_its_server_was_restarted(kind):
    async def main(server):
        async with clew.connect(server.url, retry_for=60) as memory, memory.awatch(ANA) as watch:
            seen = []
            for round in range(2):
                for number in range(3):
                    await memory.aput_state(ANA, {"n": number})
                seen += await sequences(watch, 3)
                if round == 0:
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
            assert seen == [1, 2, 3, 4, 5, 6]

    with kind() as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("kind", KINDS)
def test_a_watch_goes_on_when_its_connections_break(kind):
    async def main(server, proxy):
        async with (
            clew.connect(proxy.url(server.url), retry_for=60) as memory,
            clew.connect(server.url) as other,
            memory.awatch(ANA) as watch,
        ):
            seen = []
            for number in range(4):
                await other.aput_state(ANA, {"n": number})
                seen += await sequences(watch, 1)
                await asyncio.to_thread(proxy.cut)
                await other.aput_state(ANA, {"n": -number})
                await asyncio.to_thread(proxy.accept)
                seen += await sequences(watch, 1)
            assert seen == list(range(1, 9))

    with kind() as server, Proxy.before(server.url) as proxy:
        asyncio.run(main(server, proxy))


def test_a_position_names_no_transaction_that_a_crash_can_undo():
    async def main(schema):
        storage = PgStorage(shared_postgres(), schema=schema)
        await storage.setup()
        other = await asyncpg.connect(shared_postgres())
        for entries in range(3):
            before = (await storage.feed(FeedQuery())).position
            # It has a number, but writes nothing that would have to be flushed: after a crash, the number is free.
            await other.fetchval("SELECT pg_current_xact_id()")
            positions = [Position.read(each) for each in (before, (await storage.feed(FeedQuery())).position)]
            first, second = (each.seen.after for each in positions if each)
            assert first == second
            await storage.apply([commit(messages=[message(f"m{entries}")])])
            page = await storage.feed(FeedQuery(after=before))
            assert len(page.entries) == 1
            assert page.position != before
        await other.close()
        await storage.close()

    with shared_schema() as schema:
        asyncio.run(main(schema))


def test_a_transaction_that_commits_late_is_not_missed():
    async def main(schema):
        storage = PgStorage(shared_postgres(), schema=schema)
        await storage.setup()
        start = (await storage.feed(FeedQuery())).position
        late = await asyncpg.connect(shared_postgres())
        begun = late.transaction()
        await begun.start()
        insert = (
            f'INSERT INTO "{schema}".feed SELECT pg_current_xact_id(), nextval(\'"{schema}".feed_numbers\'), 1, 1, '
            "'late', NULL, 'i'"
        )
        await late.execute(insert)
        await storage.apply([commit("early", checkpoint=checkpoint("c1"))])
        first = await storage.feed(FeedQuery(after=start))
        assert [each.thread_id for each in first.entries] == ["early"]
        await begun.commit()
        await late.close()
        second = await storage.feed(FeedQuery(after=first.position))
        assert [each.thread_id for each in second.entries] == ["late"]
        both = await storage.feed(FeedQuery(after=start, limit=1))
        assert both.more
        rest = await storage.feed(FeedQuery(after=both.entries[0].position))
        assert {*(each.thread_id for each in both.entries + rest.entries)} == {"early", "late"}
        assert (await storage.feed(FeedQuery(after=rest.position))).entries == ()
        await storage.close()

    with shared_schema() as schema:
        asyncio.run(main(schema))


def test_a_commit_that_began_before_the_first_watch_and_ends_after_it_began_is_seen():
    async def main(schema):
        storage = PgStorage(shared_postgres(), schema=schema)
        await storage.setup()
        gate = await asyncpg.connect(shared_postgres())
        held = gate.transaction()
        await held.start()
        # Commits wait here: they have begun, and have not looked yet whether anybody watches.
        await gate.execute(f'LOCK TABLE "{schema}".feed_state IN ACCESS EXCLUSIVE MODE')
        waiting = asyncio.ensure_future(storage.apply([commit("t", checkpoint=checkpoint("c1"))]))
        await asyncio.sleep(0.2)
        watching = asyncio.ensure_future(storage.feed(FeedQuery()))
        await asyncio.sleep(0.2)
        await held.commit()
        await gate.close()
        async with asyncio.timeout(HANGS):
            position = (await watching).position
            await waiting
        await storage.apply([commit("t", checkpoint=checkpoint("c2"))])
        found = [each.sequence for each in (await storage.feed(FeedQuery(after=position))).entries]
        # The first was acknowledged after the watch began, or else before it: then it need not be seen.
        assert found in ([1, 2], [2])
        await storage.close()

    with shared_schema() as schema:
        asyncio.run(main(schema))


def test_a_watcher_of_a_pool_with_one_connection_looks_instead_of_listening():
    async def main(schema):
        memory = clew.PgCheckpointer(shared_postgres(), schema=schema, pool_config={"max_size": 1})
        async with memory, memory.awatch(ANA) as watch:
            await memory.aput_state(ANA, {"n": 1})
            assert await sequences(watch, 1) == [1]
            assert memory.storage._homes.opened().watching._listener is None  # type: ignore[attr-defined]

    with shared_schema() as schema:
        asyncio.run(main(schema))


def test_a_cluster_is_watched(tmp_path):
    async def main():
        writer, reader = (RedisStorage(shared_cluster(), prefix=str(tmp_path)) for _ in range(2))
        await writer.apply([commit("t0", checkpoint=checkpoint("c"))])
        position = (await reader.feed(FeedQuery())).position
        for number in range(20):
            await writer.apply([commit(f"t{number}", checkpoint=checkpoint(f"c{number}"))])
        found = (await reader.feed(FeedQuery(after=position, wait=1.0))).entries
        assert [each.parts.checkpoint for each in found] == [("", f"c{number}") for number in range(20)]
        waiting = asyncio.ensure_future(reader.feed(FeedQuery(after=found[-1].position, wait=5.0)))
        await writer.apply([commit("t1", remove=None, thread=None, checkpoint=checkpoint("last"))])
        async with asyncio.timeout(HANGS):
            assert [each.thread_id for each in (await waiting).entries] == ["t1"]
        await writer.close()
        await reader.close()

    asyncio.run(main())
