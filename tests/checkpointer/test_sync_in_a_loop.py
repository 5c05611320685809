"""Sync calls inside a running event loop: they work alike on every storage, and never wait for themselves."""

from __future__ import annotations

import asyncio
import builtins
import logging
import threading
import time

import pytest

import clew
from clew.storage.postgres.schema import Schema
from clew.testing.servers import shared_postgres
from tests.checkpointer.support import no_thread_stays, run
from tests.storage.postgres_support import own_schema

CALLS = [
    ("put_state", ("t", {"n": 1})),
    ("get_state", ("t",)),
    ("update_state", ("t",)),
    ("put_messages", ("t", [{"role": "user", "content": "hi"}])),
    ("list_messages", ("t",)),
    ("get_messages", ("t",)),
    ("list_threads", ({},)),
    ("stats", ()),
    ("status", ()),
    ("cleanup", (clew.RetentionPolicy(max_history=1),)),
    ("exists", ("t",)),
]


@pytest.fixture
def within():
    """Runs a coroutine, and fails if it hangs."""

    def go(coroutine):
        async def limited():
            return await asyncio.wait_for(coroutine, 120)

        return run(limited())

    return go


def advice(caplog) -> list[str]:
    return [each.getMessage() for each in caplog.records if "sync call in an event loop" in each.getMessage()]


def test_sync_calls_work_in_a_loop_and_the_log_names_the_first_async_method(store, caplog, within):
    memory = store.open()

    async def go() -> None:
        for name, args in CALLS * 2:
            getattr(memory, name)(*args)
        assert await memory.aget_state("t") == memory.get_state("t") == {"n": 1}

    with caplog.at_level(logging.WARNING, logger="clew"):
        within(go())
        assert advice(caplog) == [
            "sync call in an event loop: put_state() blocks the loop until it is done; use `await aput_state()` there"
        ]
        caplog.clear()
        memory.get_thread("t")
        assert advice(caplog) == []


def enter_turn(memory: clew.Checkpointer) -> None:
    with memory.turn("t", begin={}):
        pass


def take_lease(memory: clew.Checkpointer) -> None:
    with memory.lease("t"):
        pass


def look(memory: clew.Checkpointer) -> None:
    list(memory.watch("t", timeout=0.01))


@pytest.mark.parametrize(
    ("call", "method", "form"),
    [
        (enter_turn, "turn", "async with aturn()"),
        (take_lease, "lease", "async with alease()"),
        (look, "watch", "async for … in awatch()"),
    ],
)
def test_the_log_says_how_to_write_what_is_not_awaited(call, method, form, caplog, within):
    async def go() -> None:
        call(clew.connect("memory://"))

    with caplog.at_level(logging.WARNING, logger="clew"):
        within(go())
    assert advice(caplog) == [
        f"sync call in an event loop: {method}() blocks the loop until it is done; use `{form}` there"
    ]


def test_notebooks_are_not_warned(caplog, within, monkeypatch):
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)

    async def go() -> None:
        clew.connect("memory://").put_state("t", {"n": 1})

    with caplog.at_level(logging.WARNING, logger="clew"):
        within(go())
    assert advice(caplog) == []


def test_a_sync_call_does_not_wait_for_a_task_of_the_loop_that_it_blocks(store, within):
    memory = store.open()

    async def go() -> None:
        await memory.aput_state("t", {"m": []})
        for number in range(20):
            writers = [asyncio.create_task(memory.aupdate_state("t", append={"m": [number]})) for _ in range(3)]
            await asyncio.sleep(0)  # they are under way
            begun = time.monotonic()
            memory.update_state("t", append={"m": [number]})
            memory.put_messages("t", [{"role": "user", "content": str(number)}])
            assert time.monotonic() - begun < 60
            await asyncio.gather(*writers)
        assert len((await memory.aget_state("t"))["m"]) == 80
        assert len(memory.list_messages("t")) == 20

    within(go())


