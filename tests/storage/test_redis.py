"""Redis specifics: expiry, indexes, scripts, the memory limit, connections."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster as ClusterClient

from clew.checkpointer.base import BaseCheckpointer
from clew.errors import ConfigError, SchemaVersionError, StorageError, TransientStorageError
from clew.ids import new_id
from clew.model.commit import Applied, Removal
from clew.model.config import ANY_USER
from clew.model.queries import CheckpointQuery, ThreadQuery
from clew.storage.protocol import StaleBasisError
from clew.storage.redis import RedisStorage
from clew.storage.redis.caller import Caller
from clew.storage.redis.keys import Keys
from clew.storage.redis.scripts import UNLIST
from clew.storage.redis.settings import Address
from clew.testing.build import attachment, checkpoint, commit, deletion, fields, fork_of, later, message, messages, row
from clew.testing.contract.base import chain, full_commit
from clew.testing.driver import DrivenStorage
from clew.testing.servers import RedisServer, shared_cluster, shared_redis
from clew.testing.servers.redis import wait_until
from tests.storage.redis_support import opened


@pytest.fixture
def prefix() -> str:
    return new_id()


@pytest.fixture
def store(prefix: str) -> Iterator[DrivenStorage]:
    with opened(shared_redis(), prefix=prefix) as driven:
        yield driven


@pytest.fixture
def client() -> Iterator[Any]:
    with redis.Redis.from_url(shared_redis()) as connected:
        yield connected


@pytest.fixture(scope="module")
def own() -> Iterator[RedisServer]:
    """A server that no other test uses at the same time."""
    with RedisServer() as server:
        yield server


def calls(client: Any) -> dict[str, int]:
    """Return how often each command was called since the counts were reset."""
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in client.info("commandstats").items()}


# One script call per commit


def test_a_commit_is_one_script_call(own, prefix):
    with opened(own.url, prefix=prefix) as store, redis.Redis.from_url(own.url) as client:
        store.apply(full_commit())
        client.config_resetstat()
        for number in range(20):
            store.apply(
                commit(values=row(3 + number), checkpoint=checkpoint(f"d{number}"), messages=messages("a", "b"))
            )
        store.page(detail="state", limit=1)
        assert calls(client)["evalsha"] == 21


def test_a_thread_is_one_key_and_its_deletion_leaves_nothing(store, prefix, client):
    keys = Keys(prefix)
    store.apply(full_commit("a", user="ann"))
    found = {keys.meta, keys.thread("a"), keys.of_user("ann"), keys.bucket("a")}
    assert set(client.scan_iter(match=f"{prefix}:*")) == found
    store.apply(deletion("a", user="ann"))
    assert store.threads() == []
    assert store.threads(user="ann") == []
    assert set(client.scan_iter(match=f"{prefix}:*")) == {keys.meta}


def test_scripts_that_a_server_forgot_are_sent_again(store, own, prefix):
    with opened(own.url, prefix=prefix) as store:
        for number in range(3):
            store.apply(commit(values=row(number), checkpoint=checkpoint(f"c{number}", covers=[(0, number + 1)])))
            own.call("SCRIPT", "FLUSH")
            assert len(store.page(limit=1, detail="state").rows) == number + 1
            own.call("SCRIPT", "FLUSH")
        outcomes = store.outcomes(*chain(20, "other"))
        assert [outcome.sequence for outcome in outcomes if isinstance(outcome, Applied)] == [*range(1, 21)]


def test_a_stale_commit_among_good_ones_fails_alone(store):
    store.apply_all(*(full_commit(f"t{number}") for number in range(8)))
    commits = [
        commit(f"t{number}", values=row(2 if number == 5 else 3), checkpoint=checkpoint("c2")) for number in range(8)
    ]
    jobs = [lambda each=each: store.storage.apply([each]) for each in commits]
    outcomes = [outcome for (outcome,) in store.at_once(jobs)]
    assert [type(outcome) for outcome in outcomes] == [StaleBasisError if at == 5 else Applied for at in range(8)]
    assert store.checkpoint_ids("t5") == ["c1"]
    assert store.checkpoint_ids("t6") == ["c2", "c1"]


# Expiry


def ttl_of(client: Any, key: bytes) -> int:
    return int(client.pttl(key))


def test_a_thread_expires_as_a_whole_and_later_with_each_commit(prefix, client):
    key = Keys(prefix).thread("t")
    with opened(shared_redis(), prefix=prefix, ttl=3600) as store:
        store.apply(full_commit(user="ann"))
        assert 3_590_000 < ttl_of(client, key) <= 3_600_000
        for later_commit in (
            commit(user="ann", checkpoint=checkpoint("c2")),
            commit(user="ann", messages=[message("m2")]),
            commit(user="ann", attachments=[attachment("c2", "k")]),
        ):
            client.pexpire(key, 1000)
            store.apply(later_commit)
            assert ttl_of(client, key) > 3_590_000
        client.pexpire(key, 1000)
        store.everything()
        assert ttl_of(client, key) <= 1000
        # It is one key, so it goes as a whole.
        client.pexpire(key, 1)
        wait_until(lambda: not client.exists(key))
        assert store.thread() is None
        assert store.threads() == []
        assert store.threads(user="ann") == []
        assert set(client.scan_iter(match=f"{prefix}:*")) == {Keys(prefix).meta}
        assert store.apply(commit(user="bob", messages=[message("m1")])).sequence == 0
        assert store.thread_ids(user="bob") == ["t"] == store.thread_ids()


def test_a_thread_that_is_written_without_a_ttl_stays(prefix, client):
    key = Keys(prefix).thread("t")
    with opened(shared_redis(), prefix=prefix, ttl=60) as store:
        store.apply_all(full_commit(), full_commit("u"))
    with opened(shared_redis(), prefix=prefix) as store:
        store.apply(commit(values=row(3), checkpoint=checkpoint("c2")))
        assert ttl_of(client, key) == -1
        store.apply(commit("u", messages=[message("m2")]))
        assert ttl_of(client, Keys(prefix).thread("u")) == -1


def test_a_lease_without_a_thread_expires_after_a_while(store, prefix, client):
    store.lease("me", ttl=30)
    assert ttl_of(client, Keys(prefix).thread("t")) > 86_000_000
    token = store.lease("me", now=later(1), ttl=30).token
    store.apply(commit(fence=token, messages=[message("m1")]))
    assert ttl_of(client, Keys(prefix).thread("t")) == -1
    assert store.lease("you", now=later(2)).holder == "me"


def test_tokens_keep_growing_after_the_counter_was_lost(store, prefix, client):
    client.set(Keys(prefix).token, 200_000)
    before = store.lease("me", ttl=10).token
    client.delete(Keys(prefix).token)
    assert store.lease("you", now=later(20), ttl=10).token == before + 1
    assert store.lease("me", "other", ttl=10).token == before + 2


@pytest.mark.parametrize("ttl", [-1, float("nan"), float("inf"), 1e300, "60"])
def test_a_ttl_must_be_a_positive_number(ttl):
    with pytest.raises(ConfigError, match="ttl"):
        RedisStorage(shared_redis(), ttl=ttl)


# Indexes


class Stopped(Exception):
    """The process died here."""


@pytest.mark.parametrize("url", [shared_redis, shared_cluster], ids=["server", "cluster"])
def test_a_thread_of_a_process_that_died_before_listing_it_is_listed_by_the_next_commit(url, prefix, monkeypatch):
    def die(*_: object) -> None:
        raise Stopped

    with opened(url(), prefix=prefix) as dying, opened(url(), prefix=prefix) as store:
        made = full_commit(user="ann")
        with monkeypatch.context() as patch:
            patch.setattr(Caller, "call_all", die)
            with pytest.raises(Stopped):
                dying.apply(made)
        assert store.known().thread_id == "t"
        # It was never acknowledged, so the index may lack it. The next acknowledged commit lists
        # it.
        assert store.apply(made).repeated
        assert store.thread_ids(user="ann") == ["t"] == store.thread_ids()


def test_a_reader_that_found_a_thread_gone_does_not_unlist_its_successor(prefix):
    with opened(shared_redis(), prefix=prefix) as store, opened(shared_redis(), prefix=prefix) as reader:
        store.apply_all(full_commit(), deletion())

        async def race() -> None:
            answer = Caller.call_all
            stopped, go_on = asyncio.Event(), asyncio.Event()

            async def slow(self: Caller, given: Any) -> Any:
                if given and given[0][0] is UNLIST:
                    stopped.set()
                    await go_on.wait()
                return await answer(self, given)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Caller, "call_all", slow)
                listed = asyncio.create_task(other.threads(ThreadQuery(user=None)))
                await stopped.wait()
                # The reader has found no thread, and is about to remove its entry.
                (made,) = await other.apply([full_commit()])
                assert isinstance(made, Applied)
                go_on.set()
                assert await listed == []
            assert [found.thread_id for found in await other.threads(ThreadQuery(user=None))] == ["t"]
            assert [found.thread_id for found in await other.threads(ThreadQuery(user=ANY_USER))] == ["t"]

        other = reader.storage
        reader.run(race())


def test_a_process_forgets_its_index_entries_of_a_deleted_thread(prefix):
    with opened(shared_redis(), prefix=prefix) as one, opened(shared_redis(), prefix=prefix) as other:
        one.apply(full_commit())
        other.apply(deletion())
        assert other.threads() == []
        one.apply(full_commit())
        assert one.thread_ids() == other.thread_ids() == ["t"]


def test_an_owner_who_gets_a_thread_back_has_it_listed(prefix):
    with opened(shared_redis(), prefix=prefix) as one, opened(shared_redis(), prefix=prefix) as other:
        one.apply(full_commit(user="ann"))
        other.apply(commit(user=ANY_USER, thread=fields(user_id="bob")))
        assert other.thread_ids(user="ann") == []
        assert other.thread_ids(user="bob") == ["t"]
        other.apply(commit(user=ANY_USER, thread=fields(user_id="ann")))
        one.apply(commit(user="ann", messages=[message("m9")]))
        assert one.thread_ids(user="ann") == ["t"]
        assert one.thread_ids(user="bob") == []


def test_pages_of_many_threads_are_exact_though_bounds_are_not(store):
    names = [f"t{number:03}" for number in range(300)]
    store.outcomes(*(commit(name, user="ann", messages=[message("m")], at=later(at)) for at, name in enumerate(names)))
    # All are within a minute or two of each other, and their bounds are in another order.
    for at, name in enumerate(names[::7]):
        store.apply(commit(name, user="ann", messages=[message("n")], at=later(1000 - at)))
    expected = [*names[::7], *(name for name in reversed(names) if name not in names[::7])]
    assert store.thread_ids(user="ann") == store.thread_ids() == expected
    for offset in range(0, 300, 45):
        assert store.thread_ids(user="ann", offset=offset, limit=45) == expected[offset : offset + 45]
        assert store.thread_ids(offset=offset, limit=45) == expected[offset : offset + 45]
    assert store.thread_ids(user="ann", search="t29", limit=3) == [name for name in expected if "t29" in name][:3]


@pytest.mark.parametrize("url", [shared_redis, shared_cluster], ids=["server", "cluster"])
def test_reclaiming_lists_existing_threads_and_unlists_missing_ones(url, prefix):
    keys = Keys(prefix)
    with opened(url(), prefix=prefix) as store:
        store.apply_all(*(full_commit(f"t{number}", user=f"u{number % 3}") for number in range(30)))
        before = store.thread_ids()
        storage = store.storage
        assert isinstance(storage, RedisStorage)

        async def damage() -> None:
            caller = (await storage._session()).caller
            for index in [*keys.indexes(ANY_USER), keys.of_user("u1")]:
                await caller.command(index, "DEL", index)
            await caller.command(keys.of_user("gone"), "ZADD", keys.of_user("gone"), 10**12, "not there")

        store.run(damage())
        assert store.thread_ids() == [] == store.thread_ids(user="u1")
        store.run(storage.reclaim())
        assert sorted(store.thread_ids()) == sorted(before)
        assert len(store.thread_ids(user="u1")) == 10

        async def leftover() -> Any:
            return await (await storage._session()).caller.command(keys.of_user("gone"), "EXISTS", keys.of_user("gone"))

        assert store.run(leftover()) == 0


# Memory


def test_a_commit_is_whole_or_not_at_all_when_memory_is_full(prefix):
    limited = RedisServer({"maxmemory": "8mb", "maxmemory-policy": "noeviction"})
    with limited as server, opened(server.url, prefix=prefix) as store:
        store.apply(full_commit())
        written, error = 0, None
        while error is None:
            new = commit(
                values=row(3 + written, data=bytes(20_000)),
                checkpoint=checkpoint(f"d{written}", covers=[(0, 4 + written)]),
                attachments=[attachment("c1", f"k{written}")],
                messages=[message(f"n{written}", "x" * 1000)],
            )
            try:
                store.apply(new)
                written += 1
            except StorageError as failed:
                error = failed
        assert "maxmemory" in str(error)
        assert not isinstance(error, TransientStorageError)
        assert written > 50
        # A refused commit leaves nothing, even if it removes something first.
        before = store.everything()
        swap = commit(remove=Removal(messages=("m1",), checkpoints=(("", "c1"),)), messages=[message("m1", "again")])
        anew = full_commit(remove=Removal(thread=True))
        plain = commit(values=row(3 + written), checkpoint=checkpoint("plain"))
        for refused in (new, swap, anew, plain, full_commit("other"), commit("fork", fork=fork_of("t"))):
            with pytest.raises(StorageError, match="maxmemory"):
                store.apply(refused)
        assert store.everything() == before
        # Commits that only remove are accepted, and make room.
        store.apply(commit(remove=Removal(checkpoints=(("", "c1"),), messages=("m1",))))
        store.apply(deletion())
        # The memory of a deleted thread is freed in the background.
        wait_until(lambda: server.call("INFO", "memory")["used_memory"] < 6_000_000)
        store.apply(full_commit())
        assert store.thread_ids() == ["t"]


def test_a_commit_that_was_applied_as_memory_ran_full_is_acknowledged_and_listed(own, prefix, monkeypatch):
    """The server's memory is full after the commit, but the indexes must still be written."""
    call_all = Caller.call_all

    async def full(self: Caller, given: Any) -> Any:
        own.call("CONFIG", "SET", "maxmemory", 1)
        return await call_all(self, given)

    with opened(own.url, prefix=prefix) as store:
        try:
            with monkeypatch.context() as patch:
                patch.setattr(Caller, "call_all", full)
                store.apply(full_commit(user="ann", journal=b"entry"))
            with pytest.raises(StorageError, match="maxmemory"):
                store.apply(full_commit("other"))
            assert store.thread_ids(user="ann") == ["t"] == store.thread_ids()
            assert [entry.data for entry in store.journal()] == [b"entry"]
        finally:
            own.call("CONFIG", "SET", "maxmemory", 0)


