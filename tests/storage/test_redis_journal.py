"""The journal in Redis: its cost, its durability, and that every acknowledged entry is found."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.errors import StorageError
from clew.ids import new_id
from clew.model.commit import After, Applied, Begin, Removal
from clew.model.queries import JournalQuery
from clew.storage.protocol import ENDS_KEPT, StaleBasisError
from clew.storage.redis import RedisStorage, journal
from clew.storage.redis.caller import Caller
from clew.storage.redis.journal import shares
from clew.storage.redis.keys import Keys
from clew.storage.redis.scripts import UNLIST
from clew.testing.build import checkpoint, commit, deletion, message, row
from clew.testing.contract.base import full_commit
from clew.testing.driver import DrivenStorage
from clew.testing.servers import RedisServer, shared_cluster, shared_redis
from clew.testing.servers.redis import wait_until
from tests.storage.redis_support import opened

DAY = 86_400_000
EITHER = pytest.mark.parametrize("url", [shared_redis, shared_cluster], ids=["server", "cluster"])


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


def trim(store: DrivenStorage, **query: Any) -> None:
    store.run(store.storage.trim(store.journal(**query)))


# Cost


def calls(client: Any) -> int:
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_a_commit_with_an_entry_is_one_call_though_earlier_entries_were_trimmed(prefix):
    with RedisServer() as server, opened(server.url, prefix=prefix) as store:
        store.apply(full_commit(journal=b"j"))
        trim(store)
        with redis.Redis.from_url(server.url) as client:
            for number in range(3):
                client.config_resetstat()
                store.apply(commit(values=row(3 + number), checkpoint=checkpoint(f"d{number}"), journal=b"j"))
                assert calls(client) == 1
                trim(store)


def test_entries_of_a_thread_are_in_its_key(store, prefix, client):
    keys = Keys(prefix)
    store.apply(full_commit("a", user="ann", journal=b"j"))
    found = {keys.meta, keys.thread("a"), keys.of_user("ann"), keys.bucket("a"), keys.journal("a")}
    assert set(client.scan_iter(match=f"{prefix}:*")) == found


@given(st.dictionaries(st.text(), st.tuples(st.integers(1, 2000), st.integers(0, 50))), st.integers(1, 1000))
def test_a_page_is_as_full_as_it_can_be_and_reads_little_more_than_it_needs(pending, limit):
    given = shares(pending, limit)
    assert all(0 < count <= pending[name][0] for name, count in given.items())
    there = sum(count for count, _ in pending.values())
    assert min(there, limit) <= sum(given.values()) < 3 * limit
    oldest = sorted(position for _, position in pending.values())[:limit]
    assert sorted(pending[name][1] for name in given) == oldest


def test_many_threads_with_entries_are_read_and_counted(store, monkeypatch):
    monkeypatch.setattr(journal, "FEW", 10)
    names = [f"t{number}" for number in range(60)]
    store.outcomes(*(commit(name, messages=[message("m")], journal=b"1") for name in names))
    store.outcomes(*(commit("t7", messages=[message(f"m{number}")], journal=b"2") for number in range(30)))
    seen: list[tuple[str, bytes]] = []
    left = 90
    while entries := store.journal(limit=7):
        assert len(entries) == min(7, left)
        assert store.journal_count() == left
        store.run(store.storage.trim(entries))
        left -= len(entries)
        seen += [(each.thread_id, each.commit_id) for each in entries]
    assert (left, len(set(seen)), {name for name, _ in seen}) == (0, 90, set(names))
    # An entry that comes after all were trimmed is found at once, too.
    store.apply(commit("t3", messages=[message("late")], journal=b"3"))
    assert [each.thread_id for each in store.journal()] == ["t3"]


# Finding


class Stopped(Exception):
    """The process died here."""


def die(*_: object) -> None:
    raise Stopped


@EITHER
@pytest.mark.parametrize("way", ["again", "next", "swept", "reclaimed"])
def test_an_entry_of_a_process_that_died_before_indexing_it_is_found(url, way, prefix, monkeypatch):
    monkeypatch.setattr(journal, "EVERY", 0)
    with opened(url(), prefix=prefix) as dying, opened(url(), prefix=prefix) as store:
        made = full_commit(journal=b"j")
        with monkeypatch.context() as patch:
            patch.setattr(Caller, "call_all", die)
            with pytest.raises(Stopped):
                dying.apply(made)
        assert [each.data for each in store.journal(thread_id="t")] == [b"j"]
        if way == "again":
            assert store.apply(made).repeated
        elif way == "next":
            store.apply(commit(messages=[message("m2")], journal=b"k"))
        elif way == "reclaimed":
            store.run(store.storage.reclaim())
        else:
            # The servers have keys of other tests, which the sweep passes too.
            wait_until(lambda: store.journal() != [])
        assert [each.data for each in store.journal()][:1] == [b"j"]
        assert store.journal_count() == (2 if way == "next" else 1)


@EITHER
def test_a_thread_that_is_quiet_leaves_the_index_and_comes_back(url, prefix, monkeypatch):
    monkeypatch.setattr(journal, "QUIET_FOR", 0)
    index = Keys(prefix).journal("t")
    with opened(url(), prefix=prefix) as store, opened(url(), prefix=prefix) as other:
        assert isinstance(other.storage, RedisStorage)
        caller = other.run(other.storage._session()).caller
        for number in range(4):
            store.apply(commit(messages=[message(f"m{number}")], journal=b"%d" % number))
            assert [each.data for each in other.journal()] == [b"%d" % number]
            # The thread tells the writer that another process has removed it from the index.
            trim(other)
            assert other.journal() == []
            assert other.run(caller.command(index, "ZCARD", index)) == 0


def test_an_entry_that_comes_while_its_thread_is_removed_from_the_index_is_found(prefix, monkeypatch):
    monkeypatch.setattr(journal, "QUIET_FOR", 0)
    with opened(shared_redis(), prefix=prefix) as store, opened(shared_redis(), prefix=prefix) as writer:
        writer.apply(full_commit(journal=b"1"))
        trim(store)

        async def race() -> None:
            answer = Caller.call_all

            async def slow(self: Caller, given: Any) -> Any:
                if given and given[0][0] is UNLIST and not raced:
                    # The thread was found without entries, and is about to be removed.
                    raced.append(await asyncio.to_thread(writer.apply, late))
                return await answer(self, given)

            raced: list[Applied] = []
            monkeypatch.setattr(Caller, "call_all", slow)
            assert (await store.storage.journal(JournalQuery())).entries == ()
            assert raced
            found = await store.storage.journal(JournalQuery())
            assert [each.commit_id for each in found.entries] == [late.commit_id]

        late = commit(messages=[message("late")], journal=b"2")
        store.run(race())


# Durability


def test_the_end_of_a_deleted_thread_is_forgotten_after_a_while(prefix, client):
    key, kept = Keys(prefix).thread("t"), 1000 * ENDS_KEPT
    late = commit(messages=[message("m")], after=After(None))
    with opened(shared_redis(), prefix=prefix) as store:
        # Shipped, with and without a thread, and written.
        store.apply(commit(commit_id="a", remove=Removal(), after=After(None)))
        assert kept - 60_000 < client.pttl(key) <= kept
        store.apply(commit(commit_id="b", messages=[message("m")], after=After("a")))
        assert client.pttl(key) == -1
        store.apply(commit(commit_id="c", remove=Removal(thread=True), after=After("b")))
        assert kept - 60_000 < client.pttl(key) <= kept
        # A lease does not shorten it.
        store.lease("me", "t", ttl=1)
        assert kept - 60_000 < client.pttl(key)
        store.apply(commit(commit_id="d", remove=Removal(), journal=b"j"))
        assert client.pttl(key) == -1
        trim(store)
        assert kept - 60_000 < client.pttl(key)
        # It outlives a thread outside the chain, too.
        store.apply_all(commit(messages=[message("m")]), deletion())
        assert kept - 60_000 < client.pttl(key)
        store.refused(late, StaleBasisError)
        client.pexpire(key, 1)
        wait_until(lambda: not client.exists(key))
        store.apply(late)


def test_a_thread_with_entries_does_not_expire_until_they_are_trimmed(prefix, client):
    key = Keys(prefix).thread("t")
    with opened(shared_redis(), prefix=prefix, ttl=3600) as store:
        store.apply(full_commit())
        assert 3_590_000 < client.pttl(key) <= 3_600_000
        for number, noted in enumerate((b"1", b"2", None)):
            # By the fast path and by the general one.
            store.apply(commit(values=row(3 + number), checkpoint=checkpoint(f"d{number}"), journal=noted))
            assert client.pttl(key) == -1
            store.apply(commit(messages=[message(f"d{number}")], journal=noted))
            assert client.pttl(key) == -1
    with opened(shared_redis(), prefix=prefix) as store:
        trim(store, limit=1)
        assert client.pttl(key) == -1
        trim(store)
        assert 3_590_000 < client.pttl(key) <= 3_600_000
        # A writer without a ttl removes the expiry.
        store.apply(commit(messages=[message("m9")], journal=b"3"))
        trim(store)
        assert client.pttl(key) == -1


@pytest.mark.parametrize("noted", [b"gone", None])
def test_a_deleted_thread_leaves_its_entries_and_then_its_last_position_for_a_while(store, prefix, client, noted):
    # A deletion that is in the journal also leaves the end of the chain, for a week.
    key, left, stays = Keys(prefix).thread("t"), 2 if noted else 1, 7 * DAY if noted else DAY
    store.apply(full_commit(journal=b"1"))
    (first,) = store.journal()
    store.apply(commit(commit_id="end", remove=Removal(thread=True), journal=noted))
    assert (store.threads(), client.pttl(key)) == ([], -1)
    assert [each.data for each in store.journal()] == [b"1", *filter(None, [noted])]
    store.run(store.storage.reclaim())
    assert (store.threads(), store.stats().by_thread) == ([], {})
    last = store.journal()[-1]
    trim(store)
    assert (client.zcard(key), store.journal()) == (left, [])
    assert stays - 10_000 < client.pttl(key) <= stays
    store.apply(full_commit(journal=b"2"))
    assert client.pttl(key) == -1
    (again,) = store.journal()
    assert first.position <= last.position < again.position
    assert again.after == ("end" if noted else None)
    trim(store)
    store.apply(deletion())
    assert (client.zcard(key), stays - 10_000 < client.pttl(key) <= stays) == (left, True)


def test_a_lease_without_a_thread_does_not_expire_the_journal(store, prefix, client):
    key = Keys(prefix).thread("t")
    store.apply(commit(remove=Removal(thread=True), journal=b"1"))
    token = store.lease("me", ttl=30).token
    assert client.pttl(key) == -1
    trim(store)
    assert client.pttl(key) > DAY
    assert store.lease("me", ttl=30).token == token


@pytest.mark.parametrize("trimmed", [False, True])
def test_positions_grow_though_the_clock_goes_back(store, prefix, client, trimmed):
    store.apply(full_commit(journal=b"1"))
    (entry,) = store.journal()
    # As if the clock had been a day ahead when the entry was written.
    key, ahead = Keys(prefix).thread("t"), entry.position + DAY * 1000
    (stored,) = client.zrangebyscore(key, 2**51 + 1, 2**52 - 1)
    client.zrem(key, stored)
    client.zadd(key, {stored[:1] + struct.pack(">Q", ahead) + stored[9:]: 2**51 + ahead})
    if trimmed:
        trim(store)
        store.apply(deletion())
    for number in range(1, 4):
        store.apply(commit(messages=[message(f"n{number}")], journal=b"2"))
        assert store.journal()[-1].position == ahead + number


def test_trimming_at_positions_that_no_entry_has_spoils_nothing(store):
    store.apply(full_commit(journal=b"1"))
    entry = store.journal()[0]
    for position in (0, -5, 2**51, 2**52 - 2**51 + 1):
        store.run(store.storage.trim([replace(entry, position=position)]))
    assert store.journal() == [entry]
    assert store.checkpoint_ids() == ["c1"]


def test_a_full_memory_refuses_entries_whole(prefix):
    limited = RedisServer({"maxmemory": "8mb", "maxmemory-policy": "noeviction"})
    with limited as server, opened(server.url, prefix=prefix) as store:
        error, count = None, 0
        while error is None:
            new = commit(
                commit_id=f"c{count}",
                values=row(count),
                checkpoint=checkpoint(f"c{count}"),
                after=After(f"c{count - 1}" if count else None),
                journal=bytes(20_000),
            )
            try:
                store.apply(new)
                count += 1
            except StorageError as failed:
                error = failed
        assert "maxmemory" in str(error)
        entries = store.journal(limit=1000)
        assert [each.commit_id for each in entries] == [f"c{number}" for number in range(count)]
        # A deletion makes room, and leaves an entry.
        gone = commit(commit_id="gone", remove=Removal(thread=True), after=After(f"c{count - 1}"), journal=b"")
        store.apply(gone)
        assert store.journal(limit=1000)[-1].commit_id == "gone"
        store.run(store.storage.trim(entries))
        assert [each.commit_id for each in store.journal()] == ["gone"]


# Chains


def test_the_fast_path_continues_chains_like_the_general_one(store):
    store.apply(full_commit(commit_id="a", journal=b"a"))
    last: str | None = "a"
    for number in range(12):
        for wrong in {"a", "b", None} - {last}:
            refused = commit(values=row(3 + number), checkpoint=checkpoint("x"), after=After(wrong), journal=b"x")
            assert store.refused(refused, StaleBasisError).facts["actual"] == last
        chained = number % 4 != 3
        name = f"d{number}"
        store.apply(
            commit(
                commit_id=name if number % 2 else f"by {name}",
                values=row(3 + number),
                checkpoint=checkpoint(name),
                after=After(last) if chained and number % 3 else None,
                journal=b"j" if chained else None,
            )
        )
        last = (name if number % 2 else f"by {name}") if chained else None
    found = [(each.commit_id, each.after) for each in store.journal()]
    assert found == [
        ("a", None),
        ("by d0", "a"),
        ("d1", "by d0"),
        ("by d2", "d1"),
        ("by d4", None),
        ("d5", "by d4"),
        ("by d6", "d5"),
        ("by d8", None),
        ("d9", "by d8"),
        ("by d10", "d9"),
    ]


def test_a_commit_by_a_version_without_chains_ends_the_chain(store, prefix, client):
    store.apply(full_commit(commit_id="a", journal=b"a"))
    # Such a version writes the header without the flag, and leaves the chain's member.
    key = Keys(prefix).thread("t")
    (header,) = client.zrangebyscore(key, 0, 0)
    assert header[98] == 2
    client.zrem(key, header)
    client.zadd(key, {header[:98] + b"\0" + header[99:]: 0})
    for values in (row(3), None):
        new = checkpoint(f"c{values is None}") if values else None
        store.refused(commit(values=values, checkpoint=new, after=After("a")), StaleBasisError)
    store.apply(commit(commit_id="b", messages=[message("m2")], after=After(None)))
    store.apply(commit(values=row(3), checkpoint=checkpoint("c2"), after=After("b")))


def test_an_incarnation_that_is_too_long_is_refused(store):
    outcomes = store.outcomes(
        full_commit("a", begin=Begin(incarnation="x" * 21)), full_commit("b", begin=Begin(incarnation="ünï"))
    )
    assert isinstance(outcomes[0], StorageError)
    assert isinstance(outcomes[1], Applied)
    assert outcomes[1].basis is not None
    assert outcomes[1].basis.incarnation == "ünï"
    assert store.apply(commit("b", basis=outcomes[1].basis, checkpoint=checkpoint("c2"))).basis == outcomes[1].basis
