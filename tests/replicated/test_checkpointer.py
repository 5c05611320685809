"""`DistributedCheckpointer`: states survive failovers, merges and restarts unchanged."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import clew
from clew.errors import ConfigError
from clew.storage.execution import pause
from clew.storage.memory import MemoryStorage
from clew.storage.wrapper import StorageWrapper
from clew.testing import FaultyStorage
from clew.testing.faults import Plan
from tests.replicated.support import wait_until
from tests.storage.test_contract_memory import CopyingStorage

FAST: dict[str, Any] = {"health_check_interval": 0.05, "failback_delay": 0.0}


class Switched:
    """A checkpointer in memory whose store can be switched off."""

    def __init__(self) -> None:
        self.down = False
        self.inner = MemoryStorage()
        self.checkpointer = clew.BaseCheckpointer(FaultyStorage(self.inner, self._plan()))

    def _plan(self) -> Plan:
        return lambda kind: ("before apply" if kind == "apply" else "before read") if self.down else None


@pytest.fixture
def stores():
    return Switched(), Switched()


@pytest.fixture(params=["sync", "async"])
def memory(request, stores):
    primary, secondary = stores
    made = clew.DistributedCheckpointer(
        primary.checkpointer, secondary.checkpointer, replication_mode=request.param, **FAST
    )
    with made:
        yield made


def settled(memory):
    status = memory.status()
    return not status.failed_over and not status.replication_queue_size and status.primary_healthy


def messages(count):
    return [{"role": "user", "content": f"message {number} " + "x" * 300} for number in range(count)]


def test_a_conversation_goes_on_through_failover_and_failback(memory, stores):
    primary, secondary = stores
    for turn in range(1, 40):
        memory.put_state("t", {"messages": messages(turn)})
        if turn == 9:
            wait_until(lambda: settled(memory))
        primary.down = 10 <= turn < 20
        if turn in (15, 25):
            assert memory.get_state("t") == {"messages": messages(turn)}
    wait_until(lambda: settled(memory))
    assert memory.get_state("t") == {"messages": messages(39)}
    assert [len(each.state["messages"]) for each in memory.get_history("t", limit=None)] == [*range(39, 0, -1)]
    assert memory.verify().ok
    assert clew.BaseCheckpointer(secondary.inner).verify().ok
    assert clew.BaseCheckpointer(secondary.inner).get_state("t") == {"messages": messages(39)}


def test_what_only_the_primary_had_becomes_a_sibling_when_it_is_back(stores):
    primary, secondary = stores
    with clew.DistributedCheckpointer(primary.checkpointer, secondary.checkpointer, **FAST) as memory:
        memory.put_state("t", {"messages": messages(3)})
        wait_until(lambda: settled(memory))
        secondary.down = True
        wait_until(lambda: not memory.status().secondary_healthy)
        memory.put_state("t", {"messages": [*messages(4), "only the primary has this" * 30]})
        primary.down, secondary.down = True, False
        wait_until(lambda: memory.status().failed_over)
        # This process's index has values that the secondary lacks. New states must not refer to
        # them.
        assert memory.get_state("t") == {"messages": messages(3)}
        memory.put_state("t", {"messages": [*messages(4), "the secondary goes on" * 30]})
        assert memory.get_state("t") == {"messages": [*messages(4), "the secondary goes on" * 30]}
        primary.down = False
        wait_until(lambda: settled(memory))
        assert memory.get_state("t")["messages"][4] == "the secondary goes on" * 30
        memory.put_state("t", {"messages": [*messages(5)]})
        states = [each.state["messages"][-1] for each in memory.get_history("t", limit=None)]
        assert states == [
            messages(5)[-1],
            "the secondary goes on" * 30,
            "only the primary has this" * 30,
            messages(3)[-1],
        ]
        assert memory.verify().ok
        wait_until(lambda: settled(memory))
        assert clew.BaseCheckpointer(secondary.inner).get_state("t") == {"messages": messages(5)}
        assert clew.BaseCheckpointer(secondary.inner).verify().ok


@pytest.mark.parametrize("shares", [True, False])
def test_a_fork_may_refer_to_values_of_its_source_that_its_checkpoint_did_not_need(shares):
    kinds = (MemoryStorage, CopyingStorage) if shares else (CopyingStorage, MemoryStorage)
    primary, secondary = (kind() for kind in kinds)
    with clew.DistributedCheckpointer(
        clew.BaseCheckpointer(primary), clew.BaseCheckpointer(secondary), **FAST
    ) as memory:
        first = memory.put_checkpoint("t", {"messages": messages(3)})
        memory.put_state("t", {"messages": messages(20)})
        memory.fork({"thread_id": "t", "checkpoint_id": first.metadata.checkpoint_id}, "f")
        memory.put_state("f", {"messages": messages(20)})
        wait_until(lambda: settled(memory))
        alone = clew.BaseCheckpointer(secondary)
        assert alone.verify().ok
        assert alone.get_state("f") == {"messages": messages(20)}


def test_the_status_shows_health_failover_and_queue(memory, stores):
    primary, _ = stores
    memory.put_state("t", {"n": 1})
    wait_until(lambda: settled(memory))
    status = memory.status()
    assert (status.primary_healthy, status.secondary_healthy, status.active_backend) == (True, True, "primary")
    assert status.replication_mode in ("sync", "async")
    assert status.time_since_failover is None
    primary.down = True
    memory.put_state("t", {"n": 2})
    status = memory.status()
    assert (status.primary_healthy, status.failed_over, status.active_backend) == (False, True, "secondary")
    assert (status.failover_count, status.replication_queue_size) == (1, 1)
    assert status.time_since_failover is not None
    assert "on purpose" in (status.last_error or "")
    assert status.to_dict()["failed_over"] is True


def test_threads_and_totals_show_nothing_of_replication(memory):
    memory.put_state({"thread_id": "t", "user_id": "ann"}, {"n": 1})
    everybody = {"user_id": clew.ANY_USER}
    assert [each.thread_id for each in memory.list_threads(everybody)] == ["t"]
    assert memory.stats().total_sessions == 1
    assert memory.stats().total_checkpoints == 1
    assert len(memory.stats().by_day) == 1
    assert memory.clear_all() == 1
    assert memory.stats().total_sessions == 0
    memory.put_state("t", {"n": 2})
    assert memory.get_state("t") == {"n": 2}


def test_a_new_secondary_gets_everything_by_resync(tmp_path):
    with clew.connect(f"sqlite:///{tmp_path}/first.db") as alone:
        for number in range(5):
            alone.put_state({"thread_id": f"t{number}", "user_id": "ann"}, {"messages": messages(number)})
        alone.fork({"thread_id": "t4", "user_id": "ann"}, "f")
    url, other = f"sqlite:///{tmp_path}/first.db", f"sqlite:///{tmp_path}/second.db"
    with clew.connect(other) as extra:
        extra.put_state("only there", {"n": 1})
    with clew.connect(url, secondary=other, health_check_interval=0.05) as memory:
        assert isinstance(memory, clew.DistributedCheckpointer)
        steps = []
        report = memory.resync(progress=lambda done, total: steps.append((done, total)))
        assert sorted(report.repaired) == ["f", "t0", "t1", "t2", "t3", "t4"]
        assert (report.extra, report.removed, report.threads) == (("only there",), 0, 7)
        assert steps[-1] == (7, 7)
        assert memory.resync().repaired == ()
        memory.put_state({"thread_id": "t4", "user_id": "ann"}, {"messages": messages(6)})
        assert memory.resync(delete_extra=True).removed == 1
        assert memory.resync() == clew.ResyncReport(threads=6)
    with clew.connect(other) as alone:
        assert alone.get_state({"thread_id": "t4", "user_id": "ann"}) == {"messages": messages(6)}
        assert alone.get_state({"thread_id": "f", "user_id": "ann"}) == {"messages": messages(4)}
        assert alone.get_state({"thread_id": "t4", "user_id": "bob"}) is None
        assert alone.verify().ok


def test_resync_finds_and_repairs_what_differs(memory, stores):
    _, secondary = stores
    for name in "abc":
        memory.put_state(name, {"messages": messages(3)})
    wait_until(lambda: settled(memory))
    direct = clew.BaseCheckpointer(secondary.inner)
    direct.put_state("a", {"n": "changed behind its back"})
    direct.delete_thread("b")
    report = memory.resync()
    assert sorted(report.repaired) == ["a", "b"]
    assert direct.get_state("b") == {"messages": messages(3)}
    assert clew.BaseCheckpointer(secondary.inner).get_state("a") == {"messages": messages(3)}


class Counting(StorageWrapper):
    """Yields to the event loop in each call, and counts the calls."""

    applies = 0
    journals_of_a_thread = 0

    async def apply(self, commits):
        self.applies += any(commit.thread_id == "t" for commit in commits)
        await pause(0)
        return await self.inner.apply(commits)

    async def journal(self, query):
        self.journals_of_a_thread += query.thread_id is not None
        return await self.inner.journal(query)


def test_concurrent_writers_in_sync_mode_are_shipped_in_batches():
    primary, secondary = Counting(MemoryStorage()), Counting(MemoryStorage())

    async def go():
        pair = clew.DistributedCheckpointer(
            clew.BaseCheckpointer(primary), clew.BaseCheckpointer(secondary), replication_mode="sync"
        )
        async with pair as memory:
            await memory.aput_state("t", {"messages": []})
            begun = [primary.applies, secondary.applies, primary.journals_of_a_thread]

            async def writer(number):
                for turn in range(3):
                    await memory.aput_state("t", {"messages": messages(3), "who": [number, turn]})

            await asyncio.gather(*[writer(number) for number in range(20)])
            calls = [primary.applies, secondary.applies, primary.journals_of_a_thread]
            there = clew.BaseCheckpointer(secondary.inner)
            for each in (memory, there):
                history = await each.aget_history("t", limit=None)
                assert len(history) == 61
                assert (await each.averify()).ok
            here = [each.checkpoint_id for each in await memory.alist_checkpoints("t", limit=None)]
            assert [each.checkpoint_id for each in history] == here
            return [after - before for before, after in zip(begun, calls, strict=True)]

    to_primary, to_secondary, journals = asyncio.run(go())
    # Sixty saves: the first alone, then batches of waiting writers, with merges of small rows in
    # between.
    assert to_primary < 15
    assert to_secondary < 30
    assert journals < 30


def test_failover_and_resync_work_from_async_code(stores):
    primary, secondary = stores

    async def main():
        made = clew.DistributedCheckpointer(primary.checkpointer, secondary.checkpointer, **FAST)
        async with made as memory:
            await asyncio.gather(*(memory.aput_state(f"t{number}", {"n": number}) for number in range(20)))
            await memory.aresync()
            primary.down = True
            await asyncio.gather(*(memory.aput_state(f"t{number}", {"n": -number}) for number in range(20)))
            assert (await memory.astatus()).failed_over
            primary.down = False
            await asyncio.to_thread(wait_until, lambda: not primary.inner._journal and not secondary.inner._journal)
            replicated = made._replicated
            assert replicated is not None
            await asyncio.to_thread(wait_until, lambda: not replicated._coordinator.state.failed_over_at)
            assert [(await memory.aget_state(f"t{number}"))["n"] for number in range(20)] == [*range(0, -20, -1)]
            assert (await memory.aresync()).repaired == ()

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"replication_mode": "maybe"},
        {"health_check_interval": 0},
        {"health_check_interval": -1},
        {"health_check_interval": "often"},
        {"failback_delay": -1},
        {"max_failover_attempts": 0},
        {"max_outbox": 0},
        {"timeout": 0},
        {"no_such_option": 1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        clew.connect("memory://", secondary="memory://", **wrong)


def test_two_stores_that_cannot_be_replicated_are_refused():
    with pytest.raises(ConfigError, match="secondary must be a URL"):
        clew.connect("memory://", secondary=7)  # type: ignore[call-overload]
    one = clew.InMemoryCheckpointer()
    with pytest.raises(ConfigError, match="same storage"):
        clew.DistributedCheckpointer(one, one)
    with pytest.raises(ConfigError, match="same storage"):
        clew.DistributedCheckpointer(one, one, encryption=clew.Encryption(keys={"k": bytes(32)}))
    with pytest.raises(ConfigError, match="has no journal"):
        clew.DistributedCheckpointer(clew.DistributedCheckpointer("memory://", "memory://"), "memory://")


@pytest.mark.parametrize(
    ("member", "complaint"),
    [
        ("memory://?max_state_bytes=10", "max_state_bytes"),
        ("memory://?retry_for=1", "retry_for"),
        ("memory://?durability=background", "durability"),
        ("memory://?cache=memory%3A%2F%2F", "cache"),
        (lambda: clew.connect("memory://", durability="background"), "background"),
        (
            lambda: clew.connect("memory://", cleanup_interval=60, retention=clew.RetentionPolicy(max_history=9)),
            "background",
        ),
        (lambda: clew.connect("memory://", cache="memory://"), "cache"),
    ],
)
def test_a_store_with_settings_that_belong_to_the_pair_is_refused(member, complaint):
    for place in (0, 1):
        stores: list[Any] = ["memory://", "memory://"]
        stores[place] = member if isinstance(member, str) else member()
        with pytest.raises(ConfigError, match=complaint):
            clew.DistributedCheckpointer(*stores)
        if not isinstance(member, str):
            stores[place].release()


def test_release_closes_both_stores(tmp_path):
    one = clew.SQLiteCheckpointer(tmp_path / "one.db")
    memory = clew.DistributedCheckpointer(one, "memory://")
    memory.put_state("t", {"n": 1})
    memory.release()
    memory.release()
    with pytest.raises(clew.StorageError):
        one.get_state("t")