def test_a_threads_lease_is_taken_and_returned_when_memory_is_full(own, prefix):
    with opened(own.url, prefix=prefix) as store:
        store.apply(full_commit())
        own.call("CONFIG", "SET", "maxmemory", 1)
        try:
            first = store.lease("me", ttl=30)
            assert store.lease("me", now=later(1), ttl=30).token == first.token
            store.apply(commit(fence=first.token, remove=Removal(messages=("m1",))))
            store.lease("me", now=later(2), ttl=0)
            assert store.lease("you", now=later(3), ttl=30).token > first.token
            # Without a thread, a lease would need a new key.
            with pytest.raises(StorageError, match="maxmemory"):
                store.lease("me", "other")
        finally:
            own.call("CONFIG", "SET", "maxmemory", 0)


# Warnings


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "clew.redis"]


def test_a_server_without_appendonly_is_warned_of_once(prefix, caplog):
    caplog.set_level(logging.WARNING, "clew.redis")
    with RedisServer() as server:
        for _ in range(2):
            with opened(server.url, prefix=prefix) as store:
                store.run(store.storage.setup())
                store.apply(full_commit("of " + new_id()))
        (text,) = warned(caplog)
        assert "appendonly" in text
        assert str(server.port) in text


def test_a_server_with_appendonly_and_without_eviction_needs_no_warning(prefix, caplog):
    caplog.set_level(logging.WARNING, "clew.redis")
    with RedisServer({"appendonly": "yes"}) as server, opened(server.url, prefix=prefix):
        assert warned(caplog) == []