def test_a_sync_call_during_a_setup_by_the_same_loop_does_not_hang(tmp_path, within, monkeypatch):
    migrate = Schema._migrate
    holds_the_lock, go_on = asyncio.Event(), asyncio.Event()

    async def paused(self: Schema, connection: object, version: int) -> None:
        holds_the_lock.set()
        await go_on.wait()
        await migrate(self, connection, version)

    async def go(memory: clew.PgCheckpointer) -> None:
        first = asyncio.create_task(memory.asetup())
        await holds_the_lock.wait()
        with pytest.raises(clew.TransientStorageError, match="await that task first"):
            memory.get_state("t")
        go_on.set()
        await first
        await memory.aput_state("t", {"n": 1})
        assert memory.get_state("t") == {"n": 1}

    monkeypatch.setattr(Schema, "_migrate", paused)
    with own_schema(tmp_path) as schema:
        memory = clew.PgCheckpointer(shared_postgres(), schema=schema, retry_for=0)
        within(go(memory))
        memory.release()


def test_turns_and_leases_work_in_a_loop(store, within):
    memory = store.open()

    async def go() -> None:
        with memory.turn("t", begin={"n": 0}) as turn:
            turn.state["n"] += 1
            turn.checkpoint(node_name="half")
            turn.say({"role": "user", "content": "hi"})
        with memory.lease("t") as lease:
            memory.put_state("t", {"n": 2})
            assert lease.token
        async with memory.aturn("t") as turn:
            turn.state["n"] += 1
        with pytest.raises(clew.LeaseError):
            async with memory.alease("t"):
                memory.lease("t").__enter__()
        assert memory.get_state("t") == {"n": 3}

    within(go())


def test_a_checkpointer_may_be_released_in_a_loop_that_has_used_it(store, within):
    async def go() -> None:
        begun = time.monotonic()
        with store.open() as memory:
            await memory.aput_state("t", {"n": 1})
            memory.put_state("t", {"n": 2})
        assert time.monotonic() - begun < 9  # it does not wait until the loop counts as blocked
        await asyncio.sleep(0.05)
        async with store.open() as memory:
            assert await memory.aget_state("t") == {"n": 2}

    within(go())
    no_thread_stays("clew-loop")


def test_a_sync_call_on_the_checkpointers_own_loop_is_refused_and_does_not_hang(remote, within):
    memory = remote.open()
    memory.put_state("t", {"n": 1})

    def calls_back(*_: object) -> None:
        memory.get_state("t")

    for call in (
        lambda: memory.cleanup(clew.RetentionPolicy(max_history=1), progress=calls_back),
        lambda: memory.repair("t", rebuild=lambda state, messages: memory.get_state("t")),
        lambda: memory.turn("new", begin=lambda: memory.get_state("t")).__enter__(),
    ):
        with pytest.raises(clew.BlockingCallError, match=r"own event loop.*use `await aget_state\(\)` there"):
            call()

    async def begin() -> object:
        return await memory.aget_state("t")

    with memory.turn("new", begin=begin) as turn:
        assert turn.state == {"n": 1}

    async def in_a_loop() -> None:
        with pytest.raises(clew.BlockingCallError):
            memory.cleanup(clew.RetentionPolicy(max_history=1), progress=calls_back)
        assert memory.get_state("t") == {"n": 1}

    within(in_a_loop())


def test_on_a_storage_that_never_suspends_callbacks_may_call_it(local):
    memory = local.open()
    memory.put_state("t", {"n": 1})
    with memory.turn("new", begin=lambda: memory.get_state("t")) as turn:
        assert turn.state == {"n": 1}


def test_background_saves_accept_sync_calls_in_a_loop(store, within):
    memory = store.open(durability="background", max_background=2)

    async def go() -> None:
        for number in range(20):
            memory.put_state("t", {"n": number})
            await memory.aput_state("u", {"n": number})
        assert memory.get_state("t") == await memory.aget_state("u") == {"n": 19}

    within(go())


def test_two_loops_block_each_other_in_no_order(store):
    memory = store.open()
    memory.put_state("t", {"m": []})

    async def go() -> None:
        for _ in range(5):
            task = asyncio.create_task(memory.aupdate_state("t", append={"m": [1]}))
            await asyncio.sleep(0)
            memory.update_state("t", append={"m": [1]})
            await task

    threads = [threading.Thread(target=lambda: asyncio.run(go())) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
        assert not each.is_alive()
    assert len(memory.get_state("t")["m"]) == 20
