"""Cluster changes: a node dies, a replica takes over, a slot moves while its threads are written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from clew.errors import ClewError, TransientStorageError
from clew.ids import new_id
from clew.model.commit import Applied
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery, JournalQuery, ThreadQuery
from clew.storage.redis import RedisStorage
from clew.storage.redis.keys import Keys, slot_of
from clew.testing.build import attachment, checkpoint, commit, deletion, message, row
from clew.testing.contract.base import full_commit
from clew.testing.servers import RedisCluster, RedisServer, shared_cluster
from tests.storage.redis_support import opened, persistent, saved

QUICK: dict[str, Any] = {"retries": 0, "dial_timeout": 1, "read_timeout": 1}


@pytest.fixture
def prefix() -> str:
    return new_id()


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as running:
        yield running


async def ids_of(storage: RedisStorage, thread_id: str) -> list[str]:
    query = CheckpointQuery(thread_id=thread_id, user=None, limit=None)
    page = await persistent(lambda: storage.checkpoints(query))
    return [found.checkpoint_id for found in reversed(page.checkpoints)]


def test_threads_lie_on_all_nodes(prefix):
    with opened(shared_cluster(), prefix=prefix) as store:
        store.outcomes(*(full_commit(f"t{number}") for number in range(60)))
        assert len(store.threads()) == len(store.threads(user=None)) == 60

        storage = store.storage
        assert isinstance(storage, RedisStorage)

        async def nodes() -> list[int]:
            caller = (await storage._session()).caller
            return [len(await caller.command_on(node, "KEYS", f"{prefix}:*}}:t")) for node in caller.router.masters()]

        counts = store.run(nodes())
        assert len(counts) == 3
        assert min(counts) > 5
        assert sum(counts) == 60


@pytest.mark.parametrize("scheme", ["redis+cluster", "redis"])
def test_a_cluster_is_found_from_any_node(cluster, prefix, scheme):
    for node in cluster.nodes:
        with opened(node.url.replace("redis", scheme), prefix=prefix) as store:
            store.apply(full_commit(f"by {node.port}"))
    with opened(
        "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes), prefix=prefix
    ) as store:
        assert len(store.threads()) == 3


def move_slot(cluster: RedisCluster, slot: int, after_each: Any) -> None:
    """Move a slot to the next node key by key, as redis-cli does."""
    source = cluster.node_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    names = {node.port: node.call("CLUSTER", "MYID").decode() for node in cluster.nodes}
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source.port])
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target.port])
    after_each()
    while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 1):
        source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        after_each()
    for node in [target, source, *cluster.nodes]:
        node.call("CLUSTER", "SETSLOT", slot, "NODE", names[target.port])


def threads_of_one_slot(prefix: str, count: int) -> list[str]:
    """Return names of threads in the same slot."""
    keys = Keys(prefix)
    slot = slot_of(keys.thread("t"))
    found, number = ["t"], 0
    while len(found) < count:
        if slot_of(keys.thread(f"t{number}")) == slot:
            found.append(f"t{number}")
        number += 1
    return found


def test_a_slot_moves_while_its_threads_are_written(cluster, prefix):
    names = threads_of_one_slot(prefix, 4)
    slot = slot_of(Keys(prefix).thread("t"))

    async def work() -> None:
        storage = RedisStorage(cluster.url, prefix=prefix, **QUICK)
        loop = asyncio.get_running_loop()
        counts = dict.fromkeys(names, 0)
        # New threads are created while the slot moves.
        await saved(storage, commit(names[0], values=row(0), checkpoint=checkpoint("c0")))
        counts[names[0]] = 1
        done, turned = False, asyncio.Event()

        async def write(name: str) -> None:
            while not done:
                count = counts[name]
                made = commit(
                    name,
                    values=row(count),
                    checkpoint=checkpoint(f"c{count}", covers=[(0, count + 1)]),
                    messages=[message(f"m{count}")] if count % 3 == 0 else (),
                    attachments=[attachment(f"c{count}", "k")] if count % 5 == 0 else (),
                    journal=b"%d" % count if count % 2 else None,
                )
                await saved(storage, made)
                counts[name] += 1
                turned.set()

        def some_more() -> None:
            before = sum(counts.values())

            async def until() -> None:
                while sum(counts.values()) < before + 20:
                    turned.clear()
                    await turned.wait()

            asyncio.run_coroutine_threadsafe(until(), loop).result(120)

        async def move() -> None:
            nonlocal done
            for _ in range(3):
                await asyncio.to_thread(move_slot, cluster, slot, some_more)
                await asyncio.to_thread(some_more)
            done = True

        await asyncio.gather(move(), *(write(name) for name in names))
        for name in names:
            assert await ids_of(storage, name) == [f"c{number}" for number in range(counts[name])]
            page = await storage.checkpoints(CheckpointQuery(thread_id=name, user=None, detail="state"))
            assert len(page.rows) == counts[name]
        limit = sum(counts.values())
        noted = (await persistent(lambda: storage.journal(JournalQuery(limit=limit)))).entries
        for name in names:
            assert [int(each.data) for each in noted if each.thread_id == name] == [*range(1, counts[name], 2)]
        for user in (None, ANY_USER):
            found = await persistent(lambda user=user: storage.threads(ThreadQuery(user=user)))  # type: ignore[misc]
            assert sorted(each.thread_id for each in found) == sorted(names)
        (gone,) = await storage.apply([deletion("t")])
        assert isinstance(gone, Applied)
        await storage.close()

    asyncio.run(work())


def test_the_other_slots_go_on_when_a_node_dies(prefix):
    with RedisCluster(settings={"cluster-require-full-coverage": "no"}) as cluster:

        async def work() -> None:
            storage = RedisStorage(cluster.url, prefix=prefix, **QUICK)
            names = [f"t{number}" for number in range(60)]
            for name in names:
                await saved(storage, full_commit(name))
            dead: RedisServer = cluster.node_of(slot_of(Keys(prefix).thread("t0")))
            of_dead = {name for name in names if cluster.node_of(slot_of(Keys(prefix).thread(name))) is dead}
            dead.kill()
            made = [commit(name, checkpoint=checkpoint("c2")) for name in names]
            outcomes = await storage.apply(made)
            for each, outcome in zip(made, outcomes, strict=True):
                # A thread's index may be on the dead node; a retry then finds the commit applied.
                if each.thread_id in of_dead:
                    assert isinstance(outcome, TransientStorageError)
                else:
                    assert isinstance(outcome, Applied | TransientStorageError)
            assert sum(isinstance(outcome, Applied) for outcome in outcomes) > 10
            with pytest.raises(ClewError):
                await storage.ping()
            await asyncio.to_thread(dead.start)
            for each in made:
                if each.thread_id not in of_dead:
                    await saved(storage, each)
                    assert await ids_of(storage, each.thread_id) == ["c1", "c2"]
            await storage.close()

        asyncio.run(work())


def test_a_replica_takes_over_for_a_node_that_dies(prefix):
    with RedisCluster(replicas=1) as cluster:

        async def work() -> None:
            storage = RedisStorage(cluster.url, prefix=prefix, **QUICK)
            names = [f"t{number}" for number in range(30)]
            for name in names:
                await saved(storage, full_commit(name))
            dead = cluster.node_of(slot_of(Keys(prefix).thread("t0")))
            # Wait for replication, so that the dying node has nothing of its own.
            await asyncio.to_thread(dead.call, "WAIT", 1, 5000)
            dead.kill()
            for name in names:
                await saved(storage, commit(name, values=row(3), checkpoint=checkpoint("c2")), seconds=60)
            for name in names:
                assert await ids_of(storage, name) == ["c1", "c2"]
            found = await persistent(lambda: storage.threads(ThreadQuery(user=None)))
            assert len(found) == 30
            await storage.close()

        asyncio.run(work())


def test_a_process_that_only_reads_finds_the_replica_that_took_over(prefix):
    with RedisCluster(replicas=1) as cluster:

        async def work() -> None:
            writer = RedisStorage(cluster.url, prefix=prefix, **QUICK)
            reader = RedisStorage(cluster.url, prefix=prefix, **QUICK)
            pinging = RedisStorage(cluster.url, prefix=prefix, **QUICK)
            await pinging.ping()
            await saved(writer, full_commit())
            dead = cluster.node_of(slot_of(Keys(prefix).thread("t")))
            await asyncio.to_thread(dead.call, "WAIT", 1, 5000)
            assert await ids_of(reader, "t") == ["c1"]
            dead.kill()
            # Before the failover: the reader learns nothing new.
            with pytest.raises(TransientStorageError):
                await reader.checkpoints(CheckpointQuery(thread_id="t", user=None))
            with pytest.raises(TransientStorageError):
                await pinging.ping()
            await saved(writer, commit(checkpoint=checkpoint("c2")), seconds=60)
            assert await ids_of(reader, "t") == ["c1", "c2"]
            await persistent(pinging.ping)
            for storage in (writer, reader, pinging):
                await storage.close()

        asyncio.run(work())