@pytest.mark.parametrize(
    ("policy", "ttl", "told"),
    [("allkeys-lru", None, True), ("volatile-lru", None, False), ("volatile-lru", 60, True), ("noeviction", 60, False)],
)
def test_a_server_that_may_evict_threads_is_warned_of(prefix, caplog, policy, ttl, told):
    caplog.set_level(logging.WARNING, "clew.redis")
    server = RedisServer({"appendonly": "yes", "maxmemory-policy": policy})
    with server, opened(server.url, prefix=prefix, ttl=ttl):
        assert any(policy in text for text in warned(caplog)) == told


# Stored data


def test_a_store_of_a_newer_version_is_not_touched(prefix, client):
    client.set(Keys(prefix).meta, b"clew 99")
    with pytest.raises(SchemaVersionError, match="upgrade"):
        asyncio.run(_set_up(prefix))


def test_a_prefix_that_is_in_use_is_refused(prefix, client):
    client.set(Keys(prefix).meta, b"somebody else's")
    with pytest.raises(SchemaVersionError, match="prefix"):
        asyncio.run(_set_up(prefix))


def test_another_programs_key_is_reported_and_not_touched(store, prefix, client):
    key = Keys(prefix).thread("t")
    client.set(key, b"not a thread")
    with pytest.raises(StorageError, match="prefix of its own"):
        store.apply(full_commit())
    assert client.get(key) == b"not a thread"
    store.apply(full_commit("u"))


async def _set_up(prefix: str, url: str | None = None, **options: Any) -> None:
    storage = RedisStorage(url or shared_redis(), prefix=prefix, **options)
    try:
        await storage.setup()
    finally:
        await storage.close()


def test_many_set_up_at_once(prefix):
    async def all_at_once() -> None:
        await asyncio.gather(*(_set_up(prefix) for _ in range(8)))

    asyncio.run(all_at_once())


# Connections


def test_two_databases_are_two_stores(prefix, own):
    with opened(f"{own.url}/1", prefix=prefix) as one, opened(own.url, db=2, prefix=prefix) as two:
        one.apply(full_commit())
        assert two.threads() == []
        assert one.thread_ids() == ["t"]


def test_a_missing_database_is_a_config_error(prefix, own):
    with pytest.raises(ConfigError, match="database"):
        asyncio.run(_set_up(prefix, f"{own.url}/99"))


def test_a_wrong_password_is_reported_at_once():
    with RedisServer({"requirepass": "right"}) as server:
        with opened(server.url, password="right") as store:
            store.apply(full_commit())
        for options in ({"password": "wrong"}, {}):
            with pytest.raises(StorageError, match="password") as caught:
                asyncio.run(_set_up("clew", server.url, **options))
            assert not isinstance(caught.value, TransientStorageError)
        with opened(server.url.replace("redis://", "redis://:right@")) as store:
            assert store.thread_ids() == ["t"]


def test_a_user_needs_the_commands_that_the_docs_name(own, prefix):
    text = (Path(__file__).parents[2] / "docs/redis.md").read_text(encoding="utf-8")
    named = re.findall("`([A-Z]+)`", text.partition("The user needs these commands:")[2].partition("in a cluster")[0])
    own.call("ACL", "SETUSER", prefix, "on", ">word", "~*", "-@all", "+@sortedset", *(f"+{name}" for name in named))
    url = f"redis://{prefix}:word@127.0.0.1:{own.port}"
    for db in (0, 2):
        with opened(f"{url}/{db}", prefix=prefix) as store:
            store.apply_all(full_commit(journal=b"entry"), commit("f", fork=fork_of("t")), deletion("f"))
            store.lease("me")
            assert store.thread_ids(search="t") == ["t"]
            store.run(store.storage.ping())
            store.run(store.storage.trim(store.journal()))
            store.run(store.storage.reclaim())
            assert store.run(store.storage.stats(ANY_USER)).stored_bytes > 0
            store.apply(deletion())


def test_a_server_is_reached_by_its_socket_file(prefix, tmp_path):
    path = tmp_path / "redis.sock"
    with RedisServer({"unixsocket": path}), opened(f"unix://{path}", prefix=prefix) as store:
        store.apply(full_commit())
        assert store.thread_ids() == ["t"]


def test_a_server_is_named_by_host_and_port(prefix, own):
    async def ping() -> None:
        storage = RedisStorage(host="127.0.0.1", port=own.port, prefix=prefix)
        await storage.ping()
        await storage.close()

    asyncio.run(ping())


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://host", {}),
        ("redis+what://host", {}),
        ("redis+sentinel://host:1", {}),
        ("redis://one:1,two:2", {}),
        (None, {}),
        ("redis://host", {"host": "other"}),
        ("redis://host", {"read_timeout": 0}),
        ("redis://host", {"pool_size": 0}),
        ("redis://host?foo=bar", {}),
        ("redis+cluster://one,two?foo=bar", {}),
        ("redis+sentinel://host/name?foo=bar", {}),
        ("redis://host?socket_timeout=soon", {}),
        ("redis://host?retry=3", {}),
        ("redis://host:port", {}),
        ("redis+cluster://one:1,two:port", {}),
        ("redis+sentinel://one:1,::1/name", {}),
        ("redis://[::1", {}),
        ("redis://host", {"pool_size": "8"}),
        ("redis://host", {"pool_size": 1.5}),
        ("redis://host", {"min_idle": -1}),
        ("redis://host", {"retries": -1}),
        ("redis://host", {"health_check_interval": -1}),
        ("redis://host", {"read_timeout": "5"}),
        ("redis://host", {"write_timeout": float("inf")}),
        ("redis://host", {"dial_timeout": float("nan")}),
        ("redis://host", {"db": "0"}),
        ("redis://host", {"prefix": 5}),
        (None, {"host": "host", "port": "6379"}),
    ],
)
def test_settings_that_make_no_sense_are_refused(url, options):
    with pytest.raises(ConfigError) as refused:
        RedisStorage(url, **options)
    named = "foo" if url and "?foo" in url else ["", *options][-1]
    assert named in str(refused.value)


@pytest.mark.parametrize(
    "url", ["redis+cluster://[::1]:7000,[fe80::2]", "rediss+cluster://user:word@[::1]:7000,[fe80::2]:6379"]
)
def test_addresses_of_ipv6_lose_their_brackets(url):
    address = Address(url, {}, cluster=None)
    assert address.first == ["::1:7000", "fe80::2:6379"]


@pytest.mark.parametrize("client", ["redis://localhost", redis.Redis(), None], ids=["URL", "sync client", "nothing"])
def test_a_sync_client_is_refused(client):
    with pytest.raises(ConfigError, match=r"redis\.asyncio"):
        RedisStorage.from_client(client)


def test_a_closed_storage_says_so(prefix):
    async def use() -> None:
        storage = RedisStorage(shared_redis(), prefix=prefix)
        await storage.setup()
        await storage.close()
        await storage.close()
        with pytest.raises(StorageError, match="closed"):
            await storage.ping()

    asyncio.run(use())


def test_an_existing_client_is_used_and_not_closed(prefix):
    async def use() -> None:
        async with Redis.from_url(shared_redis(), decode_responses=True) as client:
            storage = RedisStorage.from_client(client, prefix=prefix)
            (outcome,) = await storage.apply([full_commit()])
            assert isinstance(outcome, Applied)
            await storage.close()
            assert await client.ping()

    asyncio.run(use())


def test_an_existing_cluster_client_is_used_and_not_closed(prefix):
    async def use() -> None:
        async with ClusterClient.from_url(shared_cluster()) as client:
            storage = RedisStorage.from_client(client, prefix=prefix)
            for number in range(20):
                (outcome,) = await storage.apply([full_commit(f"t{number}")])
                assert isinstance(outcome, Applied)
            assert len(await storage.threads(ThreadQuery(user=None))) == 20
            await storage.close()
            assert await client.ping()

    asyncio.run(use())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_there_are_no_more_connections_than_the_pool_has_room_for(own, prefix, size):
    name = f"size-{size}"

    async def use() -> int:
        storage = RedisStorage(f"{own.url}?client_name={name}", prefix=prefix, pool_size=size, min_idle=5)
        query = CheckpointQuery(thread_id="t", user=None)
        commits = [storage.apply([commit(messages=[message(f"m{number}")])]) for number in range(20)]
        await asyncio.gather(*commits, *(storage.checkpoints(query) for _ in range(20)))
        count = own.call("CLIENT", "LIST").count(f"name={name} ".encode())
        await storage.close()
        return int(count)

    assert asyncio.run(use()) == size


def test_a_storage_goes_on_in_another_event_loop(prefix):
    storage = RedisStorage(shared_redis(), prefix=prefix)

    async def save(number: int) -> int:
        (outcome,) = await storage.apply([commit(checkpoint=checkpoint(f"c{number}"))])
        assert isinstance(outcome, Applied)
        return outcome.sequence

    assert [asyncio.run(save(number)) for number in range(3)] == [1, 2, 3]
    asyncio.run(storage.close())
    # Each loop closed its connections: an open socket would raise a ResourceWarning here.
    gc.collect()


def _save_in_child(storage: RedisStorage, number: int) -> None:
    async def save() -> None:
        (outcome,) = await storage.apply([commit(checkpoint=checkpoint(f"child {number}"))])
        assert isinstance(outcome, Applied)
        await storage.close()

    asyncio.run(save())


def test_a_forked_process_has_connections_of_its_own(prefix):
    with opened(shared_redis(), prefix=prefix) as store:
        store.apply(commit(checkpoint=checkpoint("parent")))
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=_save_in_child, args=(store.storage, number)) for number in range(3)]
        for child in children:
            child.start()
        for number in range(20):
            store.apply(commit(checkpoint=checkpoint(f"c{number}")))
        for child in children:
            child.join(120)
            assert child.exitcode == 0
        assert len(store.checkpoints()) == 24


def test_a_cancelled_caller_leaves_the_connection_to_the_others(prefix):
    async def use() -> None:
        storage = RedisStorage(shared_redis(), prefix=prefix)
        await storage.apply([full_commit()])
        query = CheckpointQuery(thread_id="t", user=None)
        for _ in range(20):
            tasks = [asyncio.create_task(storage.checkpoints(query)) for _ in range(10)]
            commits = [asyncio.create_task(storage.apply([commit(messages=[message(new_id())])])) for _ in range(10)]
            await asyncio.sleep(0)
            for task in [*tasks[::2], *commits[::2]]:
                task.cancel()
            pages = await asyncio.gather(*tasks[1::2])
            assert all(page.checkpoints[0].checkpoint_id == "c1" for page in pages)
            assert all(isinstance(outcome, Applied) for (outcome,) in await asyncio.gather(*commits[1::2]))
        await storage.close()

    asyncio.run(use())


def test_a_checkpointer_on_redis_serves_sync_and_async_code(prefix):
    with BaseCheckpointer(RedisStorage(shared_redis(), prefix=prefix)) as memory:
        memory.put_state("trip", {"city": "Lisbon", "days": [1, 2]})

        async def more() -> Any:
            await memory.aupdate_state("trip", append={"days": [3]})
            return await memory.aget_state("trip")

        assert asyncio.run(more()) == {"city": "Lisbon", "days": [1, 2, 3]}
        assert memory.get_state("trip") == {"city": "Lisbon", "days": [1, 2, 3]}


# Long threads


def test_a_search_of_a_very_long_thread_takes_several_calls(store, monkeypatch):
    monkeypatch.setattr("clew.storage.redis.queries.SCANNED_AT_ONCE", 200)
    many = messages(*("needle" if number % 100 == 99 else "hay" for number in range(1000)))
    store.apply(commit(messages=many))
    found = [each.message_id for each in many if each.text == "needle"]
    assert store.message_ids(search="needle") == found
    assert store.message_ids(search="needle", offset=3, limit=4) == found[3:7]
    assert store.message_ids(search="needle", offset=9, limit=4) == found[9:]


def test_totals_of_a_long_thread_take_several_calls(store, monkeypatch):
    monkeypatch.setattr("clew.storage.redis.thread_index._COUNTED_AT_ONCE", 50)
    store.apply(commit(messages=messages(*map(str, range(300)))))
    store.outcomes(*chain(120))
    (total,) = store.stats().by_day.values()
    assert (total.messages, total.checkpoints) == (300, 120)
